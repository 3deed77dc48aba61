import datetime
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from flip_tables import NAMES, random_pair, side
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_pct import NotComparableError, Predictions, compare, compare_candidates, count_flips
from hf_pct.flips import stats


def test_the_report_counts_what_count_flips_counts():
    old, new, arrays = random_pair()
    report = compare(old, new)
    assert report.counts == count_flips(*arrays)
    assert report.nfr == report.counts.nfr
    assert report.intervals["nfr"] == stats.clopper_pearson(report.counts.negative_flips, 400)
    assert report.nfr_upper == stats.upper_bound(report.counts.negative_flips, 400)
    assert report.mcnemar == stats.mcnemar(report.counts.negative_flips, report.counts.positive_flips)


@settings(max_examples=30)
@given(st.integers(0, 10_000))
def test_rows_are_joined_by_id_and_labels_by_name(seed):
    """Shuffling the rows and the class order of one side changes nothing."""
    old, new, _ = random_pair(seed, rows=60)
    rng = np.random.default_rng(seed)
    order, names = rng.permutation(60), [NAMES[index] for index in rng.permutation(3)]
    shuffled = Predictions(
        np.array(new.ids.to_pylist())[order].tolist(),
        [names.index(name) for name in new.labels[order]],
        [names.index(name) for name in new.predictions[order]],
        label_names=names,
        provenance=new.provenance,
    )
    straight, joined = compare(old, new), compare(old, shuffled)
    assert joined.counts == straight.counts
    assert joined.classes == straight.classes
    assert joined.flips.equals(straight.flips)
    # the order of equally frequent confusions follows the classes; what they are does not
    assert {(c.label, c.new_answer, c.count) for c in joined.confusions} == {
        (c.label, c.new_answer, c.count) for c in straight.confusions
    }


def test_integer_and_text_ids_meet():
    labels, old, new = ["no", "yes"], ["no", "yes"], ["yes", "yes"]
    report = compare(side(old, labels, ids=[1, 2]), side(new, labels, ids=["1", "2"]))
    assert report.counts.negative_flips == 1


def test_flipped_rows_carry_both_answers_and_both_confidences():
    labels = ["no", "yes", "maybe", "no"]
    old = side(
        None, labels, logits=[[2.0, 0, 0], [3.0, 0, 0], [0, 0, 1.0], [1.0, 0, 0]], columns={"text": list("abcd")}
    )
    new = side(None, labels, logits=[[0, 0, 4.0], [0, 1.0, 0], [0, 0, 2.0], [1.0, 0, 0]])
    rows = compare(old, new).flips.to_pylist()
    assert [(row["id"], row["kind"], row["label"], row["old_answer"], row["new_answer"]) for row in rows] == [
        ("r0", "negative", "no", "no", "maybe"),
        ("r1", "positive", "yes", "no", "yes"),
    ]
    assert rows[0]["old_confidence"] == pytest.approx(np.exp(2) / (np.exp(2) + 2), abs=1e-6)
    assert rows[0]["new_confidence"] == pytest.approx(np.exp(4) / (np.exp(4) + 2), abs=1e-6)
    assert rows[0]["text"] == "a"


def test_a_confidence_column_does_for_logits():
    labels = ["no", "yes"]
    old = side(["no", "yes"], labels, columns={"confidence": [0.9, 0.8]})
    new = side(["yes", "yes"], labels)
    (row,) = compare(old, new).flips.to_pylist()
    assert row["old_confidence"] == 0.9
    assert row["new_confidence"] is None


def test_confusions_among_negative_flips():
    labels = ["no"] * 4 + ["yes"] * 2
    report = compare(side(labels, labels), side(["yes", "yes", "maybe", "no", "no", "yes"], labels))
    assert [(c.label, c.new_answer, c.count) for c in report.confusions] == [
        ("no", "yes", 2),
        ("no", "maybe", 1),
        ("yes", "no", 1),
    ]


def test_added_classes_are_reported_apart_and_never_flip():
    labels = ["no", "yes", "sell", "sell", "no"]
    old = side(["no", "yes", "no", "yes", "no"], labels)  # the old model cannot know 'sell'
    new = side(["no", "sell", "sell", "no", "no"], labels, names=["sell", *NAMES])
    report = compare(old, new)
    assert report.counts.total == 3
    assert report.counts.negative_flips == 1
    assert report.labels.added == ("sell",)
    assert (report.labels.added_rows, report.labels.added_accuracy) == (2, 0.5)
    assert report.labels.flips_into_added == 1
    assert {group.name for group in report.classes} == {"no", "yes"}
    assert "added classes" in report.to_markdown()


def test_removed_classes_count_as_broken():
    labels = ["no", "yes", "maybe"]
    report = compare(side(labels, labels), side(["no", "yes", "no"], labels, names=["no", "yes"]))
    assert report.counts.negative_flips == 1
    assert report.labels.removed == ("maybe",)
    assert report.labels.removed_rows == 1
    assert any("missing in the new one" in note for note in report.notes)


def test_classes_and_slices_with_corrected_p_values():
    rng = np.random.default_rng(0)
    labels = np.repeat(NAMES, 100)
    old = labels.copy()
    new = labels.copy()
    new[:15] = "yes"  # 'no' loses 15 rows and wins none
    channel = rng.choice(["app", "phone"], 300).tolist()
    report = compare(
        side(old.tolist(), labels.tolist(), columns={"channel": channel}), side(new.tolist(), labels.tolist())
    )
    worst = report.classes[0]
    assert (worst.name, worst.rows, worst.negative_flips, worst.nfr) == ("no", 100, 15, 0.15)
    assert worst.p_value == pytest.approx(2 * 0.5**15)
    assert worst.p_corrected == pytest.approx(3 * worst.p_value)
    assert [group.p_corrected for group in report.classes[1:]] == [1.0, 1.0]
    assert sum(group.negative_flips for group in report.slices["channel"]) == 15
    assert sum(group.rows for group in report.slices["channel"]) == 300
    by_bh = compare(side(old.tolist(), labels.tolist()), side(new.tolist(), labels.tolist()), correction="bh")
    assert by_bh.classes[0].p_corrected == pytest.approx(3 * worst.p_value)


def test_slices_are_chosen_or_named():
    labels = ["no"] * 150
    columns = {"user": [f"u{index}" for index in range(150)], "bucket": [index % 3 for index in range(150)]}
    old, new = side(labels, labels, columns=columns), side(labels, labels)
    report = compare(old, new)
    assert set(report.slices) == {"bucket"}
    assert any("user has 150 values" in note for note in report.notes)
    assert len(compare(old, new, slices=["user"]).slices["user"]) == 150
    with pytest.raises(ValueError, match=r"no column 'locale'.*Found: user, bucket.*keep_columns"):
        compare(old, new, slices=["locale"])


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
def test_text_in_any_layout_is_a_slice(tmp_path, kind):
    answers = pa.array(["no", "yes"] * 4)
    for name, predictions in (("old", ["no", "yes"] * 4), ("new", ["no"] * 8)):
        column = pa.array(["app", "web"] * 4).cast(kind)
        table = {"id": pa.array(list("abcdefgh")).cast(kind), "label": answers.cast(kind)}
        table |= {"prediction": pa.array(predictions).cast(kind), "channel": column}
        pq.write_table(pa.table(table), tmp_path / f"{name}.parquet")
    report = compare(*(Predictions.load(tmp_path / f"{name}.parquet") for name in ("old", "new")))
    assert {group.name: group.negative_flips for group in report.slices["channel"]} == {"app": 0, "web": 4}


def test_what_is_no_slice_and_no_weight_is_named():
    labels = ["no"] * 12
    columns = {"list": [[1]] * 12, "struct": [{"a": 1}] * 12, "day": [datetime.date(2026, 1, 1)] * 12}
    table = side(labels, labels, columns=columns)
    for name in ("list", "struct"):
        with pytest.raises(ValueError, match="cannot be a slice"):
            compare(table, table, slices=[name])
    for name in columns:
        with pytest.raises(ValueError, match="sample_weight is not one number per row"):
            compare(table, table, weight=name)


def test_empty_slice_values_are_a_group_of_their_own():
    labels = ["no", "no"]
    report = compare(side(labels, labels, columns={"channel": ["app", None]}), side(labels, labels))
    assert {group.name for group in report.slices["channel"]} == {"app", "(none)"}


def test_weights_are_reported_beside_the_plain_counts():
    labels = ["no", "no", "yes", "yes"]
    old = side(labels, labels, columns={"traffic": [97.0, 1.0, 1.0, 1.0]})
    report = compare(old, side(["yes", "no", "yes", "yes"], labels), weight="traffic")
    assert report.counts.nfr == 0.25
    assert report.weighted.counts.nfr == pytest.approx(0.97)
    assert report.weighted.effective_rows < 1.1
    interval = report.weighted.nfr_interval
    assert interval.low <= 0.97 <= interval.high
    assert "traffic" not in report.slices


def test_clusters_widen_the_report_s_interval():
    labels = ["no"] * 200
    answers = ["yes"] * 20 + ["no"] * 180
    columns = {"user": np.repeat(np.arange(20), 10).tolist()}
    old, new = side(labels, labels, columns=columns), side(answers, labels)
    rows, clustered = compare(old, new), compare(old, new, cluster="user")
    assert clustered.counts == rows.counts
    wide, narrow = clustered.intervals["nfr"], rows.intervals["nfr"]
    assert wide.high - wide.low > 1.5 * (narrow.high - narrow.low)
    assert clustered.nfr_upper > rows.nfr_upper
    assert clustered.cluster == "user"


def test_the_noise_floor_and_what_goes_beyond_it():
    labels = ["no"] * 1000
    rerun = ["yes"] * 20 + ["no"] * 980
    new = ["yes"] * 10 + ["no"] * 900 + ["yes"] * 90
    report = compare(side(labels, labels), side(new, labels), old_rerun=side(rerun, labels))
    floor = report.noise_floor
    assert floor.nfr == pytest.approx(0.02)
    assert floor.excess_nfr == pytest.approx(0.08)
    assert floor.excess_interval.low > 0.05
    assert floor.p_value < 0.01
    same = compare(side(labels, labels), side(rerun, labels), old_rerun=side(rerun, labels)).noise_floor
    assert same.excess_nfr == 0
    assert same.excess_interval.low < 0 < same.excess_interval.high


def test_two_candidates_against_the_same_old_model():
    labels = ["no"] * 500
    old = side(labels, labels, columns={"user": [index // 5 for index in range(500)]})
    first, second = side(["yes"] * 40 + ["no"] * 460, labels), side(["yes"] * 10 + ["no"] * 490, labels)
    order = np.random.default_rng(0).permutation(500)
    shuffled = side(second.predictions[order].tolist(), labels, ids=np.array(second.ids.to_pylist())[order].tolist())
    found = compare_candidates(old, first, shuffled)
    assert found.estimate == pytest.approx(0.06)
    assert found.interval.low > 0
    assert compare_candidates(old, first, shuffled, cluster="user").clusters == 100


def test_unmatched_ids_are_counted_shown_and_can_be_left_out():
    labels = ["no"] * 10
    old = side(labels, labels, ids=[f"a{index}" for index in range(10)])
    new = side(["yes"] * 10, labels, ids=[f"a{index}" for index in range(3, 13)])
    with pytest.raises(NotComparableError) as raised:
        compare(old, new)
    message = str(raised.value)
    assert "3 of 10 ids are only in the old: 'a0', 'a1', 'a2'" in message
    assert "3 of 10 ids are only in the new: 'a10', 'a11', 'a12'" in message
    assert "--allow_partial" in message
    report = compare(old, new, allow_partial=True)
    assert (report.coverage.compared, report.coverage.only_old, report.coverage.only_new) == (7, 3, 3)
    assert report.counts.negative_flips == 7
    assert "PARTIAL: 7 rows compared; left out 3" in report.to_text()


def test_only_five_ids_are_shown():
    labels = ["no"] * 100
    old = side(labels, labels)
    new = side(labels[:20], labels[:20], ids=[f"r{index}" for index in range(20)])
    with pytest.raises(NotComparableError, match=r"80 of 100 ids are only in the old: 'r20', .*'r24', \.\.\."):
        compare(old, new)


def test_nothing_in_common_is_never_compared():
    labels = ["no"]
    with pytest.raises(NotComparableError, match="Nothing can be compared"):
        compare(side(labels, labels, ids=["a"]), side(labels, labels, ids=["b"]), allow_partial=True)


@pytest.mark.parametrize("same_order", [True, False])
def test_duplicate_ids(same_order):
    labels = ["no", "no", "yes"]
    twice = side(labels, labels, ids=["b", "a", "a"])
    other = twice if same_order else side(labels, labels, ids=["a", "b", "c"])
    with pytest.raises(NotComparableError, match=r"1 ids stand on more than one row.*two different labels.*'a'"):
        compare(twice, other)


def test_one_id_with_two_labels():
    old, new = side(["no", "yes"], ["no", "yes"]), side(["no", "yes"], ["no", "maybe"])
    with pytest.raises(NotComparableError, match=r"1 ids have two different labels: 'r1' \(old: yes, new: maybe\)"):
        compare(old, new)


def test_labels_of_neither_model():
    labels = ["no", "other"]
    with pytest.raises(NotComparableError, match="1 labels of the data are classes of neither model: 'other'"):
        compare(side(["no", "no"], labels), side(["no", "yes"], labels))


def test_no_row_that_the_old_model_knows():
    old = side(["no"], ["sell"])
    new = side(["sell"], ["sell"], names=["sell", "no", "yes", "maybe"])
    with pytest.raises(NotComparableError, match="None of the 1 rows has a label that the old model knows"):
        compare(old, new)


def test_changed_data_is_not_comparable():
    labels = ["no", "yes"]
    old, new = side(labels, labels, fingerprint="1234"), side(labels, labels, fingerprint="5678")
    with pytest.raises(NotComparableError, match="dataset 1234, the new one 5678"):
        compare(old, new)
    assert compare(old, new, allow_partial=True).counts.total == 2


def test_a_rerun_on_other_rows():
    labels = ["no", "yes"]
    with pytest.raises(NotComparableError, match="do not have the same rows"):
        compare(side(labels, labels), side(labels, labels), old_rerun=side(["no"], ["no"]))
    with pytest.raises(NotComparableError, match="lacks 1 of the 2 compared rows"):
        compare(side(labels, labels), side(labels, labels), old_rerun=side(["no"], ["no"]), allow_partial=True)


def test_without_recorded_classes_the_report_says_so():
    labels = ["no", "yes"]
    report = compare(side(labels, labels, names=None), side(labels, labels, names=None))
    assert sum("do not record their classes" in note for note in report.notes) == 2


def test_bad_settings():
    labels = ["no"]
    with pytest.raises(ValueError, match="correction is 'bonferroni', expected one of holm, bh"):
        compare(side(labels, labels), side(labels, labels), correction="bonferroni")
    with pytest.raises(ValueError, match="confidence is 95"):
        compare(side(labels, labels), side(labels, labels), confidence=95)


def test_a_report_is_plain_json():
    old, new, _ = random_pair()
    data = json.loads(compare(old, new).to_json())
    assert data["format"] == "hf_pct.flip_report"
    assert data["nfr"] == pytest.approx(compare(old, new).nfr)
    assert len(data["flips"]) == data["negative_flips"] + data["positive_flips"]


def test_a_table_that_does_not_say_its_model_is_called_as_its_file(tmp_path):
    for name, answer in (("v1", "no"), ("v2", "yes")):
        (tmp_path / f"{name}.csv").write_text(f"id,label,prediction\n1,no,no\n2,yes,{answer}\n")
    old, new = (Predictions.load(tmp_path / f"{name}.csv") for name in ("v1", "v2"))
    report = compare(old, new)
    assert (report.old.model, report.new.model) == ("v1.csv", "v2.csv")
    assert report.to_text().startswith("v1.csv  ->  v2.csv")
    assert old.provenance.model is None  # the table itself stays as it was read
