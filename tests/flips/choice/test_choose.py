import dataclasses

import numpy as np
import pytest

from hf_pct.flips.choice.choose import Candidate, choose, find_yardstick
from hf_pct.flips.choice.contract import Contract
from hf_pct.flips.choice.curve import Curve
from hf_pct.flips.choice.fit import fit_curve
from hf_pct.flips.choice.prior import ADDED, LINEAR, WARPED

ALPHAS = np.arange(11) / 10


def law_curve(rng, total, negative, positive, *, accuracy=0.8, centre=-0.15, gap=0.75, alphas=ALPHAS):
    """Rows that follow the law of undoing: flips at these rates, each undone at an alpha of its own."""
    kind = rng.choice(4, total, p=[negative, positive, accuracy - negative, 1 - accuracy - positive])
    logit = rng.logistic(size=total)
    place = np.where(kind == 0, centre + gap / 2, centre - gap / 2)
    threshold = 1 / (1 + np.exp(-(logit - place)))  # odds(undone at alpha) = exp(place) * odds(alpha)
    undone = alphas[:, None] >= threshold
    undone[alphas == 1] = True
    old = (kind == 0) | (kind == 2)
    correct = np.where(kind == 0, undone, np.where(kind == 1, ~undone, kind == 2))
    return Curve(alphas, old, correct)


def test_the_fit_finds_the_curve_that_made_the_rows():
    rng = np.random.default_rng(0)
    truth = law_curve(rng, 400_000, 0.03, 0.05)
    fit = fit_curve(law_curve(np.random.default_rng(1), 40_000, 0.03, 0.05))
    nfr_range, loss_range = fit.quantiles(fit.nfr), fit.quantiles(fit.loss)
    expected_loss = truth.accuracy[0] - truth.accuracy
    assert np.abs(fit.mean(fit.nfr) - truth.nfr).max() < 0.0015
    assert np.abs(fit.mean(fit.loss) - expected_loss).max() < 0.003
    inside = (truth.nfr >= nfr_range[:, 0] - 1e-3) & (truth.nfr <= nfr_range[:, 1] + 1e-3)
    assert inside.all()
    assert (loss_range[:, 0] <= loss_range[:, 1]).all()


def test_the_same_rows_give_the_same_draws_and_both_ends_are_exact():
    curve = law_curve(np.random.default_rng(2), 500, 0.03, 0.05)
    one, two = fit_curve(curve), fit_curve(curve)
    assert np.array_equal(one.loss, two.loss)
    assert np.abs(one.loss[0]).max() < 1e-12  # the new model loses nothing against itself
    assert np.abs(one.nfr[-1]).max() == 0  # the old model has no flips


def test_intervals_cover_at_their_rate():
    rng, covered, runs = np.random.default_rng(3), 0, 120
    for _ in range(runs):
        fit = fit_curve(law_curve(rng, 500, 0.03, 0.06))
        true_loss = law_loss(0.5, 0.03, 0.06)
        low, high = fit.quantiles(fit.loss)[5]
        covered += low <= true_loss <= high
    assert covered / runs > 0.85


def law_loss(alpha, negative, positive, centre=-0.15, gap=0.75):
    odds = max(alpha, 1e-9) / (1 - alpha)
    share = [1 / (1 + 1 / (odds * np.exp(centre + side * gap / 2))) for side in (1, -1)]
    return positive * share[1] - negative * share[0]


def test_an_update_with_another_law_is_a_surprise_that_rows_can_tell():
    """Flips of both kinds are undone alike and early, as on noisy images: no encoder does that."""
    odd = {"centre": 0.4, "gap": 0.0}
    truth = law_curve(np.random.default_rng(12), 400_000, 0.05, 0.08, accuracy=0.6, **odd)
    rng, usual = np.random.default_rng(13), dataclasses.replace(LINEAR, surprise_width=1.0)
    middle, runs = truth.index(0.3), 30
    bias = {"surprise": 0.0, "usual": 0.0}
    for _ in range(runs):
        rows = law_curve(rng, 1000, 0.05, 0.08, accuracy=0.6, **odd)
        for name, prior in (("surprise", LINEAR), ("usual", usual)):
            fit = fit_curve(rows, prior=prior)
            bias[name] += (fit.mean(fit.loss) - (truth.accuracy[0] - truth.accuracy))[middle] / runs
    assert bias["usual"] < -0.001, "the usual law hides some of the loss"
    assert abs(bias["surprise"]) < 0.6 * abs(bias["usual"])


def test_each_of_several_candidates_may_take_less_of_a_chance():
    rng, contract = np.random.default_rng(14), Contract(margin=0.005)
    alone = choose([Candidate("plain", law_curve(rng, 500, 0.03, 0.05), plain=True)], contract)
    curve = law_curve(rng, 500, 0.03, 0.05)
    four = [Candidate("plain", curve, plain=True), *(Candidate(name, curve) for name in "abc")]
    limits = {
        count: max(point.risk for point in choose(four[:count], contract).points if point.allowed) for count in (1, 4)
    }
    assert alone.best is not None
    assert 0.25 < limits[1] <= 0.5
    assert limits[4] <= 0.25
    measured = choose(four, Contract(margin=0.005, risk=None))
    assert any(point.allowed for point in measured.points), "without a fit there is no risk to share"


@pytest.mark.parametrize(("negative", "positive", "most"), [(0.03, 0.047, 0.2), (0.03, 0.16, 0.15)])
def test_a_choice_on_few_rows_keeps_its_promise_more_often_than_the_measured_one(negative, positive, most):
    rng, margin, runs = np.random.default_rng(4), 0.005, 100
    broken = {"fitted": 0, "measured": 0}
    for _ in range(runs):
        curve = law_curve(rng, 500, negative, positive)
        for name, risk in (("fitted", 0.5), ("measured", None)):
            best = choose([Candidate("new", curve, plain=True)], Contract(margin=margin, risk=risk)).best
            broken[name] += best is None or law_loss(min(best.alpha, 0.99), negative, positive) > margin
    assert broken["fitted"] / runs <= most
    assert broken["fitted"] < broken["measured"]


def test_many_rows_overrule_the_prior():
    odd = law_curve(np.random.default_rng(5), 200_000, 0.05, 0.02)  # an update that breaks more than it mends
    best = choose([Candidate("new", odd, plain=True)], Contract(margin=0.0)).best
    assert best.alpha == 0.9  # no update at all is the best, and alpha 1 may not be chosen


def test_the_yardstick_is_the_most_accurate_plain_model_unless_the_contract_names_another():
    rng = np.random.default_rng(6)
    first = law_curve(rng, 2000, 0.03, 0.05)
    better = Curve(first.alphas[:1], first.old_correct, first.correct[:1] | (np.arange(2000) % 5 == 0))
    candidates = [Candidate("from old", first, plain=True), Candidate("anew", better, plain=True)]
    assert find_yardstick(candidates, Contract()).name == "anew"
    assert find_yardstick(candidates, Contract(yardstick="from old")).name == "from old"
    with pytest.raises(ValueError, match="'x' is none of the candidates: from old, anew"):
        find_yardstick(candidates, Contract(yardstick="x"))
    choice = choose(candidates, Contract(margin=0.005))
    assert choice.best.candidate == "anew"  # the other is four points behind it at every alpha
    assert not any(point.allowed for point in choice.points if point.candidate == "from old")
    assert choose(candidates, Contract(margin=0.005, yardstick="from old")).best.candidate in ("from old", "anew")


def test_of_several_candidates_the_one_with_fewest_flips_is_taken():
    rng = np.random.default_rng(7)
    plain = law_curve(rng, 4000, 0.03, 0.05)
    treated = plain.correct | (plain.old_correct & (rng.random(4000) < 0.5))
    candidates = [
        Candidate("plain", plain, plain=True),
        Candidate("treated", dataclasses.replace(plain, correct=treated)),
    ]
    choice = choose(candidates, Contract(margin=0.005))
    assert choice.best.candidate == "treated"
    assert choice.best.expected_nfr < min(
        p.expected_nfr for p in choice.points if p.candidate == "plain" and p.allowed
    )
    assert "fewest negative flips among" in choice.reason


def test_max_nfr_takes_the_most_accurate_within_it():
    curve = law_curve(np.random.default_rng(8), 4000, 0.03, 0.06)
    choice = choose([Candidate("new", curve, plain=True)], Contract(max_nfr=0.02))
    assert 0 < choice.best.alpha < 0.8
    assert choice.best.expected_nfr <= 0.02
    both = choose([Candidate("new", curve, plain=True)], Contract(max_nfr=0.001, margin=0.0))
    assert both.best is None
    assert both.nearest.risk == min(point.risk for point in both.points)
    assert "no candidate keeps the promise (NFR <= 0.0010 and accuracy at most 0.0000 below new)" in both.reason


def test_a_merge_by_fisher_has_a_wide_prior():
    alphas = np.array([0, 0.2, 0.5, 0.9, 1.0])
    curve = law_curve(np.random.default_rng(9), 20_000, 0.03, 0.05, centre=1.6, alphas=alphas)
    error = {"linear": 0.0, "warped": 0.0}
    for start in range(0, 8000, 400):
        rows = curve.rows(np.arange(start, start + 400))
        for name, prior in (("linear", LINEAR), ("warped", WARPED)):
            fit = fit_curve(rows, prior=prior)
            error[name] += np.abs(fit.mean(fit.nfr) - curve.nfr).sum()
    assert error["warped"] < error["linear"]


def test_added_classes_hold_out_and_are_lost_together():
    """A curve whose improvements are steep: its own prior finds the affordable alpha that the usual one misses."""
    rng, alphas = np.random.default_rng(15), np.array([0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 1.0])

    def steep_curve(total):
        kind = rng.choice(4, total, p=[0.05, 0.19, 0.56, 0.2])
        steep, centre = np.where(kind == 0, 1.0, 1.9), np.where(kind == 0, 0.6, -0.85)
        threshold = 1 / (1 + np.exp(-(rng.logistic(size=total) - centre) / steep))
        undone = alphas[:, None] >= threshold
        undone[alphas == 1] = True
        correct = np.where(kind == 0, undone, np.where(kind == 1, ~undone, kind == 2))
        return Curve(alphas, (kind == 0) | (kind == 2), correct)

    truth = steep_curve(400_000)
    affordable = alphas[truth.accuracy[0] - truth.accuracy <= 0.005].max()
    assert 0.2 <= affordable <= 0.4
    chosen = {"added": [], "linear": []}
    for _ in range(20):
        curve = steep_curve(500)
        for name, prior in (("added", ADDED), ("linear", LINEAR)):
            choice = choose([Candidate("new", curve, plain=True, prior=prior)], Contract(margin=0.005))
            chosen[name].append(choice.best.alpha)
    assert np.mean(chosen["linear"]) < np.mean(chosen["added"]) <= affordable + 0.1


def test_candidates_that_cannot_be_compared():
    one, two = (law_curve(np.random.default_rng(seed), 100, 0.03, 0.05) for seed in (10, 11))
    with pytest.raises(ValueError, match="b has 100 rows or another old model than a"):
        choose([Candidate("a", one), Candidate("b", two)])
    with pytest.raises(ValueError, match="two candidates are called a"):
        choose([Candidate("a", one), Candidate("a", one)])
    with pytest.raises(ValueError, match="no candidates"):
        choose([])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"target_accuracy": 0.8, "margin": 0.01}, "contradict each other"),
        ({"target_accuracy": 0.8, "yardstick": "plain"}, "contradict each other"),
        ({"risk": 1.5}, "risk is 1.5, expected a fraction between 0 and 1"),
        ({"exchange": -1}, "exchange is -1"),
    ],
)
def test_a_contract_that_cannot_be_kept(values, message):
    with pytest.raises(ValueError, match=message):
        Contract(**values)


def test_a_cliff_between_two_basins_is_believed_however_smooth_the_prior():
    """Both ends are fine and the middle answers every second row wrongly: no alpha there may be chosen."""
    rows = np.arange(400)
    old = rows < 300
    new = np.where(rows % 20 == 0, ~old, old)
    cliff = np.where(rows % 2 == 0, ~old, old)
    curve = Curve.of(old, {0.0: new, 0.4: cliff, 0.5: cliff, 0.6: cliff})
    points = choose([Candidate("new", curve, plain=True)], Contract(margin=0.005)).points
    assert [point.alpha for point in points if point.allowed] == [0.0]
    assert all(point.risk == 1.0 for point in points if 0 < point.alpha < 1)


def test_flips_that_only_the_middle_has_are_believed_when_rows_show_them():
    """Rows that both ends get right and the middle gets wrong are no flips of the law; one stray row is noise."""
    calm = law_curve(np.random.default_rng(5), 500, 0.02, 0.03)
    both = np.flatnonzero(calm.old_correct & calm.new_correct)
    inner = (calm.alphas > 0) & (calm.alphas < 1)

    def with_middle_flips(count):
        correct = calm.correct.copy()
        correct[np.ix_(inner, both[:count])] = False
        return Curve(calm.alphas, calm.old_correct, correct)

    middle = calm.index(0.5)
    expected = [fit_curve(with_middle_flips(count)) for count in (0, 1, 8)]
    rates = [float(fit.mean(fit.nfr)[middle]) for fit in expected]
    assert rates[1] - rates[0] < 0.0012, "one row of 500 is not believed whole"
    assert rates[2] - rates[0] > 0.012, "eight rows, 1.6 %, are"
    assert all(
        fit.mean(fit.nfr)[[0, -1]] == pytest.approx(expected[0].mean(expected[0].nfr)[[0, -1]]) for fit in expected
    )


def test_a_treatment_that_failed_by_points_is_believed_whatever_it_saves():
    rng = np.random.default_rng(3)
    plain = law_curve(rng, 500, 0.03, 0.05)
    poor = plain.correct.copy()
    right = np.flatnonzero(plain.new_correct & ~plain.old_correct)
    poor[0, right[:18]] = False  # 3.6 points of accuracy given up
    failed = Candidate("treated", Curve(plain.alphas, plain.old_correct, poor).rows(np.arange(500)))
    choice = choose([Candidate("plain", plain, plain=True), failed], Contract(margin=0.005))
    unmerged = next(point for point in choice.points if point.candidate == "treated" and point.alpha == 0)
    assert unmerged.risk > 0.9
    assert not unmerged.allowed


def unmerged(old, right):
    return Curve(np.array([0.0]), old, right[None])


def test_flips_that_differ_by_less_than_half_a_row_leave_the_choice_to_accuracy():
    rng = np.random.default_rng(4)
    old = rng.random(300) < 0.5
    plain = old.copy()
    plain[rng.choice(np.flatnonzero(old), 40, replace=False)] = False
    plain[rng.choice(np.flatnonzero(~old), 45, replace=False)] = True
    kept = old.copy()
    lost = rng.choice(np.flatnonzero(old), 26, replace=False)
    kept[lost] = False
    right = [kept.copy() for _ in range(3)]
    for answers, gained in zip(right, (40, 42, 70), strict=True):
        answers[rng.choice(np.flatnonzero(~old), gained, replace=False)] = True
    right[2][rng.choice(np.flatnonzero(old & kept), 2, replace=False)] = False  # two flips more, and the most accurate
    names = ("few", "few and better", "two more and best")
    candidates = [Candidate("plain", unmerged(old, plain), plain=True, start="anew")]
    candidates += [Candidate(name, unmerged(old, rows), start="anew") for name, rows in zip(names, right, strict=True)]
    choice = choose(candidates, Contract(margin=0.05))
    assert all(point.allowed for point in choice.points)
    first, second = (next(p for p in choice.points if p.candidate == name) for name in names[:2])
    assert abs(first.expected_nfr - second.expected_nfr) < 0.5 / 300
    assert choice.best.candidate == "few and better"
    assert choose(candidates[:2], Contract(margin=0.05)).best.candidate == "few"
    assert choose(candidates, Contract(margin=0.05, max_nfr=0.2)).best.candidate == "two more and best"
