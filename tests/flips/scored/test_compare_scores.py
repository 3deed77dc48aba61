import json

import numpy as np
import pytest
from score_tables import random_scores, repeated, scored

from hf_pct import NotComparableError, Predictions, ScoreReport, Scores, compare, count_flips
from hf_pct.flips.scored.measures.outcomes import OUTCOMES, Rule, RunPair, outcome_codes
from hf_pct.flips.stats import clopper_pearson, mcnemar
from hf_pct.flips.tables.metric import Metric


def test_every_row_has_one_outcome():
    old, new = np.array([1, 0, 1, 1, 0.9, 0.2, 0.2, 1]), np.array([0, 1, 1, 1, 0.6, 0.1, 0.3, 1])
    changed = np.array([1, 1, 1, 0, 1, 1, 1, 0], bool)
    codes = outcome_codes(RunPair(old, new, changed), Rule(0.5))
    assert [OUTCOMES[code] for code in codes] == [
        "broken", "fixed", "changed", "same", "worse", "worse", "better", "same",
    ]  # fmt: skip
    tolerant = outcome_codes(RunPair(old, new, changed), Rule(0.5, tolerance=0.3))
    assert [OUTCOMES[code] for code in tolerant[4:7]] == ["changed", "same", "same"]


def test_a_drop_of_exactly_the_tolerance_is_none():
    values = np.round(np.arange(1, 10) / 10, 1)
    codes = outcome_codes(RunPair(values, values - 0.1), Rule(None, tolerance=0.1))
    assert set(codes.tolist()) == {OUTCOMES.index("same")}


def test_zero_one_scores_are_flips():
    old, new = random_scores(0), random_scores(1)
    report = compare(old, new).task("all")
    counts = count_flips(old.scores["acc"].astype(int), new.scores["acc"].astype(int), np.ones(300, int))
    assert report.counts.nfr == counts.nfr
    assert report.counts.pfr == counts.pfr
    assert report.counts.new_accuracy == pytest.approx(counts.new_accuracy)
    assert report.gain.estimate == pytest.approx(counts.accuracy_gain)
    assert report.gain.p_value == pytest.approx(mcnemar(int(counts.negative_flips), int(counts.positive_flips)).exact)
    assert report.intervals["nfr"] == clopper_pearson(counts.negative_flips, 300)


def test_rows_in_another_order_change_nothing():
    old, new = random_scores(0, graded=True), random_scores(1, graded=True)
    order = np.random.default_rng(2).permutation(300)
    turned = scored(new.scores["acc"][order].tolist(), ids=[f"r{row}" for row in order])
    plain, again = (compare(old, side, right_at=0.5).to_dict() for side in (new, turned))
    assert plain["tasks"] == again["tasks"]
    assert plain["rows"] == again["rows"]


def test_lower_is_better_is_the_mirror_of_higher_is_better():
    old, new = random_scores(0, graded=True), random_scores(1, graded=True)
    down = [scored((1 - side.scores["acc"]).tolist(), metric="wer") for side in (old, new)]
    higher = compare(old, new, right_at=0.4, tolerance=0.1).task("all")
    lower = compare(*down, right_at=0.6, tolerance=0.1).task("all")
    assert lower.higher_is_better is False
    assert lower.right_at == pytest.approx(0.6)
    assert lower.outcomes == higher.outcomes
    assert lower.gain.estimate == pytest.approx(higher.gain.estimate)
    assert lower.gain.old_mean == pytest.approx(1 - higher.gain.old_mean)
    said = compare(old, new, right_at=0.4, higher_is_better={"acc": False}).task("all")
    assert said.gain.estimate == pytest.approx(-higher.gain.estimate)


def test_sizes_of_regressions_and_gains():
    report = compare(scored([0.5, 0.9, 0.5, 0.5]), scored([0.1, 0.7, 1.0, 0.45]), right_at="none", tolerance=0.1)
    task = report.task("all")
    assert (task.regressions.rows, task.regressions.mean) == (2, pytest.approx(0.3))
    assert (task.gains.rows, task.gains.mean) == (1, pytest.approx(0.5))
    assert task.outcomes == {"broken": 0, "fixed": 0, "worse": 2, "better": 1, "changed": 0, "same": 1}
    assert "nfr" not in task.rates
    with pytest.raises(ValueError, match="without saying from which score"):
        task.counts  # noqa: B018


def test_graded_scores_ask_what_is_right():
    old, new = random_scores(0, graded=True), random_scores(1, graded=True)
    with pytest.raises(ValueError, match=r"not 0 or 1 but from .* right_at \(--right_at all=NUMBER\)"):
        compare(old, new)


@pytest.mark.parametrize("right_at", [float("nan"), float("inf"), 50, 1.2])
def test_a_limit_that_no_row_reaches_would_break_none(right_at):
    old, new = scored([0.9, 0.8, 0.2]), scored([0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match=r"acc of task all are from 0.1 to 0.9, so no row would be right"):
        compare(old, new, right_at=right_at)
    with pytest.raises(ValueError, match="no row would be right on either side"):
        compare(old, new, right_at=0.05, higher_is_better={"acc": False})
    assert compare(scored([0.0, 0.0]), scored([0.0, 0.0]), right_at=1).task("all").rates["nfr"] == 0


def test_tolerances_are_numbers():
    side = scored([1.0, 0.0])
    for tolerance in (float("nan"), float("inf"), -0.1):
        with pytest.raises(ValueError, match="expected a number that is not negative"):
            compare(side, side, tolerance=tolerance)


def test_sides_that_were_judged_by_other_thresholds():
    def judged(right_at):
        values = {"faith": [0.6, 0.7], "success": [1.0, 1.0]}
        metrics = [Metric("faith", right_at=right_at)]
        return Scores(["a", "b"], values, metrics=metrics, default_metric="success")

    old, new = judged(0.5), judged(0.65)
    with pytest.raises(NotComparableError, match=r"faith is right at 0.5 in the old log and at 0.65 in the new one"):
        compare(old, new, metric="faith")
    assert compare(old, new, metric="faith", right_at=0.5).task("all").rates["nfr"] == 0
    assert "other thresholds: faith (0.5 and 0.65)." in compare(old, new).to_text()
    assert compare(judged(None), judged(0.65), metric="faith").task("all").right_at == 0.65


def test_changed_but_still_right():
    old = scored([1, 1, 0, 1], predictions=["a", "b", "c", "d"])
    new = scored([1, 1, 0, 0], predictions=["a", "B", "C", "D"])
    report = compare(old, new)
    assert report.task("all").outcomes == {"broken": 1, "fixed": 0, "worse": 0, "better": 0, "changed": 1, "same": 2}
    assert report.task("all").changed_answers == 0.75
    assert report.rows.select(["id", "kind", "old_answer", "new_answer"]).to_pylist() == [
        {"id": "r3", "kind": "broken", "old_answer": "d", "new_answer": "D"},
        {"id": "r1", "kind": "changed", "old_answer": "b", "new_answer": "B"},
    ]


def test_spaces_around_an_answer_are_no_change():
    labels = {"labels": [" a", "b"]}, {"labels": ["a", "b"]}
    old, new = (scored([1, 1], predictions=texts, **right)
                for texts, right in zip(([" a", "b"], ["a", "b "]), labels, strict=True))  # fmt: skip
    assert compare(old, new).task("all").outcomes["same"] == 2
    ids, runs = ["x", "x"], [1, 2]
    twice = [scored([1, 1], ids=ids, repeats=runs, predictions=texts) for texts in (["a", "a"], [" a", "a "])]
    assert compare(*twice).task("all").outcomes["same"] == 1


def test_slices_are_corrected_for_their_number():
    columns = {"lang": ["en", "de", "fr"] * 100}
    report = compare(random_scores(0, columns=columns), random_scores(1, right=0.5, columns=columns))
    groups = report.task("all").slices["lang"]
    assert sum(group.rows for group in groups) == 300
    assert all(group.p_corrected >= group.p_value for group in groups)
    assert sum(group.negative_flips for group in groups) == report.task("all").outcomes["broken"]


def test_clusters_widen_what_rows_of_one_cluster_pretend():
    rng = np.random.default_rng(0)
    users = np.repeat(np.arange(15), 20)
    broken = np.repeat(rng.random(15) < 0.4, 20)
    columns = {"user": users.tolist()}
    old, new = scored([1.0] * 300, columns=columns), scored((~broken).astype(float).tolist(), columns=columns)
    rows, clustered = compare(old, new).task("all"), compare(old, new, cluster="user").task("all")
    assert clustered.gain.units == 15
    assert clustered.gain.p_worse > rows.gain.p_worse
    assert clustered.intervals["nfr"].high - clustered.intervals["nfr"].low > 0.2
    assert "user" not in clustered.slices


def test_slices_are_by_cluster_too():
    users = np.repeat(np.arange(20), 10)
    columns = {"user": users.tolist(), "lang": ["en"] * 200}
    old, new = scored([1.0] * 200, columns=columns), scored((users >= 4).astype(float).tolist(), columns=columns)
    task = compare(old, new, cluster="user", slices=["lang"]).task("all")
    group = task.slices["lang"][0]
    assert group.p_value == pytest.approx(task.gain.p_value)
    assert (group.nfr_low, group.nfr_high) == (task.intervals["nfr"].low, task.intervals["nfr"].high)


def test_few_clusters_are_refused():
    columns = {"user": ["a", "b", "c"] * 10}
    side = scored([1.0] * 30, columns=columns)
    with pytest.raises(NotComparableError, match="3 different values in 30 rows, expected at least 10 clusters"):
        compare(side, side, cluster="user")


def test_repeats_count_pairs_of_runs():
    old, new = repeated(0, [1.0, 1.0, 0.5, 0.0], 40), repeated(1, [1.0, 0.0, 0.5, 0.0], 40)
    task = compare(old, new).task("all")
    assert task.rows == 4
    assert task.outcomes["broken"] == pytest.approx(1.25, abs=0.2)
    assert [item.id for item in task.repeats.regressed] == ["r1"]
    assert task.repeats.regressed[0].old_rate == 1.0
    assert task.repeats.floor_items == 0
    assert task.noise_floor.source == "runs of the old version"
    assert task.noise_floor.rates["broken"] == pytest.approx(0.25 / 4, abs=0.02)
    assert task.noise_floor.excess_nfr == pytest.approx(0.25, abs=0.05)
    assert "runs of an item change places" in task.gain.method


def test_one_run_each_with_run_numbers_is_no_repeat():
    old, new = random_scores(0), random_scores(1)
    numbered = [scored(side.scores["acc"].tolist(), repeats=[1] * 300, predictions=["x"] * 300) for side in (old, new)]
    assert compare(*numbered).task("all").outcomes == compare(old, new).task("all").outcomes


def test_runs_that_are_missing_are_told():
    old = repeated(0, [0.5] * 5, 3)
    new = scored([1.0] * 13, ids=np.repeat([f"r{item}" for item in range(5)], 3).tolist()[:13],
                 repeats=np.tile(np.arange(3), 5)[:13])  # fmt: skip
    report = compare(old, new)
    assert [note for note in report.notes if "1 of 5 items have fewer than 3 runs on the new side" in note]
    assert not compare(old, repeated(1, [0.5] * 5, 2)).notes


def test_the_test_over_repeats_keeps_its_level():
    rng = np.random.default_rng(3)
    alarms = 0
    for seed in range(200):
        rates = rng.random(15)
        alarms += compare(repeated(2 * seed, rates, 3), repeated(2 * seed + 1, rates, 3)).task("all").regressed
    assert alarms / 200 < 0.09


def test_a_second_run_is_the_noise_floor():
    old, again, new = random_scores(0, right=0.9), random_scores(1, right=0.9), random_scores(2, right=0.6)
    floor = compare(old, new, old_rerun=again).task("all").noise_floor
    assert floor.rates["broken"] == compare(old, again).task("all").rates["nfr"]
    assert floor.excess_nfr == pytest.approx(compare(old, new).task("all").rates["nfr"] - floor.rates["broken"])
    with pytest.raises(NotComparableError, match="lacks 1 of the 300 compared items"):
        compare(old, new, old_rerun=scored([1.0] * 299))
    for other in (scored([1.0] * 300, metric="f1"), scored([1.0] * 300, tasks=["other"] * 300)):
        with pytest.raises(NotComparableError, match="second run of the old version has no acc for task all; it has"):
            compare(old, new, old_rerun=other)


def several(seed, rights):
    rng = np.random.default_rng(seed)
    values = np.concatenate([rng.random(200) < right for right in rights]).astype(float)
    tasks = np.repeat([f"t{number}" for number in range(len(rights))], 200).tolist()
    ids = [str(number) for number in range(200)] * len(rights)
    return scored(values.tolist(), ids=ids, tasks=tasks)


def test_tasks_are_judged_together():
    report = compare(several(0, [0.8, 0.8, 0.8]), several(1, [0.8, 0.5, 0.8]))
    assert report.pooled.regressed == ["t1"]
    assert [task.regressed for task in report.tasks] == [False, True, False]
    assert all(task.p_corrected >= task.gain.p_worse for task in report.tasks)
    mean = report.pooled.mean
    assert mean.estimate == pytest.approx(np.mean([task.gain.estimate for task in report.tasks]))
    weighted = compare(
        several(0, [0.8, 0.8, 0.8]), several(1, [0.8, 0.5, 0.8]), task_weights={"t0": 1, "t1": 0, "t2": 1}
    ).pooled.mean
    assert weighted.estimate == pytest.approx((report.tasks[0].gain.estimate + report.tasks[2].gain.estimate) / 2)
    with pytest.raises(ValueError, match=r"'t9' is no task; t1 has no weight"):
        compare(several(0, [0.8, 0.8]), several(1, [0.8, 0.8]), task_weights={"t0": 1, "t9": 1})


def test_tasks_of_other_scales_are_averaged_by_what_is_right():
    tasks = ["a"] * 3 + ["b"] * 3
    old = scored([1, 1, 0, 50, 60, 70], ids=list("xyzxyz"), tasks=tasks)
    new = scored([1, 0, 0, 50, 40, 70], ids=list("xyzxyz"), tasks=tasks)
    report = compare(old, new, right_at={"b": 50})
    assert report.pooled.mean.of == "shares of right rows"
    assert report.pooled.mean.estimate == pytest.approx(-1 / 3)
    assert compare(old, new, right_at={"b": "none"}).pooled.mean is None


def test_problems_of_all_tasks_are_told_at_once():
    tasks = ["a"] * 2 + ["b"] * 2
    side = scored([1, 5, 50, 60], ids=list("xyxy"), tasks=tasks)
    with pytest.raises(ValueError, match=r"task a (?s:.*)task b"):
        compare(side, side)


def test_metrics_are_chosen_by_preference():
    from hf_pct import Scores

    scores = {"acc": [1, 0, None, None], "em": [1, 1, 1, 0], "f1": [1, 1, None, None]}
    side = Scores(list("wxyz"), scores, tasks=["a", "a", "b", "b"])
    with pytest.raises(ValueError, match=r"Task a has several metrics; it has acc, em, f1"):
        compare(side, side)
    report = compare(side, side, metric=["f1", "em"])
    assert [task.metric for task in report.tasks] == ["f1", "em"]
    assert [task.metric for task in compare(side, side, metric={"a": "acc"}).tasks] == ["acc", "em"]
    with pytest.raises(ValueError, match="no metric bleu on both sides; it has acc, em, f1"):
        compare(side, side, metric="bleu")
    with pytest.raises(ValueError, match="right_at names 'c', which is neither a task nor a metric"):
        compare(side, side, metric="em", right_at={"c": 1})


def test_what_is_missing_on_one_side_is_refused_and_counted():
    old, new = scored([1, 1, 1]), scored([1, 0])
    with pytest.raises(NotComparableError, match=r"Task all(?s:.*)1 of 3 ids are only in the old"):
        compare(old, new)
    report = compare(old, new, allow_partial=True)
    assert (report.task("all").coverage.compared, report.task("all").coverage.only_old) == (2, 1)
    assert "PARTIAL" in report.to_text()
    one, two = scored([1, 1], tasks=["a", "b"]), scored([1, 1], tasks=["a", "c"])
    with pytest.raises(NotComparableError, match="only the old side has 'b'; only the new side has 'c'"):
        compare(one, two)


def test_repeated_ids_need_run_numbers():
    side = scored([1, 0, 1], ids=["a", "a", "b"])
    with pytest.raises(NotComparableError, match=r"1 ids stand on more than one row of task all.*--columns repeat="):
        compare(side, side)
    doubled = scored([1, 0, 1], ids=["a", "a", "b"], repeats=[1, 1, 1])
    with pytest.raises(NotComparableError, match=r"stand twice in the old scores"):
        compare(doubled, doubled)


def test_changed_targets_are_not_comparable_and_changed_prompts_are_told():
    old = scored([1, 1], labels=["x", "y"], texts=["q", "r"])
    with pytest.raises(NotComparableError, match=r"right answer of 1 of 2 items changed: 'r1' \(old: 'y', new: 'z'\)"):
        compare(old, scored([1, 1], labels=["x", "z"], texts=["q", "r"]))
    report = compare(old, scored([1, 0], labels=["x", "y"], texts=["q", "R"]))
    assert report.task("all").changed_prompts == 1
    assert "the prompt changed in 1 of 2 rows" in report.to_text()
    assert report.rows.to_pylist()[0]["new_text"] == "R"


def test_answers_beside_scores_are_exact_matches():
    answers = Predictions(["a", "b"], ["x", "y"], ["x", "y"])
    scores = scored([1, 0], ids=["a", "b"], metric="exact_match")
    assert compare(answers, scores).task("all").outcomes["broken"] == 1


def test_a_report_survives_its_file(tmp_path):
    columns = {"lang": ["en", "de", "fr"] * 100}
    options = {"columns": columns, "texts": ["?"] * 300, "predictions": [str(row % 7) for row in range(300)]}
    report = compare(random_scores(0, **options), random_scores(1, **options), old_rerun=random_scores(2, **options))
    report.save(tmp_path / "r.json")
    assert ScoreReport.load(tmp_path / "r.json").to_dict() == report.to_dict()
    data = json.loads((tmp_path / "r.json").read_text())
    data["tasks"][0]["rows"] = "many"
    (tmp_path / "bad.json").write_text(json.dumps(data))
    with pytest.raises(ValueError, match=r"bad\.json: tasks\[0\]\.rows: Expected int"):
        ScoreReport.load(tmp_path / "bad.json")
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(ValueError, match="is not a score report"):
        ScoreReport.load(tmp_path / "other.json")


def test_long_lists_are_cut_and_said():
    report = compare(random_scores(0), random_scores(1, right=0.2), max_rows=10)
    assert report.rows.num_rows == 10
    assert set(report.rows.column("kind").to_pylist()) == {"broken"}
    assert any("further changed rows are not listed" in note for note in report.notes)


def test_text_and_markdown_say_the_verdict_and_escape_names():
    rows = {"tasks": ["<b>\nx"] * 300, "columns": {"a|b": ["c`d", "e", "f"] * 100}}
    report = compare(random_scores(0, **rows), random_scores(1, right=0.3, **rows))
    assert report.to_text().splitlines()[1].startswith("REGRESSED")
    text = report.to_markdown()
    assert "<b>" not in text
    assert "a\\|b" in text


def test_intervals_of_the_gain_cover():
    rng = np.random.default_rng(5)
    covered = 0
    for _ in range(300):
        old = rng.random(40)
        new = np.clip(old + np.where(rng.random(40) < 0.3, rng.normal(-0.1, 0.1, 40), 0.0), -1, 2)
        interval = compare(scored(old), scored(new), right_at="none").task("all").gain.interval
        covered += interval.low <= -0.03 <= interval.high
    assert covered / 300 > 0.9
