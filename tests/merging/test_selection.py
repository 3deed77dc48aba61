import numpy as np
import pytest

from hf_pct.flips.choice.curve import Curve
from hf_pct.flips.stats import upper_bound
from hf_pct.merging.selection import Contract, fixed_sequence, select_alpha


def make_curve(points, total=1000):
    """Rows 0..799 are right in the old model; each alpha loses the first `negative` and gains `positive` others."""
    old = np.arange(total) < 800
    correct = {}
    for alpha, (negative, positive) in points.items():
        right = old.copy()
        right[:negative] = False
        right[800 : 800 + positive] = True
        correct[alpha] = right
    return Curve.of(old, correct)


def measured(**conditions):
    """A contract that compares what was measured: no fitted curve."""
    return Contract(risk=None, **conditions)


POINTS = {0.0: (40, 60), 0.2: (30, 58), 0.4: (20, 45), 0.6: (10, 20), 0.8: (4, 10), 1.0: (0, 0)}


def test_curve_numbers():
    curve = make_curve(POINTS)
    assert curve.accuracy.tolist() == [0.82, 0.828, 0.825, 0.81, 0.806, 0.8]
    assert curve.nfr.tolist() == [0.04, 0.03, 0.02, 0.01, 0.004, 0.0]
    row = curve.table()[2]
    assert (row["alpha"], row["nfr"], row["pfr"], row["gain"]) == (0.4, 0.02, 0.045, 0.025)
    assert row["nfr_low"] < 0.02 < row["nfr_high"]
    assert row["gain_low"] < 0.025 < row["gain_high"]
    undone = curve.undone()[2]
    assert undone["negative_undone"] == 0.5
    assert undone["positive_undone"] == 0.25
    assert undone["proportional_nfr"] == pytest.approx(0.03)


def test_barrier():
    assert make_curve({0.0: (0, 50), 0.5: (0, 30), 1.0: (0, 0)}).barrier == pytest.approx(-0.005)
    assert make_curve({0.0: (0, 50), 0.5: (300, 0), 1.0: (0, 0)}).barrier == pytest.approx(0.325)


@pytest.mark.parametrize(
    ("contract", "alpha"),
    [
        (measured(), 0.4),  # 0.825 >= 0.82, fewest flips
        (measured(margin=0.01), 0.6),
        (measured(margin=0.02), 0.8),
        (measured(margin=0.02, allow_old=True), 1.0),
        (measured(target_accuracy=0.826), 0.2),
        (measured(max_nfr=0.02), 0.4),
        (measured(max_nfr=0.035), 0.2),  # more accurate than 0.4
        (measured(max_nfr=0.025, confidence=0.95), 0.6),  # 20 of 1000 has an upper bound of 2.9 %
        (measured(margin=0.01, confidence=0.95), 0.4),
    ],
)
def test_contract(contract, alpha):
    chosen = select_alpha(make_curve(POINTS), contract)
    assert chosen.alpha == alpha
    assert chosen.kept
    assert chosen.nfr == dict(zip(POINTS, make_curve(POINTS).nfr, strict=True))[alpha]


@pytest.mark.parametrize("contract", [Contract(target_accuracy=0.9), Contract(max_nfr=0.001)])
def test_no_alpha_keeps_the_promise(contract):
    chosen = select_alpha(make_curve(POINTS), contract)
    assert not chosen.kept
    assert chosen.alpha == 0.0
    assert chosen.accuracy == 0.82
    assert "returned unmerged" in chosen.reason


def test_the_new_model_is_not_inferior_to_itself():
    chosen = select_alpha(make_curve({0.0: (40, 60), 0.5: (39, 40)}), Contract(confidence=0.95))
    assert (chosen.alpha, chosen.kept) == (0.0, True)


def test_ties_go_to_accuracy_then_to_the_larger_alpha():
    assert select_alpha(make_curve({0.0: (9, 9), 0.3: (5, 20), 0.5: (5, 30), 0.7: (5, 30)}), measured()).alpha == 0.7


def test_certificate_without_a_limit_is_the_bound_on_unseen_rows():
    chosen = select_alpha(make_curve(POINTS), Contract(certify=True, margin=0.06))
    assert chosen.rows_searched == chosen.rows_tested == 500
    assert chosen.nfr_bound == pytest.approx(upper_bound(round(chosen.nfr * 500), 500, 0.95))
    assert chosen.promise.startswith(f"NFR <= {chosen.nfr_bound:.4f} and accuracy loss <= 0.0600 against ")
    assert chosen.promise.endswith(" with probability 0.95")


def test_certificate_that_cannot_be_given_is_flagged():
    chosen = select_alpha(make_curve(POINTS), Contract(certify=True, max_nfr=0.001))
    assert not chosen.kept
    assert "no alpha is certified" in chosen.reason


def wide_search(rng, rate, alphas=200, total=1000):
    """An adversarially wide search: many alphas, none truly better than another, all flipping at the same rate."""
    old = np.ones(total, bool)
    names = np.linspace(0, 0.999, alphas)
    return Curve(names, old, rng.random((alphas, total)) >= rate)


def test_the_promise_holds_at_the_stated_rate_when_the_search_is_wide():
    rng, rate, delta, runs = np.random.default_rng(0), 0.03, 0.1, 600
    contract = measured(certify=True, delta=delta, margin=1.0)
    broken = naive = 0
    for _ in range(runs):
        curve = wide_search(rng, rate)
        broken += select_alpha(curve, contract).nfr_bound < rate
        naive += upper_bound(int(curve.negative_flips.min()), curve.total, 1 - delta) < rate
    assert naive / runs > 0.9  # bounding the winner on the rows that it won on is nearly always wrong
    assert broken / runs < delta + 3 * np.sqrt(delta * (1 - delta) / runs)


def test_fixed_sequence_rarely_certifies_what_is_not_true():
    rng, rate, delta, runs = np.random.default_rng(1), 0.0301, 0.1, 600
    contract = measured(certify=True, delta=delta, max_nfr=0.03)
    wrong = sum(select_alpha(wide_search(rng, rate), contract).kept for _ in range(runs))
    assert wrong / runs < delta + 3 * np.sqrt(delta * (1 - delta) / runs)
    right = sum(select_alpha(wide_search(rng, 0.005), contract).kept for _ in range(20))
    assert right == 20  # and it is not just silent


def test_fixed_sequence_stops_at_the_first_failure():
    curve = make_curve({0.0: (40, 60), 0.4: (20, 45), 0.8: (1, 10)})
    assert fixed_sequence(curve, curve, Contract(max_nfr=0.03)).tolist() == [False, True, True]
    with pytest.raises(ValueError, match="max_nfr"):
        fixed_sequence(curve, curve, Contract())


def test_bad_input():
    with pytest.raises(ValueError, match=r"margin is -0\.1.*delta is 1\.0"):
        Contract(margin=-0.1, delta=1.0)
    with pytest.raises(ValueError, match=r"alpha 0, the new model, is missing.*"):
        Curve.of([True, False], {0.5: [True, True]})
    with pytest.raises(ValueError, match=r"alpha 0\.5: \(3,\) entries, expected \(2,\)"):
        Curve.of([True, False], {0.0: [True, True], 0.5: [True, True, True]})
    with pytest.raises(ValueError, match="too few to split"):
        select_alpha(Curve.of([True], {0.0: [True]}), Contract(certify=True))
