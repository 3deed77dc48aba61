"""Traffic without labels: what is counted, what is refused, and whether the intervals hold."""

import csv
import json
import math

import numpy as np
import pyarrow as pa
import pytest

from hf_pct import GateConfig, NotComparableError, Predictions
from hf_pct.flips.stats import clopper_pearson
from hf_pct.flips.traffic.answers import Answers
from hf_pct.flips.traffic.differences import compare_traffic
from hf_pct.flips.traffic.estimate import StratumLabels, TrafficLabels
from hf_pct.flips.traffic.gate import check_traffic_gate
from hf_pct.flips.traffic.labels import count_strata, read_labels
from hf_pct.flips.traffic.plan import label_plan
from hf_pct.flips.traffic.report import TrafficReport, traffic_report

ROWS = 2000


def answers(values, ids=None, **columns):
    ids = [f"r{index}" for index in range(len(values))] if ids is None else ids
    arrow = {name: pa.chunked_array([pa.array(column)]) for name, column in columns.items()}
    return Answers(pa.array(ids), pa.array(values), None, arrow)


@pytest.fixture(scope="module")
def traffic():
    """2,000 rows, of which 100 differ: 60 pay -> send, 37 pay -> stop, 3 other pairs."""
    old = ["pay"] * ROWS
    new = ["send"] * 60 + ["stop"] * 37 + ["top up", "close", "open"] + ["pay"] * (ROWS - 100)
    return compare_traffic(answers(old, channel=["app", "web"] * (ROWS // 2)), answers(new))


def fill(plan, path, rights):
    """The plan with the column right filled in, in the order of the plan; None leaves a row empty."""
    plan.save(path, overwrite=True)
    rows = list(csv.DictReader(path.open(newline="")))
    for row, right in zip(rows, rights, strict=False):
        row["right"] = right or ""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_churn_pairs_and_slices(traffic):
    assert (traffic.rows, traffic.differ, traffic.churn) == (ROWS, 100, 0.05)
    assert traffic.pairs()[:2] == [(("pay", "send"), 60), (("pay", "stop"), 37)]
    interval = traffic.churn_interval()
    assert (interval.low, interval.high) == pytest.approx(
        (clopper_pearson(100, ROWS).low, clopper_pearson(100, ROWS).high)
    )
    assert {(entry.column, entry.value, entry.differ) for entry in traffic.slices} == {
        ("channel", "app", 50),
        ("channel", "web", 50),
    }


def test_the_most_telling_rows_are_those_where_both_are_sure():
    ids, sure = pa.array(list("abc")), np.array([0.9, 0.6, 0.99])
    old = Answers(ids, pa.array(["x", "x", "x"]), sure)
    new = Answers(ids, pa.array(["y", "y", "y"]), np.array([0.8, 0.9, 0.3]))
    assert [row["id"] for row in compare_traffic(old, new).telling(2)] == ["a", "b"]


def test_without_confidences_every_kind_of_change_is_shown():
    traffic = compare_traffic(answers(["x"] * 6), answers(["y", "y", "y", "z", "z", "w"]))
    assert [row["id"] for row in traffic.telling(4)] == ["r0", "r3", "r5", "r1"]


def test_slices_have_the_confidence_that_was_asked_for():
    old, new = answers(["x"] * 50, channel=["app"] * 50), answers(["y"] * 5 + ["x"] * 45)
    wide, narrow = (compare_traffic(old, new, confidence=level).slices[0].interval for level in (0.99, 0.8))
    assert (wide.low, wide.high) == (clopper_pearson(5, 50, 0.99).low, clopper_pearson(5, 50, 0.99).high)
    assert narrow.high < wide.high


def test_rows_are_joined_by_id_and_never_silently_left_out():
    old, new = answers(["a", "b", "c"]), answers(["c", "b", "x"], ids=["r2", "r1", "r9"])
    with pytest.raises(NotComparableError, match=r"1 of 3 ids are only on the old side and 1 of 3 only on the new"):
        compare_traffic(old, new)
    part = compare_traffic(old, new, allow_partial=True)
    assert (part.rows, part.differ, part.left_out) == (2, 0, 2)
    with pytest.raises(NotComparableError, match="No id is on both sides"):
        compare_traffic(old, answers(["a"], ids=["z"]), allow_partial=True)


@pytest.mark.parametrize(
    ("ids", "values", "message"),
    [
        (["a", "a"], ["x", "y"], "1 ids stand on more than one row: 'a'"),
        (["a", "b"], ["x", None], "1 of 2 rows have no prediction"),
        (["a", "b"], ["x", ""], "1 of 2 rows have no prediction"),
        ([], [], "no rows"),
    ],
)
def test_bad_answers(ids, values, message):
    with pytest.raises(ValueError, match=message):
        Answers(pa.array(ids, pa.string()), pa.array(values, pa.string()))


def test_answers_from_files_with_and_without_labels(tmp_path):
    (tmp_path / "a.csv").write_text("id,prediction,text\n007,yes,hello\n8,no,there\n")
    (tmp_path / "b.jsonl").write_text('{"id": "007", "prediction": "no"}\n{"id": "8", "prediction": "no"}\n')
    traffic = compare_traffic(Answers.load(tmp_path / "a.csv"), Answers.load(tmp_path / "b.jsonl"))
    assert traffic.differing.to_pylist() == [{"id": "007", "old_answer": "yes", "new_answer": "no", "text": "hello"}]
    Predictions(["007", "8"], ["no", "no"], logits=[[0.0, 2.0], [3.0, 0.0]], label_names=["no", "yes"]).save(
        tmp_path / "c.parquet"
    )
    labelled = Answers.load(tmp_path / "c.parquet")
    assert labelled.answers.to_pylist() == ["yes", "no"]
    assert labelled.confidence == pytest.approx([0.8808, 0.9526], abs=1e-4)
    (tmp_path / "d.csv").write_text("id,answer\n1,yes\n")
    with pytest.raises(ValueError, match="columns id, answer, expected id and prediction"):
        Answers.load(tmp_path / "d.csv")


def test_a_plan_is_random_reproducible_and_never_overwritten(traffic, tmp_path):
    plan = label_plan(traffic, 30)
    assert len(plan) == 30
    assert plan.table.equals(label_plan(traffic, 30).table)
    assert not plan.table.equals(label_plan(traffic, 30, seed=1).table)
    assert len(label_plan(traffic, 1000)) == 100
    for name in ("plan.csv", "plan.jsonl"):
        plan.save(tmp_path / name)
        with pytest.raises(FileExistsError):
            plan.save(tmp_path / name)
    rows = [json.loads(line) for line in (tmp_path / "plan.jsonl").read_text().splitlines()]
    assert rows[0]["right"] == ""
    with pytest.raises(ValueError, match=r"expected \.csv or \.jsonl"):
        plan.save(tmp_path / "plan.xlsx")
    alike = compare_traffic(answers(["a"]), answers(["a"]))
    with pytest.raises(ValueError, match="nothing to label"):
        label_plan(alike, 5)


def test_a_stratified_plan_takes_some_of_every_frequent_pair(traffic, tmp_path):
    plan = label_plan(traffic, 40, strategy="stratified")
    counts = {name: plan.table["stratum"].to_pylist().count(name) for name in set(plan.table["stratum"].to_pylist())}
    assert set(counts) == {'["pay", "send"]', '["pay", "stop"]', "(rare pairs)"}
    assert counts['["pay", "send"]'] > counts['["pay", "stop"]'] > counts["(rare pairs)"] >= 2
    path = fill(plan, tmp_path / "s.csv", ["old"] * len(plan))
    strata = count_strata(read_labels(path, traffic).labels, traffic)
    assert {stratum.name: stratum.differ for stratum in strata} == {
        '["pay", "send"]': 60,
        '["pay", "stop"]': 37,
        "(rare pairs)": 3,
    }
    with pytest.raises(ValueError, match="needs a uniform plan"):
        traffic_report(traffic, read_labels(path, traffic), max_nfr=0.04)


def test_labels_by_verdict_or_by_answer(traffic, tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("id,right,label\nr0,old,\nr1,,send\nr2,NEITHER,\nr3,,pay\nr4,unsure,\nr5,,\n")
    filled = read_labels(path, traffic)
    assert [label.right for label in filled.labels] == ["old", "new", "neither", "old", "unsure"]
    assert any("uniform random sample" in note for note in filled.notes)
    other = tmp_path / "other.csv"
    other.write_text("id,label\nr0,refund\n")
    assert read_labels(other, traffic, allow_other=True).labels[0].right == "neither"


def test_every_problem_of_a_label_file_is_named_at_once(traffic, tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text(
        "id,right,label\nr500,old,\nnobody,old,\nr0,maybe,\nr1,,refund\nr2,old,send\nr3,old,\nr3,new,\n", "utf-8"
    )
    before = path.read_bytes()
    with pytest.raises(ValueError, match="cannot be used") as raised:
        read_labels(path, traffic)
    message = str(raised.value)
    assert "2 ids are not rows that the two models answer differently" in message
    assert "'r500', 'nobody'" in message
    assert "'maybe' in the column right, expected old, new, neither, unsure" in message
    assert "a label that is neither answer ('refund', answers 'pay' and 'send')" in message
    assert "--allow_other" in message
    assert "say old in the column right, but their label 'send' means new" in message
    assert "1 ids stand on more than one row: 'r3'" in message
    assert path.read_bytes() == before
    path.write_text("id,right\nr0,\n")
    with pytest.raises(ValueError, match="none is filled in"):
        read_labels(path, traffic)
    path.write_text("name,right\nr0,old\n")
    with pytest.raises(ValueError, match="expected id and right"):
        read_labels(path, traffic)


def test_labels_speak_of_the_models_that_they_were_planned_for(traffic, tmp_path):
    path = fill(label_plan(traffic, 20), tmp_path / "p.csv", ["new"] * 20)
    assert len(read_labels(path, traffic).labels) == 20
    old, new = answers(["pay"] * ROWS), answers(["send"] * 60 + ["stop"] * 40 + ["pay"] * (ROWS - 100))
    with pytest.raises(ValueError, match="20 ids were planned for other answers"):
        read_labels(path, compare_traffic(new, old))  # swapped: "new is right" would count as a negative flip
    third = compare_traffic(old, answers(["close"] * 100 + ["pay"] * (ROWS - 100)))
    with pytest.raises(ValueError, match="planned for other answers"):
        read_labels(path, third)


def test_labels_of_all_differing_rows_leave_nothing_open(traffic, tmp_path):
    plan = label_plan(traffic, 100)
    rights = ["old"] * 30 + ["new"] * 50 + ["neither"] * 20
    report = traffic_report(traffic, read_labels(fill(plan, tmp_path / "p.csv", rights), traffic))
    assert report.nfr.value == report.nfr.upper == pytest.approx(30 / ROWS)
    assert report.pfr.interval.low == report.pfr.interval.high == pytest.approx(50 / ROWS)
    assert report.gain.value == report.gain.lower == pytest.approx(20 / ROWS)


def test_unsure_labels_widen_both_ends():
    sure = TrafficLabels(ROWS, (StratumLabels("(all)", 100, 10, 20, 10),))
    unsure = TrafficLabels(ROWS, (StratumLabels("(all)", 100, 10, 20, 10, 10),))
    assert unsure.rate("old").interval.high > sure.rate("old").interval.high
    assert unsure.rate("old").interval.low <= sure.rate("old").interval.low
    assert unsure.gain().lower < sure.gain().lower
    worst = TrafficLabels(ROWS, (StratumLabels("(all)", 100, 20, 20, 10),))
    assert unsure.rate("old").upper == pytest.approx(worst.rate("old").upper)


def test_skipped_rows_are_noted_and_not_used_by_a_verdict(traffic, tmp_path):
    plan = label_plan(traffic, 20)
    path = fill(plan, tmp_path / "gap.csv", ["new"] * 5 + [None] + ["old"] * 4)
    filled = read_labels(path, traffic)
    assert any("1 rows of the plan were skipped" in note for note in filled.notes)
    assert len(filled.before_the_first_gap()) == 5
    report = traffic_report(traffic, filled, max_nfr=0.01)
    assert (report.verdict.verdict, report.verdict.labels_used) == ("label on", 5)
    assert "LABEL ON" in report.to_text()


def test_a_report_is_computed_again_from_its_counts(traffic, tmp_path):
    rights = ["old"] * 3 + ["new"] * 30
    path = fill(label_plan(traffic, 33), tmp_path / "p.csv", rights)
    report = traffic_report(traffic, read_labels(path, traffic))
    saved = report.save(tmp_path / "traffic.json")
    assert TrafficReport.load(saved) == report
    data = json.loads(saved.read_text())
    changed = {**data, "estimates": {**data["estimates"], "nfr": {**data["estimates"]["nfr"], "upper": 0.0}}}
    saved.write_text(json.dumps(changed))
    with pytest.raises(ValueError, match="estimates is not what follows from its counts"):
        TrafficReport.load(saved)
    assert TrafficReport.from_dict({**data, "estimates": data["estimates"]}).nfr.upper == report.nfr.upper > 0
    for change in ({"differ": 5000}, {"rows": 0}, {"differ": "many"}, {"format": "other"}, {"differ": 90}):
        with pytest.raises(ValueError, match="report"):
            TrafficReport.from_dict(data | change, "the report")
    for count in (-1, 1.5, math.nan, 4000):
        strata = {**data["labels"], "strata": [{**data["labels"]["strata"][0], "old": count}]}
        with pytest.raises(ValueError, match=r"report|labels"):
            TrafficReport.from_dict(data | {"labels": strata}, "the report")


def test_the_gate_judges_traffic(traffic, tmp_path):
    rights = ["old"] + ["new"] * 23 + ["old"] * 2 + ["new"] * 24
    path = fill(label_plan(traffic, 50), tmp_path / "p.csv", rights)
    report = traffic_report(traffic, read_labels(path, traffic))
    assert check_traffic_gate(report, GateConfig(max_nfr=0.01, max_nfr_upper=0.02, min_rows=50)).passed
    assert not check_traffic_gate(report, GateConfig(max_nfr=0.001)).passed
    assert check_traffic_gate(report, GateConfig(min_accuracy_gain=0.0, max_accuracy_loss=0.0)).passed
    with pytest.raises(NotComparableError, match="max_class_nfr: labels of differing rows cannot answer"):
        check_traffic_gate(report, GateConfig(max_class_nfr=0.1))
    with pytest.raises(NotComparableError, match="has no labels"):
        check_traffic_gate(traffic_report(traffic), GateConfig(max_nfr=0.01))
    undecided = traffic_report(traffic, read_labels(path, traffic), max_nfr=0.003)
    assert undecided.verdict.verdict == "label on"
    with pytest.raises(NotComparableError, match="Label on"):
        check_traffic_gate(undecided, GateConfig(max_nfr=0.003))


def test_labels_that_are_all_unsure_judge_nothing():
    labels = TrafficLabels(100, (StratumLabels("(all)", 20, unsure=10),))
    with pytest.raises(NotComparableError, match="All 10 labels are 'unsure'"):
        check_traffic_gate(TrafficReport(100, 20, labels=labels), GateConfig(max_nfr=0.01))


def test_counts_that_the_written_rates_do_not_follow_from_are_refused():
    labels = TrafficLabels(100, (StratumLabels("(all)", 20, old=10),))
    data = json.loads(json.dumps(TrafficReport(100, 20, labels=labels).to_dict()))
    assert TrafficReport.from_dict(data).nfr.value == 0.2
    data["labels"]["strata"][0] |= {"old": 0, "neither": 10}
    with pytest.raises(ValueError, match="estimates is not what follows from its counts"):
        TrafficReport.from_dict(data)


@pytest.mark.parametrize("change", [str.upper, lambda name: name + " ", lambda name: name.replace("_", "-")])
def test_one_class_under_two_spellings_is_no_change(change):
    old = ["top_up", "pay_in", "close"] * 20
    with pytest.raises(NotComparableError, match=r"another spelling than the old ones.*Correct one of the files"):
        compare_traffic(answers(old), answers([change(name) for name in old]))
    once = [name if row else change(name) for row, name in enumerate(old)]  # a rare answer is an answer
    assert compare_traffic(answers(old), answers(once)).differ == 1


def test_indices_beside_names():
    names = ["top_up", "pay_in", "close"] * 20
    indices = [str(row % 3) for row in range(60)]
    with pytest.raises(NotComparableError, match="class indices and the other with names"):
        compare_traffic(answers(names), answers(indices))
    assert compare_traffic(answers(indices), answers(indices)).differ == 0


@pytest.mark.parametrize("metadata", [b"[]", b'{"label_names": 5}', b'{"provenance": []}', b'{"label_names": [1]}'])
def test_metadata_is_read_as_that_of_any_table(tmp_path, metadata):
    import pyarrow.parquet as pq

    table = pa.table({"id": ["1"], "prediction": ["a"]}).replace_schema_metadata({b"hf_pct": metadata})
    pq.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="its metadata"):
        Answers.load(tmp_path / "t.parquet")


@pytest.mark.parametrize("empty", ["", " ", "\u200b"])
def test_an_empty_answer_is_none(empty):
    with pytest.raises(ValueError, match="1 of 2 rows have no prediction"):
        answers(["pay", empty])
