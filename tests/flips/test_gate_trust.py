"""A gate believes nothing that the report contradicts, and passes nothing that it did not judge."""

import dataclasses
import json

import pytest
from flip_tables import random_pair, side

from hf_pct import FlipReport, GateConfig, NotComparableError, check_gate, compare
from hf_pct.cli import main
from hf_pct.flips.render.gate import gate_junit, gate_markdown, gate_text

RULES = dict.fromkeys(
    ("max_nfr", "max_nfr_upper", "max_class_nfr", "max_slice_nfr", "max_accuracy_loss", "max_weighted_nfr",
     "max_excess_nfr"), 0.9)  # fmt: skip


@pytest.fixture(scope="module")
def report():
    old, new, _ = random_pair(columns={"channel": ["app", "phone"] * 200, "traffic": [1.0, 2.0] * 200})
    rerun, _, _ = random_pair(seed=0)
    return compare(old, new, old_rerun=rerun, weight="traffic")


def edited(report, *path, value):
    data = json.loads(report.to_json())
    data.pop("seal")  # as a report of an earlier version, or one whose editor thought of it
    place = data
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return data


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("non_inferiority", "lower_bound"), float("nan")),
        (("non_inferiority", "lower_bound"), 0.9),
        (("classes",), []),
        (("nfr_upper",), -5),
        (("nfr_upper",), False),
        (("nfr_upper",), 2),
        (("negative_flips",), 0),
        (("negative_flips",), 3.5),
        (("negative_flips",), -1),
        (("negative_flips",), None),
        (("both_right",), 10**6),
        (("both_right",), "399"),
        (("nfr",), 0.0),
        (("total",), 4),
        (("confidence",), 0.5),
        (("confidence",), "high"),
        (("coverage", "compared"), 7),
        (("coverage", "only_old"), -3),
        (("classes", 0, "negative_flips"), 0),
        (("classes", 0, "rows"), 10**9),
        (("classes", 0, "nfr"), 0.0),
        (("classes", 0, "rows"), 0),
        (("slices", "channel", 0, "negative_flips"), 0),
        (("slices", "channel"), []),
        (("slices", "channel"), None),
        (("noise_floor", "nfr"), 0.9),
        (("noise_floor", "excess_nfr"), -1),
        (("weighted", "counts", "both_right"), -1),
        (("weighted", "nfr_interval", "confidence"), 0.1),
        (("flips",), []),
        (("flips",), [{"id": 1}]),
        (("flips", 0, "kind"), "neutral"),
        (("flips", 0), 7),
        (("intervals",), []),
        (("notes",), "none"),
        (("labels", "added_rows"), 12),
        (("labels",), None),
    ],
)
def test_an_edited_report_never_passes(report, path, value, tmp_path, capsys):
    saved = tmp_path / "r.json"
    saved.write_text(json.dumps(edited(report, *path, value=value)))
    options = [word for rule, limit in RULES.items() for word in (f"--{rule}", str(limit))]
    assert main(["gate", str(saved), *options]) in (2, 3)
    assert "Traceback" not in capsys.readouterr().err


def test_the_report_itself_passes(report):
    assert check_gate(report, GateConfig(**RULES)).passed


def test_all_counts_zero(report, tmp_path):
    data = edited(report, "nfr_upper", value=0.0)
    for name in ("both_right", "negative_flips", "positive_flips", "both_wrong_same", "both_wrong_different"):
        data[name] = 0
    (tmp_path / "r.json").write_text(json.dumps(data))
    assert main(["gate", str(tmp_path / "r.json"), "--max_nfr", "0.1"]) == 3


def test_changed_numbers_break_the_seal(report):
    data = json.loads(report.to_json())
    assert FlipReport.from_dict(data).counts == report.counts
    data["classes"][0]["p_value"] = 1.0
    with pytest.raises(NotComparableError, match="numbers were changed after it was written"):
        check_gate(FlipReport.from_dict(data), GateConfig(max_nfr=0.9))
    assert "numbers were changed" in FlipReport.from_dict(data).to_markdown()
    data = json.loads(report.to_json())
    data["notes"] = ["a remark"]
    assert FlipReport.from_dict(data).notes == ["a remark"]


def test_bounds_are_computed_again(report):
    low = dataclasses.replace(report, nfr_upper=report.nfr + 1e-9)
    rules = GateConfig(max_nfr_upper=report.nfr + 1e-6)
    assert check_gate(report, rules).exit_code == 1
    assert check_gate(low, rules).exit_code == 1


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"max_nfr": 1}, r"Was 0\.01 \(1 %\) meant\?"),
        ({"max_nfr": 0.1, "allow_partial": "no"}, "allow_partial is 'no', expected true or false"),
        ({"max_nfr": 0.1, "min_group_rows": float("inf")}, "min_group_rows is inf, expected a whole number"),
        ({"max_nfr": 0.1, "min_group_rows": True}, "min_group_rows is True"),
        ({"max_nfr": float("nan")}, "max_nfr is nan, expected a finite number"),
        ({"max_relative_nfr": float("inf")}, "expected a finite number"),
        ({"min_rows": 1.5}, "min_rows is 1.5, expected a whole number"),
    ],
)
def test_rules_are_of_their_type(rules, message):
    with pytest.raises(ValueError, match=message):
        GateConfig.from_dict(rules)


def test_doubled_rules_are_refused(tmp_path):
    path = tmp_path / "gate.yaml"
    path.write_text("max_nfr: 0.01\nmax_nfr: 0.5\n")
    with pytest.raises(ValueError, match="'max_nfr' stands twice"):
        GateConfig.from_yaml(path)


def test_the_gate_repeats_the_notes(report):
    noted = dataclasses.replace(report, notes=["3 classes are missing\n::error::x @all"])
    result = check_gate(noted, GateConfig(max_nfr=0.5))
    assert "note: 3 classes are missing\\n::error::x @all" in gate_text(result, noted)
    markdown = gate_markdown(result, noted)
    assert "- 3 classes are missing ::error::x" in markdown
    assert "@all" not in markdown
    assert "3 classes are missing" in gate_junit(result, noted)


ATTACK = "x\n::error::pwned\n\x1b[2KPASSED: every rule holds"


def test_text_from_data_stays_text(tmp_path, capsys):
    labels = [ATTACK] * 20
    names = [ATTACK, "no"]
    report = compare(side(labels, labels, names=names), side(labels[:18] + ["no"] * 2, labels, names=names))
    path = report.save(tmp_path / "r.json")
    assert main(["gate", str(path), "--max_class_nfr", "0", "--markdown", str(tmp_path / "g.md")]) == 1
    shown = capsys.readouterr().out + report.to_text() + report.to_markdown() + (tmp_path / "g.md").read_text()
    assert "\x1b" not in shown
    assert not any(line.lstrip().startswith(("::", "PASSED")) for line in shown.splitlines())
