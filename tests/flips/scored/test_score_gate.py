"""The gate on scores: rules for all tasks, rules by task, and what cannot be judged."""

import json

import numpy as np
import pytest
from score_tables import random_scores, repeated, scored

from hf_pct import GateConfig, NotComparableError, ScoreGateConfig, check_gate, compare
from hf_pct.cli import main
from hf_pct.flips.gate import GateResult
from hf_pct.flips.scored.report import ScoreReport
from hf_pct.viz.page.write import render_page


def two_tasks():
    tasks = ["gsm8k"] * 100 + ["arc"] * 100
    ids = [str(row) for row in range(100)] * 2
    old = scored([1.0] * 200, ids=ids, tasks=tasks)
    new = scored([0.0] * 3 + [1.0] * 97 + [0.0] + [1.0] * 99, ids=ids, tasks=tasks)
    return compare(old, new)


def test_a_rule_holds_when_it_holds_in_every_task():
    report = two_tasks()
    assert check_gate(report, GateConfig(max_nfr=0.03)).passed
    result = check_gate(report, GateConfig(max_nfr=0.02))
    assert not result.passed
    assert result.results[0].where == "gsm8k"
    assert result.results[0].value == 0.03


def test_rules_of_a_task_go_over_the_general_ones():
    report = two_tasks()
    rules = ScoreGateConfig.from_dict({"max_nfr": 0.02, "tasks": {"gsm8k": {"max_nfr": 0.05}}})
    result = check_gate(report, rules)
    assert result.passed
    assert [(rule.where, rule.limit) for rule in result.results] == [("arc", 0.02), ("gsm8k", 0.05)]
    only = ScoreGateConfig.from_dict({"tasks": {"gsm8k": {"max_nfr": 0.02}}})
    assert not check_gate(report, only).passed


def test_no_task_may_regress():
    rng = np.random.default_rng(0)
    tasks = np.repeat(["a", "b"], 200).tolist()
    ids = [str(row) for row in range(200)] * 2
    old = scored([1.0] * 400, ids=ids, tasks=tasks)
    new = scored((rng.random(400) > np.repeat([0.0, 0.1], 200)).astype(float).tolist(), ids=ids, tasks=tasks)
    result = check_gate(compare(old, new), ScoreGateConfig(max_regressed_tasks=0, min_mean_gain=-0.2))
    assert [(rule.rule, rule.passed, rule.where) for rule in result.results] == [
        ("max_regressed_tasks", False, "b"),
        ("min_mean_gain", True, "mean of scores"),
    ]


def test_graded_rules():
    report = compare(scored([0.5, 0.6, 0.7, 0.8]), scored([0.5, 0.6, 0.7, 0.4]), right_at="none", tolerance=0.1)
    rules = ScoreGateConfig(max_dropped=0.25, min_score_gain=-0.1, max_score_loss=0.05)
    result = check_gate(report, rules)
    assert [(rule.rule, rule.passed) for rule in result.results] == [
        ("max_dropped", True),
        ("min_score_gain", True),
        ("max_score_loss", False),
    ]
    with pytest.raises(NotComparableError, match=r"max_nfr is set, but task all was compared without right and wrong"):
        check_gate(report, GateConfig(max_nfr=0.1))


def test_items_that_regressed():
    report = compare(repeated(0, [1.0] * 10, 10), repeated(1, [0.0] + [1.0] * 9, 10))
    assert check_gate(report, ScoreGateConfig(max_regressed_items=0.1)).passed
    assert not check_gate(report, ScoreGateConfig(max_regressed_items=0.05)).passed
    with pytest.raises(NotComparableError, match="has no repeated runs"):
        check_gate(two_tasks(), ScoreGateConfig(max_regressed_items=0.05))


def test_slices_and_classes():
    columns = {"lang": ["en", "de"] * 50}
    old = scored([1.0] * 100, columns=columns, labels=["x", "y"] * 50)
    new = scored([1.0, 0.0] + [1.0] * 98, columns=columns, labels=["x", "y"] * 50)
    report = compare(old, new, slices=["lang", "label"])
    result = check_gate(report, GateConfig(max_slice_nfr=0.01, max_class_nfr=0.05))
    assert [(rule.passed, rule.where) for rule in result.results] == [
        (True, "label = y: 1 of 50 rows"),
        (False, "lang = de: 1 of 50 rows"),
    ]
    with pytest.raises(NotComparableError, match="has no slice with 80 rows"):
        check_gate(report, GateConfig(max_slice_nfr=0.01, min_group_rows=80))


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"max_weighted_nfr": 0.1}, "a report of scores does not have it"),
        ({"max_excess_nfr": 0.1}, "task gsm8k has no noise floor"),
        ({"tasks": {"gsm": {"max_nfr": 0.1}}}, "tasks that the report lacks: 'gsm'. Its tasks: 'gsm8k', 'arc'"),
    ],
)
def test_what_cannot_be_judged_is_not_green(rules, message):
    with pytest.raises(NotComparableError, match=message):
        check_gate(two_tasks(), ScoreGateConfig.from_dict(rules))


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (
            {"tasks": {"gsm8k": {"max_nrf": 0.1}}},
            r"tasks\.gsm8k: Unknown gate rules: 'max_nrf' \(did you mean max_nfr",
        ),
        ({"tasks": {"gsm8k": {"max_nfr": 3}}}, r"tasks\.gsm8k: (?s:.*)max_nfr is 3"),
        ({"tasks": {"gsm8k": {"max_regressed_tasks": 0}}}, "about all tasks together"),
        ({"tasks": {"gsm8k": 0.1}}, r"tasks\.gsm8k is 0\.1, expected rules"),
        ({"tasks": [1]}, "expected rules below the name of each task"),
        ({"max_dropped": 2}, "max_dropped is 2, expected a fraction"),
        ({"max_regressed_tasks": 0.5}, "expected a whole number"),
        ({"max_score_loss": -1}, "not negative"),
        ({"min_score_gain": float("nan")}, "finite number"),
    ],
)
def test_rules_that_make_no_sense(rules, message):
    with pytest.raises(ValueError, match=message):
        ScoreGateConfig.from_dict(rules)


def test_no_rule_is_no_pass():
    with pytest.raises(ValueError, match="would pass anything"):
        check_gate(two_tasks(), ScoreGateConfig())


def test_partial_reports_need_leave():
    report = compare(scored([1.0, 1.0]), scored([1.0]), allow_partial=True)
    with pytest.raises(NotComparableError, match="1 are left out"):
        check_gate(report, GateConfig(max_nfr=0.5))
    assert check_gate(report, GateConfig(max_nfr=0.5, allow_partial=True)).passed


def test_a_report_that_contradicts_itself_is_not_judged(tmp_path):
    data = two_tasks().to_dict()
    data["tasks"][0]["outcomes"]["broken"] = 0
    (tmp_path / "r.json").write_text(json.dumps(data))
    assert main(["gate", str(tmp_path / "r.json"), "--max_nfr", "0.01"]) == 3


def test_rules_of_scores_on_a_report_of_answers(tmp_path, capsys):
    from flip_tables import random_pair

    old, new, _ = random_pair()
    compare(old, new).save(tmp_path / "r.json")
    assert main(["gate", str(tmp_path / "r.json"), "--max_nfr", "0.9", "--max_dropped", "0.1"]) == 3
    assert "only a report of scores has it" in capsys.readouterr().err


def test_the_command(tmp_path, capsys):
    two_tasks().save(tmp_path / "score_report.json")
    report = str(tmp_path / "score_report.json")
    assert main(["gate", report, "--max_nfr", "0.03"]) == 0
    assert main(["gate", report, "--max_nfr", "0.02", "--junit", str(tmp_path / "j.xml")]) == 1
    printed = capsys.readouterr().out
    assert "FAIL  max_nfr  3.00 %, at most 2.00 % allowed: 1.00 points outside  (gsm8k)" in printed
    assert "gsm8k" in (tmp_path / "j.xml").read_text()
    (tmp_path / "gate.yaml").write_text("max_nfr: 0.03\ntasks:\n  gsm8k: {max_nfr: 0.01}\n")
    assert main(["gate", report, "--config", str(tmp_path / "gate.yaml"), "--markdown", str(tmp_path / "g.md")]) == 1
    assert "gsm8k" in (tmp_path / "g.md").read_text()
    assert main(["gate", report, "--tasks", '{"arc": {"max_nfr": 0.02}}']) == 0
    assert main(["gate", report, "--max_score_loss", "0.5", "--max_regressed_tasks", "0"]) == 0
    assert "0 tasks, at most 0 tasks allowed" in capsys.readouterr().out
    page = tmp_path / "p.html"
    assert main(["page", report, "--gate", str(tmp_path / "gate.yaml"), "-o", str(page)]) == 0
    assert "Held back by the gate" in page.read_text()


def test_the_page_lists_the_rules():
    report = compare(random_scores(0), random_scores(1))
    page = render_page(report, gate=check_gate(report, GateConfig(max_nfr=0.001)))
    assert "Held back by the gate" in page


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["tasks"], []),
        (["confidence"], 1 - 1e-9),
        (["pooled", "mean", "estimate"], 0.9),
        (["pooled", "mean", "weights"], {"gsm8k": 0.0, "arc": 1.0}),
        (["tasks", 0, "outcomes"], {}),
        (["tasks", 0, "outcomes", "broken"], 0.0),
        (["tasks", 0, "rates", "dropped"], 0.0),
        (["tasks", 0, "rates"], {"dropped": 0.0}),
        (["tasks", 0, "gain", "estimate"], 1.0),
        (["tasks", 0, "gain", "interval", "low"], 1.0),
        (["tasks", 1, "task"], "gsm8k"),
    ],
)
@pytest.mark.parametrize("sealed", [True, False])  # reports of earlier versions have no seal
def test_an_edited_report_never_passes(tmp_path, capsys, path, value, sealed):
    report = json.loads(two_tasks().to_json())
    if not sealed:
        del report["seal"]
    assert check_gate(ScoreReport.from_dict(report), ScoreGateConfig(max_nfr=0.5, max_score_loss=0.5)).passed
    *parents, last = path
    inner = report
    for key in parents:
        inner = inner[key]
    inner[last] = value
    (tmp_path / "score_report.json").write_text(json.dumps(report))
    rules = ["--max_nfr", "0.5", "--min_mean_gain=-0.5", "--max_regressed_tasks", "2", "--max_dropped", "0.5"]
    assert main(["gate", str(tmp_path / "score_report.json"), *rules, "--max_score_loss", "0.5"]) in (2, 3)
    assert "unexpected error" not in capsys.readouterr().err


def test_a_gate_that_judges_nothing_is_no_pass():
    assert not GateResult(()).passed
    rules = ScoreGateConfig.from_dict({"tasks": {"gsm8k": {"max_nfr": 0.5}, "arc": {"max_nfr": 0.5}}, "max_nfr": 0.5})
    assert check_gate(two_tasks(), rules).passed
