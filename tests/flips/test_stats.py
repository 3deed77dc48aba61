import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from hf_pct.flips import stats


@pytest.mark.parametrize(
    ("count", "total", "percent"), [(0, 300, 0.99), (0, 1000, 0.30), (10, 1000, 1.69), (32, 4000, 1.07)]
)
def test_published_upper_bounds(count, total, percent):
    assert round(100 * stats.upper_bound(count, total), 2) == percent


@given(st.integers(1, 500), st.floats(0, 1), st.sampled_from([0.8, 0.9, 0.95, 0.99]))
def test_intervals_are_scipys(total, share, confidence):
    count = round(share * total)
    ours = stats.clopper_pearson(count, total, confidence)
    theirs = scipy_stats.binomtest(count, total).proportion_ci(confidence, method="exact")
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-9)
    above = scipy_stats.binomtest(count, total, alternative="less").proportion_ci(confidence, method="exact")
    below = scipy_stats.binomtest(count, total, alternative="greater").proportion_ci(confidence, method="exact")
    assert stats.upper_bound(count, total, confidence) == pytest.approx(above.high, abs=1e-9)
    assert stats.lower_bound(count, total, confidence) == pytest.approx(below.low, abs=1e-9)


@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_is_the_exact_binomial_test(negative, positive):
    found = stats.mcnemar(negative, positive)
    if negative + positive == 0:
        assert (found.exact, found.mid_p) == (1.0, 1.0)
        return
    exact = scipy_stats.binomtest(negative, negative + positive).pvalue
    assert found.exact == pytest.approx(exact, abs=1e-9)
    point = scipy_stats.binom.pmf(min(negative, positive), negative + positive, 0.5)
    assert found.mid_p == pytest.approx(exact - point if negative != positive else 1, abs=1e-9)
    worse = stats.mcnemar(negative, positive, alternative="worse")
    one_sided = scipy_stats.binomtest(negative, negative + positive, alternative="greater").pvalue
    assert worse.exact == pytest.approx(one_sided, abs=1e-9)


def test_tango_without_margin_is_mcnemars_score():
    found = stats.non_inferiority(negative_flips=10, positive_flips=25, total=1000, margin=0.0)
    assert found.p_value == pytest.approx(scipy_stats.norm.sf((25 - 10) / np.sqrt(35)))


@given(st.integers(0, 30), st.integers(0, 30), st.integers(60, 3000), st.sampled_from([0.0, 0.005, 0.02]))
def test_the_bound_and_the_p_value_say_the_same(negative, positive, total, margin):
    found = stats.non_inferiority(negative, positive, total, margin)
    if abs(found.p_value - 0.05) > 1e-6:
        assert found.holds == (found.p_value < 0.05)
    assert -1 <= found.lower_bound <= found.difference
    interval = stats.accuracy_gain_interval(negative, positive, total, confidence=0.90)
    assert interval.low == pytest.approx(found.lower_bound, abs=1e-9)
    assert interval.low <= found.difference <= interval.high
    mirrored = stats.accuracy_gain_interval(positive, negative, total, confidence=0.90)
    assert (mirrored.low, mirrored.high) == pytest.approx((-interval.high, -interval.low), abs=1e-9)


def test_non_inferiority_keeps_its_level():
    """At the edge of the margin the test says 'not inferior' in about 5 % of the cases, also with few flips."""
    rng = np.random.default_rng(0)
    draws = rng.multinomial(400, [0.03, 0.01, 0.96], size=1500)  # broken, fixed, kept: a true loss of 0.02
    holds = [stats.non_inferiority(int(n), int(p), 400, margin=0.02).holds for n, p, _ in draws]
    assert 0.03 < np.mean(holds) < 0.07


def test_no_flips_at_all_still_bounds_the_loss():
    assert stats.non_inferiority(0, 0, 300, margin=0.01).holds
    assert not stats.non_inferiority(0, 0, 100, margin=0.01).holds


def test_paired_bootstrap_agrees_with_resampling_the_rows():
    rng = np.random.default_rng(0)
    first, second = rng.random(800) < 0.12, rng.random(800) < 0.03
    found = stats.paired_bootstrap(first, second)
    difference = first.astype(float) - second
    plain = [difference[rng.integers(0, 800, 800)].mean() for _ in range(4000)]
    assert found.estimate == pytest.approx(difference.mean())
    assert (found.interval.low, found.interval.high) == pytest.approx(np.quantile(plain, [0.025, 0.975]), abs=0.002)
    assert found.p_value < 0.05


def test_clusters_widen_the_interval():
    rng = np.random.default_rng(0)
    users = np.repeat(np.arange(50), 20)
    flipped = np.repeat(rng.random(50) < 0.1, 20)  # all of a user's rows flip together
    none = np.zeros(1000, bool)
    rows, clustered = stats.paired_bootstrap(flipped, none), stats.paired_bootstrap(flipped, none, users)
    assert clustered.clusters == 50
    assert clustered.estimate == rows.estimate
    width = [difference.interval.high - difference.interval.low for difference in (rows, clustered)]
    assert width[1] > 3 * width[0]


def test_one_row_a_cluster_is_no_clustering():
    rng = np.random.default_rng(3)
    first, second = rng.random(500) < 0.1, rng.random(500) < 0.05
    apart = stats.paired_bootstrap(first, second, np.arange(500))
    assert apart == stats.paired_bootstrap(first, second)


def test_columns_that_agree_do_not_claim_certainty():
    found = stats.paired_bootstrap(np.zeros(300), np.zeros(300))
    assert found.estimate == 0
    assert found.p_value == 1
    assert found.interval.high == pytest.approx(stats.upper_bound(0, 300))
    assert found.interval.low == -found.interval.high


def test_the_bootstrap_is_reproducible_and_covers():
    rng = np.random.default_rng(5)
    covered = 0
    for _ in range(200):
        first, second = rng.random(600) < 0.08, rng.random(600) < 0.05
        found = stats.paired_bootstrap(first, second, resamples=1000)
        covered += found.interval.low <= 0.03 <= found.interval.high
    assert 0.90 <= covered / 200 <= 0.99
    assert stats.paired_bootstrap(first, second, seed=1) == stats.paired_bootstrap(first, second, seed=1)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_corrections(p_values):
    ours = stats.benjamini_hochberg(p_values)
    assert ours == pytest.approx(scipy_stats.false_discovery_control(p_values))
    holm = stats.holm(p_values)
    assert (holm >= ours - 1e-12).all()
    assert (holm >= np.array(p_values) - 1e-12).all()
    assert (holm <= 1).all()


def test_holm_by_hand():
    assert stats.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_equal_weights_are_no_weights():
    assert stats.effective_size(np.full(40, 2.5)) == pytest.approx(40)
    assert stats.effective_size([1, 0, 0]) == pytest.approx(1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: stats.clopper_pearson(5, 4), "5 of 4"),
        (lambda: stats.clopper_pearson(0, 0), "at least one row"),
        (lambda: stats.upper_bound(1, 2, 95), "confidence is 95, expected a fraction"),
        (lambda: stats.mcnemar(-1, 2), "cannot be negative"),
        (lambda: stats.mcnemar(1, 2, alternative="less"), "expected 'two-sided' or 'worse'"),
        (lambda: stats.non_inferiority(3, 4, 5, 0.1), "sum to at most the number of rows"),
        (lambda: stats.non_inferiority(1, 1, 5, -0.1), "margin is -0.1"),
        (lambda: stats.paired_bootstrap([1, 0], [1]), "lengths differ"),
        (lambda: stats.paired_bootstrap([1], [1], resamples=3), "resamples is 3"),
        (lambda: stats.holm([0.5, 1.5]), "between 0 and 1"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
