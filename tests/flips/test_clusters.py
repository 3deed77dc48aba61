"""Rows that belong together: every number of a report is by cluster, and keeps its level."""

import html
import itertools

import numpy as np
import pytest
from flip_tables import side
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_pct import FlipReport, GateConfig, NotComparableError, check_gate, compare, compare_candidates
from hf_pct.flips import stats
from hf_pct.flips.stats.effective import effective_rows


def clustered_pair(clusters, seed=0, rows=10, broken=0.05, fixed=0.05, **options):
    """Answers of two models on `clusters` users of `rows` rows; a user's rows break or get fixed together."""
    rng = np.random.default_rng(seed)
    kind = np.repeat(rng.choice(3, clusters, p=[broken, fixed, 1 - broken - fixed]), rows)
    labels = ["no"] * len(kind)
    users = np.repeat(np.arange(clusters), rows).tolist()
    old = side(np.where(kind == 1, "yes", "no").tolist(), labels, columns={"user": users, **options})
    return old, side(np.where(kind == 0, "yes", "no").tolist(), labels)


def test_no_flip_in_single_row_clusters_promises_what_single_rows_promise():
    labels = ["no"] * 300
    old = side(labels, labels, columns={"user": list(range(300))})
    report = compare(old, side(labels, labels), cluster="user")
    assert report.nfr_upper == pytest.approx(stats.upper_bound(0, 300))
    assert report.nfr_upper > 0.0099


@settings(max_examples=25)
@given(st.integers(0, 10_000))
def test_clusters_of_one_row_change_no_number(seed):
    rng = np.random.default_rng(seed)
    labels = ["no"] * 60
    answers = [np.where(rng.random(60) < share, "yes", "no").tolist() for share in (0.2, 0.3, 0.25)]
    old = side(answers[0], labels, columns={"user": rng.permutation(60).tolist(), "channel": list("ab") * 30})
    new, rerun = side(answers[1], labels), side(answers[2], labels)
    rows, apart = (compare(old, new, old_rerun=rerun, cluster=cluster) for cluster in (None, "user"))
    assert apart.nfr_upper == pytest.approx(rows.nfr_upper)
    assert apart.mcnemar.exact == pytest.approx(rows.mcnemar.exact)
    assert apart.non_inferiority.lower_bound == pytest.approx(rows.non_inferiority.lower_bound)
    assert apart.noise_floor.p_value == pytest.approx(rows.noise_floor.p_value)
    for name, interval in rows.intervals.items():
        assert (apart.intervals[name].low, apart.intervals[name].high) == pytest.approx((interval.low, interval.high))
    for one, other in zip(apart.classes + apart.slices["channel"], rows.classes + rows.slices["channel"], strict=True):
        assert (one.name, one.p_worse, one.nfr_upper) == (
            other.name,
            pytest.approx(other.p_worse),
            pytest.approx(other.nfr_upper),
        )


def test_rows_that_repeat_each_other_prove_no_more_than_one_of_them():
    """Every row ten times over: the clustered report says what the report of the single rows says, or less."""
    old, new = clustered_pair(60, rows=10)
    repeated, single = compare(old, new, cluster="user"), compare(*clustered_pair(60, rows=1))
    plain = compare(old, new)
    assert repeated.mcnemar.exact == pytest.approx(single.mcnemar.exact)
    assert repeated.mcnemar.exact > plain.mcnemar.exact
    assert repeated.nfr_upper >= single.nfr_upper > plain.nfr_upper
    assert repeated.non_inferiority.lower_bound <= single.non_inferiority.lower_bound
    assert repeated.classes[0].nfr_upper >= single.classes[0].nfr_upper
    assert repeated.classes[0].p_value == pytest.approx(single.classes[0].p_value)
    assert repeated.effective_rows["nfr_upper"] <= 60 + 1e-9


def test_slices_and_the_noise_floor_are_by_cluster():
    old, new = clustered_pair(60, rows=10, channel=list("ab") * 300)
    rerun = clustered_pair(60, seed=3, rows=10)[1]
    rows, clustered = (compare(old, new, old_rerun=rerun, cluster=cluster) for cluster in (None, "user"))
    for one, other in zip(clustered.slices["channel"], rows.slices["channel"], strict=True):
        assert one.nfr_upper > other.nfr_upper
        assert one.p_value >= other.p_value
    floor, plain = clustered.noise_floor, rows.noise_floor
    assert floor.interval.high - floor.interval.low > plain.interval.high - plain.interval.low
    assert floor.p_value > plain.p_value


def test_the_bounds_follow_from_the_effective_rows():
    report = compare(*clustered_pair(80, rows=7), cluster="user", accuracy_margin=0.01)
    rows = report.effective_rows["nfr_upper"]
    assert report.nfr_upper == pytest.approx(stats.upper_bound(report.nfr * rows, rows))
    rows = report.effective_rows["non_inferiority"]
    again = stats.non_inferiority(report.nfr * rows, report.pfr * rows, rows, 0.01)
    assert report.non_inferiority.lower_bound == pytest.approx(again.lower_bound)
    for group in report.classes:
        bound = stats.upper_bound(group.nfr * group.effective_rows, group.effective_rows)
        assert group.nfr_upper == pytest.approx(bound)


def test_the_gate_computes_clustered_bounds_again():
    report = compare(*clustered_pair(80, rows=7), cluster="user")
    assert FlipReport.from_dict(report.to_dict()).nfr_upper == report.nfr_upper
    data = {name: value for name, value in report.to_dict().items() if name != "seal"}  # as if nobody had sealed it
    for name, rule in (("nfr_upper", "max_nfr_upper"), ("non_inferiority", "max_accuracy_loss")):
        true = check_gate(report, GateConfig(**{rule: 0.5})).results[0].value
        greener = {
            **data,
            "nfr_upper": report.nfr,
            "non_inferiority": {**data["non_inferiority"], "lower_bound": report.counts.accuracy_gain},
        }
        edited = FlipReport.from_dict(greener)
        assert check_gate(edited, GateConfig(**{rule: 0.5})).results[0].value == pytest.approx(true)
        for rows in (0.0, -3.0, 1e9):
            wrong = FlipReport.from_dict({**data, "effective_rows": {name: rows}})
            with pytest.raises(NotComparableError, match="effective rows"):
                check_gate(wrong, GateConfig(**{rule: 0.5}))


@pytest.mark.parametrize("clusters", [1, 9])
def test_fewer_than_ten_clusters_are_refused(clusters):
    with pytest.raises(NotComparableError, match=rf"'user' has {clusters} different values.*at least 10 clusters"):
        compare(*clustered_pair(clusters), cluster="user")


def test_candidates_too_need_ten_clusters():
    old, new = clustered_pair(9)
    with pytest.raises(NotComparableError, match="at least 10 clusters"):
        compare_candidates(old, new, old, cluster="user")


def test_missing_clusters_are_one_cluster():
    labels = ["no"] * 40
    users = [None if index < 20 else f"u{index}" for index in range(40)]
    report = compare(side(labels, labels, columns={"user": users}), side(labels, labels), cluster="user")
    assert report.effective_rows["nfr_upper"] == pytest.approx(40**2 / (20**2 + 20))


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=10))
def test_sign_flips_are_what_enumerating_them_gives(values):
    sums = [sum(size * sign for size, sign in zip(values, signs, strict=True)) for signs in _signs(len(values))]
    observed = sum(values)
    two_sided = min(1.0, 2 * np.mean([total >= abs(observed) for total in sums])) if any(values) else 1.0
    worse = np.mean([total >= observed for total in sums]) if any(values) else 1.0
    assert stats.sign_flip(values).exact == pytest.approx(two_sided, abs=1e-9)
    assert stats.sign_flip(values, "worse").exact == pytest.approx(worse, abs=1e-9)
    halves = stats.sign_flip([value * 0.3 for value in values])
    assert halves.exact == pytest.approx(two_sided, abs=1e-9)


def _signs(count):
    return itertools.product((1, -1), repeat=count)


def test_many_clusters_are_tested_quickly_and_never_with_p_zero():
    values = np.random.default_rng(0).integers(1, 6, 20_000)
    assert 0 < stats.sign_flip(values).exact < 1e-10
    rng = np.random.default_rng(0)
    drawn = stats.sign_flip(rng.normal(size=100))
    assert 0.02 < drawn.exact <= 1


def test_sign_flips_keep_their_level_where_mcnemar_does_not():
    rng = np.random.default_rng(1)
    alarms = np.zeros(2)
    for _ in range(400):
        together = rng.choice([-1, 1], 30) * rng.integers(1, 6, 30)  # each user's rows break or get fixed as one
        alarms[0] += stats.sign_flip(together).exact < 0.05
        alarms[1] += stats.mcnemar(int(together[together > 0].sum()), int(-together[together < 0].sum())).exact < 0.05
    assert alarms[0] / 400 < 0.075
    assert alarms[1] / 400 > 0.15


def test_three_of_three_hundred_rows_are_no_difference_between_candidates():
    """The bootstrap alone has p = 0.099 here; the sign test of three rows has 0.25."""
    first, second = np.zeros(300), np.zeros(300)
    first[:3] = 1
    difference = stats.paired_bootstrap(first, second)
    assert difference.p_value == pytest.approx(0.25)
    first[:5] = 1
    five = stats.paired_bootstrap(first, second)
    assert five.p_value == pytest.approx(2 * 0.5**5)
    assert five.interval.low <= 0 < five.interval.high, "an interval must not claim what the test cannot"
    labels = ["no"] * 300
    old = side(labels, labels, columns={"user": [index // 3 for index in range(300)]})
    candidate = side(["yes"] * 3 + ["no"] * 297, labels)
    assert compare_candidates(old, candidate, old, cluster="user").p_value == 1.0


def test_classes_are_regressed_by_a_one_sided_test():
    labels = ["no"] * 100 + ["yes"] * 100
    better = ["yes"] * 20 + ["no"] * 80 + ["yes"] * 100  # 20 of 'no' were wrong and are now right
    report = compare(side(better, labels), side(labels, labels))
    (fixed,) = [group for group in report.classes if group.name == "no"]
    assert fixed.p_corrected < 0.001
    assert fixed.p_worse == 1
    assert (fixed.regressed(), fixed.improved()) == (False, True)
    assert "**worse**" not in report.to_markdown()
    back = compare(side(labels, labels), side(better, labels))
    (broken,) = [group for group in back.classes if group.name == "no"]
    assert (broken.regressed(), broken.improved()) == (True, False)
    assert "< 0.001 **worse**" in back.to_markdown()


def test_what_was_found_is_said_the_same_everywhere():
    labels = ["no"] * 400
    worse = side(["yes"] * 40 + ["no"] * 360, labels)
    cases = (
        (side(labels, labels), worse, "breaks more than it fixes, p < 0.001 (exact McNemar)"),
        (worse, side(labels, labels), "fixes more than it breaks, p < 0.001 (exact McNemar)"),
        (side(labels, labels), side(["yes"] * 2 + labels[2:], labels), "these rows cannot tell whether"),
        (worse, worse, "no row changed between right and wrong"),
    )
    for old, new, sentence in cases:
        report = compare(old, new)
        assert sentence in report.to_text()
        assert sentence in html.unescape(report.to_markdown())
        assert sentence[1:] in html.unescape(report.to_html())
        assert "as often as" not in report.to_text() + report.to_markdown()
    assert "(sign flips by user)" in compare(*clustered_pair(60), cluster="user").to_text()


def test_weights_that_go_with_the_flips_widen_the_interval_and_the_report_says_so():
    rng = np.random.default_rng(2)
    labels = ["no"] * 400
    weights = rng.lognormal(0, 1.2, 400)
    answers = np.where(rng.random(400) < np.minimum(0.03 * weights, 1), "yes", "no").tolist()
    report = compare(
        side(labels, labels, columns={"traffic": weights.tolist()}), side(answers, labels), weight="traffic"
    )
    kish = stats.effective_size(weights)
    narrow = stats.clopper_pearson(report.weighted.counts.nfr * kish, kish)
    wide = report.weighted.nfr_interval
    assert wide.high - wide.low > 1.1 * (narrow.high - narrow.low)
    assert any("weighted by traffic" in note and "widened" in note for note in report.notes)
    equal = compare(side(labels, labels, columns={"traffic": [2.0] * 400}), side(answers, labels), weight="traffic")
    assert equal.weighted.nfr_interval.high == pytest.approx(equal.intervals["nfr"].high)
    assert not equal.notes


@given(st.lists(st.integers(0, 10), min_size=2, max_size=30))
def test_effective_rows_stay_in_their_range(flips):
    sizes, sums = np.full(len(flips), 10.0), np.array(flips, float)
    share = sums.sum() / sizes.sum()
    rows = effective_rows(sizes, sums, share * (1 - share), sizes.sum(), 0.95)
    assert len(flips) - 1e-9 <= rows <= sizes.sum() + 1e-9
