"""Several candidates for one old model, and the gate on candidates and on chains."""

import json

import numpy as np
import pytest
from flip_tables import NAMES, random_pair, side

from hf_pct import GateConfig, NotComparableError, check_gate, compare, compare_candidates, compare_several
from hf_pct.cli import main
from hf_pct.flips.chain import ChainReport, compare_chain
from hf_pct.flips.gate.reports import load_any_report
from hf_pct.flips.several.candidates import CandidatesReport, joint_confidence


def tables(rows=400):
    """An old model, one candidate that flips much and one that flips little; both about as accurate."""
    old, much, (answers, _, labels) = random_pair(rows=rows, columns={"user": [row // 4 for row in range(rows)]})
    rng = np.random.default_rng(5)
    little = np.where(rng.random(rows) < 0.97, answers, rng.integers(0, 3, rows))
    names = np.array(NAMES)
    columns = {"user": [row // 4 for row in range(rows)]}
    return old, much, side(names[little].tolist(), names[labels].tolist(), columns=columns)


@pytest.fixture
def report():
    old, much, little = tables()
    return compare_several(old, [much, little], ["much", "little"])


def test_each_candidate_is_a_comparison_and_bounds_hold_together():
    old, much, little = tables()
    report = compare_several(old, [much, little], ["much", "little"])
    level = joint_confidence(0.95, 2)
    assert level == pytest.approx(0.975)
    for table, entry in ((much, report.reports[0]), (little, report.reports[1])):
        assert entry.to_dict() == compare(old, table, confidence=level).to_dict()
    assert compare_several(old, [much]).reports[0].confidence == 0.95  # nothing was chosen among one


def test_differences_are_the_paired_ones_and_the_order_of_rows_does_not_matter():
    old, much, little = tables()
    rng = np.random.default_rng(1)
    order = rng.permutation(len(little))
    ids = [little.ids[int(at)].as_py() for at in order]
    shuffled = side(little.predictions[order].tolist(), little.labels[order].tolist(), ids=ids, names=NAMES[::-1])
    for second in (little, shuffled):
        (difference,) = compare_several(old, [much, second], ["a", "b"]).differences
        expected = compare_candidates(old, much, second)
        assert difference.nfr == expected
        assert difference.nfr.estimate > 0
        assert difference.nfr_p == expected.p_value < 0.001
        gain = (much.labels == much.predictions).mean() - (little.labels == little.predictions).mean()
        assert difference.accuracy.estimate == pytest.approx(gain)


def test_many_pairs_are_corrected_and_clusters_are_kept_together(report):
    old, much, little = tables()
    three = compare_several(old, [much, little, old], ["a", "b", "c"])
    assert [(entry.first, entry.second) for entry in three.differences] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert all(entry.nfr_p >= entry.nfr.p_value for entry in three.differences)
    assert three.differences[0].nfr.interval.confidence == pytest.approx(joint_confidence(0.95, 3))
    by_user = compare_several(old, [much, little], ["a", "b"], cluster="user")
    assert by_user.differences[0].nfr.clusters == 100
    assert report.differences[0].nfr.clusters == 400


def test_the_front_and_what_all_break():
    labels = ["no"] * 6
    right = {"old": "111110", "a": "011111", "b": "001111", "c": "001110"}
    sides = {name: side(["no" if bit == "1" else "yes" for bit in bits], labels) for name, bits in right.items()}
    report = compare_several(sides["old"], [sides[name] for name in "abc"], list("abc"))
    assert report.front == ("a",)
    assert (report.broken_by_all, report.broken_by_any) == (1, 2)
    assert "a, NFR 16.67 % and accuracy 83.33 %; it is the most accurate one too" in report.sentence()


def test_added_classes_are_left_out_of_differences_too():
    labels = ["no", "no", "sell"]
    wide = [*NAMES, "sell"]
    old = side(["no", "no", "no"], labels)
    one, two = side(["yes", "no", "sell"], labels, names=wide), side(["no", "no", "no"], labels, names=wide)
    (difference,) = compare_several(old, [one, two], ["one", "two"]).differences
    assert difference.nfr.estimate == difference.nfr.estimate == pytest.approx(0.5)
    assert difference.accuracy.estimate == pytest.approx(-0.5)  # the row of the added class is in neither


def test_it_is_saved_and_read_and_written_for_people(report, tmp_path):
    again = CandidatesReport.load(report.save(tmp_path / "candidates.json"))
    assert again.to_dict() == report.to_dict()
    assert not again.edited
    text = report.to_markdown()
    assert "| much − little |" in text
    assert "**little**" in text
    assert "hold for all 2 candidates together with 95% confidence" in text


def test_the_gate_lets_out_the_candidate_that_keeps_every_rule(report):
    limit = (report.reports[0].nfr + report.reports[1].nfr) / 2
    result = check_gate(report, GateConfig(max_nfr=limit))
    assert result.passed
    assert result.shippable == ("little",)
    assert result.headline() == "PASSED: little keeps every rule with the fewest flips"
    assert [rule.passed for rule in result.results] == [False, True]
    assert [r.passed for r in result.deciding] == [True]
    held = check_gate(report, GateConfig(max_nfr=0))
    assert held.exit_code == 1
    assert held.headline() == "REGRESSED: no candidate keeps every rule"


def test_a_bound_is_wider_where_the_best_of_several_is_taken():
    old, much, little = tables()
    alone = check_gate(compare(old, little), GateConfig(max_nfr_upper=0.5)).results[0].value
    chosen = check_gate(compare_several(old, [much, little]), GateConfig(max_nfr_upper=0.5)).deciding[0].value
    assert chosen > alone


def candidates_mutations(data):
    """Ways to make a file greener than it was."""
    first, second = data["reports"]
    yield {**data, "names": data["names"][::-1]}
    yield {**data, "reports": [first]}
    yield {**data, "reports": [first], "names": data["names"][:1]}
    yield {**data, "reports": [second, second]}
    yield {**data, "reports": [{**first, "negative_flips": 0}, second]}
    yield {**data, "confidence": 0.5}
    yield {name: value for name, value in data.items() if name != "seal"}


def test_a_changed_file_is_not_comparable(report, tmp_path):
    for number, data in enumerate(candidates_mutations(json.loads(json.dumps(report.to_dict())))):
        path = tmp_path / f"{number}.json"
        path.write_text(json.dumps(data))
        with pytest.raises(NotComparableError):
            check_gate(load_any_report(path), GateConfig(max_nfr=0.99))
        assert main(["page", str(path), "-o", str(tmp_path / f"{number}.html")]) in (0, 3), "a page shows, or says why"


def test_what_cannot_be_compared():
    old, much, little = tables()
    with pytest.raises(ValueError, match="There are no candidates"):
        compare_several(old, [])
    with pytest.raises(ValueError, match="expected a list of Predictions"):
        compare_several(old, much)
    with pytest.raises(ValueError, match="Got 1 names for 2 candidates"):
        compare_several(old, [much, little], ["a"])
    with pytest.raises(ValueError, match="each would be judged on other rows"):
        compare_several(old, [much], allow_partial=True)
    with pytest.raises(NotComparableError, match="do not have the same rows"):
        compare_several(old, [much, tables(rows=200)[2]])


# ---- chains


def chain_of(*bits):
    labels = ["no"] * len(bits[0])
    return compare_chain([side(["no" if bit == "1" else "yes" for bit in row], labels) for row in bits])


def test_the_newest_version_is_held_against_every_earlier_one(tmp_path):
    chain = ChainReport.load(chain_of("1110000000", "0111000000", "0011110000").save(tmp_path / "chain.json"))
    result = check_gate(chain, GateConfig(max_nfr=0.2, max_cumulative_nfr=0.2, min_accuracy_gain=0.1))
    values = {rule.rule: rule.value for rule in result.results}
    assert values == pytest.approx({"max_nfr": 0.2, "max_cumulative_nfr": 0.2, "min_accuracy_gain": 0.1})
    assert result.passed
    assert "v1 m replaced by v3 m" in result.results[0].where
    assert check_gate(chain, GateConfig(max_nfr=0.15)).exit_code == 1
    assert check_gate(chain, GateConfig(max_cumulative_nfr=0.15)).exit_code == 1


def test_bounds_of_a_chain_hold_for_all_earlier_versions():
    bits = ["1" * 300, "1" * 300]
    pair = check_gate(chain_of(*bits), GateConfig(max_nfr_upper=0.5, max_accuracy_loss=0.5)).results
    three = check_gate(chain_of(*bits, bits[0]), GateConfig(max_nfr_upper=0.5, max_accuracy_loss=0.5)).results
    assert pair[0].value == pytest.approx(0.0099, abs=1e-4)  # 0 flips in 300 rows
    assert all(later.value > earlier.value for earlier, later in zip(pair, three, strict=True))


def test_what_a_chain_cannot_answer_is_not_green(tmp_path):
    chain = chain_of("111", "110", "110")
    with pytest.raises(NotComparableError, match="max_class_nfr: a chain cannot answer this"):
        check_gate(chain, GateConfig(max_class_nfr=0.5))
    with pytest.raises(ValueError, match="no rule"):
        check_gate(chain, GateConfig())
    with pytest.raises(NotComparableError, match="this report is of two versions"):
        check_gate(compare(*random_pair()[:2]), GateConfig(max_cumulative_nfr=0.5))
    data = json.loads(json.dumps(chain.to_dict()))
    for changed in (
        {**data, "cumulative_nfr": [0, 0, 0]},
        {**data, "nfr": [[0.0] * 3] * 3},
        {**data, "replaced": data["replaced"][1:]},
        {name: data[name] for name in data if name not in ("seal", "replaced", "left_out")},  # an earlier version's
    ):
        (tmp_path / "chain.json").write_text(json.dumps(changed))
        with pytest.raises(NotComparableError):
            check_gate(load_any_report(tmp_path / "chain.json"), GateConfig(max_nfr=0.9))


def test_a_partial_chain_needs_leave():
    full, part = side(["no"] * 4, ["no"] * 4), side(["no"] * 3, ["no"] * 3)
    chain = compare_chain([full, full, part], allow_partial=True)
    assert chain.left_out == 1
    with pytest.raises(NotComparableError, match="leaves out 1 rows"):
        check_gate(chain, GateConfig(max_nfr=0.5))
    assert check_gate(chain, GateConfig(max_nfr=0.5, allow_partial=True)).passed


# ---- the commands


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, table in zip(("v1", "much", "little"), tables(), strict=True):
        table.save(f"{name}.parquet")
    return tmp_path


def test_candidates_from_files_to_a_gate_and_a_page(files, capsys):
    names = ["v1.parquet", "much.parquet", "little.parquet"]
    assert main(["compare", *names, "--candidates", "--output_dir", "out", "--plots", "plots"]) == 0
    printed = capsys.readouterr().out
    assert "3 candidates" not in printed
    assert "2 candidates against" in printed
    assert "much.parquet − little.parquet" in printed
    assert {path.name for path in (files / "out").iterdir()} == {
        "candidates.json", "candidates.md", "old_predictions.parquet", "candidate_1_predictions.parquet",
        "candidate_2_predictions.parquet",
    }  # fmt: skip
    assert (files / "plots" / "accuracy_nfr.png").stat().st_size > 1000
    gate = ["gate", "out/candidates.json", "--markdown", "g.md", "--junit", "g.xml", "--overwrite"]
    assert main([*gate, "--max_nfr", "0.1"]) == 0
    assert 'failures="0"' in (files / "g.xml").read_text()
    assert "PASSED: little.parquet keeps every rule" in (files / "g.md").read_text()
    assert main([*gate, "--max_nfr", "0.0"]) == 1
    (files / "gate.yaml").write_text("max_nfr: 0.1\n")
    assert main(["page", "out/candidates.json", "-o", "c.html", "--gate", "gate.yaml"]) == 0
    page = (files / "c.html").read_text()
    for part in ('id="scatter"', 'id="differences"', "little.parquet", "Gate passed"):
        assert part in page


def test_a_chain_from_files_to_a_gate(files, capsys):
    names = ["v1.parquet", "much.parquet", "little.parquet"]
    assert main(["compare", *names, "--output_dir", "chain"]) == 0
    assert main(["gate", "chain/chain.json", "--max_cumulative_nfr", "0.9", "--max_nfr", "0.9"]) == 0
    assert main(["gate", "chain/chain.json", "--max_cumulative_nfr", "0.0"]) == 1
    capsys.readouterr()
    assert main(["page", "chain/chain.json", "-o", "c.html"]) == 2
    assert "--chain chain/chain.json" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["v1.parquet", "--candidates"], "Got 1 models with --candidates"),
        (["v1.parquet", "much.parquet", "little.parquet", "--weight", "user"], "--weight: a chain does not have it"),
        (["v1.parquet", "much.parquet", "--candidates", "--right_at", "1"], "--right_at: it is an option for scores"),
        (["v1.parquet", "much.parquet", "--candidates", "--allow_partial"], "each would be judged on other rows"),
    ],
)
def test_options_that_would_have_no_effect_are_refused(files, capsys, words, problem):
    assert main(["compare", *words]) == 2
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize("option", [[], ["--candidates"]])
def test_a_second_run_may_read_the_copies_of_the_first_but_not_in_another_order(files, capsys, option):
    written = ["--output_dir", "out", "--overwrite", *option]
    assert main(["compare", "v1.parquet", "much.parquet", "little.parquet", *written]) == 0
    names = ("old", "candidate_1", "candidate_2") if option else ("v1", "v2", "v3")
    copies = [files / "out" / f"{name}_predictions.parquet" for name in names]
    before = [path.read_bytes() for path in copies]
    assert main(["compare", *map(str, copies), *written]) == 0
    assert [path.read_bytes() for path in copies] == before
    assert main(["compare", *map(str, reversed(copies)), *written]) == 2
    assert "is read here and would be written over" in capsys.readouterr().err
