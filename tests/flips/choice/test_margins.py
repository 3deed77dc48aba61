"""Margins: the same accuracy with less noise, whatever the scale of the logits, and nothing where they mislead."""

from dataclasses import replace

import numpy as np
import pytest

from hf_pct.flips.choice.choose import MARGINS_RISK, Candidate, choose
from hf_pct.flips.choice.contract import Contract
from hf_pct.flips.choice.curve import AlphaCurve
from hf_pct.flips.choice.fit import fit_curve
from hf_pct.flips.choice.margins import DOUBT, row_margins, smoothed_gains

ROWS = 500


def two_models(rng, rows, gain=0.3, scale=1.0):
    """Margins of a yardstick and of a model that differs a little on every row, and is `gain` higher."""
    yard = rng.normal(2.0, 2.5, rows)
    return yard, scale * (yard + gain + rng.normal(0, 1.2, rows))


def hard(own, yard):
    return float((own > 0).mean() - (yard > 0).mean())


def test_a_margin_is_above_zero_where_the_label_is_the_answer():
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(200, 7)), rng.integers(7, size=200)
    margins = row_margins(logits, labels)
    assert ((margins > 0) == (logits.argmax(1) == labels)).all()
    second = np.sort(logits, 1)[:, -2]
    right = margins > 0
    assert margins[right] == pytest.approx((logits.max(1) - second)[right], abs=1e-5)


def test_logits_are_not_changed():
    logits = np.array([[1.0, 2.0, 3.0]], dtype=np.float32)
    row_margins(logits, np.array([0]))
    assert logits.tolist() == [[1.0, 2.0, 3.0]]


def test_a_label_without_a_logit_has_no_margin_and_such_rows_are_judged_by_count():
    logits = np.array([[1.0, 2.0], [3.0, 2.0], [1.0, 2.0]])
    margins = row_margins(logits, np.array([1, -100, 7]))
    assert margins[0] == 1.0
    assert np.isnan(margins[1:]).all()
    assert smoothed_gains(margins[None], np.ones(3)) is None


@pytest.mark.parametrize("logits", [np.full((4, 2), np.nan), np.full((4, 2), np.inf), np.ones((4, 1))])
def test_logits_that_are_no_numbers_give_no_evidence(logits):
    margins = row_margins(logits, np.zeros(4, int))
    assert smoothed_gains(margins[None], np.ones(4)) is None
    assert smoothed_gains(np.ones((1, 4)), margins) is None


def test_a_smoothed_difference_has_the_mean_of_the_count_and_two_thirds_of_its_error():
    rng = np.random.default_rng(1)
    truth = hard(*two_models(rng, 2_000_000)[::-1])
    counted, smoothed = [], []
    for _ in range(400):
        yard, own = two_models(rng, ROWS)
        evidence = smoothed_gains(own[None], yard)
        if evidence is not None:  # plainly contradicted by the count, once in some hundred times
            counted.append(hard(own, yard))
            smoothed.append(evidence.gains[0])
    assert len(counted) > 390
    assert abs(np.mean(smoothed) - truth) < 2 * DOUBT
    assert np.std(smoothed) < 0.67 * np.std(counted)


def test_the_scale_of_the_logits_does_not_matter():
    yard, own = two_models(np.random.default_rng(2), ROWS)
    one, other = smoothed_gains(own[None], yard), smoothed_gains(100 * own[None], 0.01 * yard)
    assert one.gains == pytest.approx(other.gains)
    assert one.covariance == pytest.approx(other.covariance)


def test_margins_that_contradict_the_count_are_not_used():
    """A model that is wrong by a hair on many rows, and right by far on all others: of another shape."""
    rng = np.random.default_rng(3)
    yard = rng.normal(2.0, 2.5, ROWS)
    own = np.where(rng.random(ROWS) < 0.3, -0.001, 3.0)
    assert smoothed_gains(own[None], yard) is None


@pytest.mark.parametrize(
    ("margins", "yardstick"),
    [
        (None, np.ones(4)), (np.ones((1, 4)), None), (np.full((1, 4), np.nan), np.ones(4)),
        (np.ones((1, 4)), np.full(4, np.nan)),
    ],
    ids=["none", "no yardstick", "unknown", "unknown yardstick"],
)  # fmt: skip
def test_missing_margins_say_nothing(margins, yardstick):
    assert smoothed_gains(margins, yardstick) is None


def test_the_yardstick_itself_says_nothing():
    yard = np.random.default_rng(4).normal(size=ROWS)
    assert smoothed_gains(yard[None], yard) is None


def along_alpha(rng, rows):
    """An old model, a new one, and what lies between, as margins; the yardstick is another new model."""
    old = rng.normal(1.4, 2.5, rows)
    yard, new = old + 0.5 + rng.normal(0, 1.2, rows), old + 0.5 + rng.normal(0, 1.2, rows)
    margins = {alpha: alpha * old + (1 - alpha) * new for alpha in (0.0, 0.2, 0.4, 0.6)}
    return old > 0, {**{a: m > 0 for a, m in margins.items()}, 1.0: old > 0}, margins, yard


def test_with_margins_the_interval_of_the_loss_is_narrower_and_still_covers():
    rng = np.random.default_rng(5)
    _, right, _, yard = along_alpha(rng, 1_000_000)
    truth = {alpha: float((yard > 0).mean() - rows.mean()) for alpha, rows in right.items()}
    covered, widths = [], []
    for _ in range(300):
        old, right, margins, yard = along_alpha(rng, ROWS)
        fits = [
            fit_curve(AlphaCurve.of(old, right, known), yard > 0, yardstick_margins=yard) for known in (None, margins)
        ]
        without, with_margins = (fit.quantiles(fit.loss)[:4] for fit in fits)
        widths.append((with_margins[:, 1] - with_margins[:, 0]) / (without[:, 1] - without[:, 0]))
        covered.append([low <= truth[a] <= high for a, (low, high) in zip(margins, with_margins, strict=True)])
    assert np.mean(widths) < 0.9
    assert np.mean(covered) > 0.89  # 90 % are meant


def test_some_rows_of_a_curve_keep_their_margins():
    curve = AlphaCurve.of([True, False, True], {0.0: [True, True, False], 0.5: [True] * 3}, {0.0: np.arange(3.0)})
    part = curve.rows(np.array([2, 0]))
    assert part.new_margins.tolist() == [2.0, 0.0]
    assert np.isnan(part.margins[1]).all()


def test_a_choice_follows_margins_where_counting_is_noise():
    """The count says that the candidate is a point behind, by chance; on every row it is a little ahead."""
    rng = np.random.default_rng(6)
    while True:
        yard = rng.normal(2.0, 2.5, ROWS)
        own = yard + 0.05 + rng.normal(0, 1.0, ROWS)
        if hard(own, yard) <= -0.01 and smoothed_gains(own[None], yard).gains[0] > -0.002:
            break
    old = (yard > 0) & (rng.random(ROWS) < 0.97)
    contract = Contract(margin=0.005)

    def chosen(known):
        pairs = {"plain": (yard, True), "treated": (own, False)}
        candidates = [
            Candidate(name, AlphaCurve.of(old, {0.0: rows > 0}, {0.0: rows} if known else None), plain)
            for name, (rows, plain) in pairs.items()
        ]
        return next(point for point in choose(candidates, contract).points if point.candidate == "treated")

    with_margins, without = chosen(True), chosen(False)
    assert with_margins.risk < without.risk
    assert with_margins.loss_high - with_margins.loss_low < without.loss_high - without.loss_low


def merged_and_plain(rng, rows):
    """A curve along alpha with margins, and a plain yardstick of the same start."""
    old, right, margins, yard = along_alpha(rng, rows)
    plain = AlphaCurve.of(old, {0.0: yard > 0}, {0.0: yard})
    return AlphaCurve.of(old, right, margins), plain


def points_of(curve, plain, starts=("old", "old"), **contract):
    candidates = [Candidate("merged", curve, start=starts[0]), Candidate("plain", plain, True, start=starts[1])]
    choice = choose(candidates, Contract(margin=0.005, **contract))
    return [point for point in choice.points if point.candidate == "merged"]


def test_margins_of_models_that_started_elsewhere_are_not_compared():
    curve, plain = merged_and_plain(np.random.default_rng(7), ROWS)
    without = points_of(replace(curve, margins=None), plain)
    assert points_of(curve, plain, starts=("old", "anew")) == without
    assert points_of(curve, plain) != without


def test_with_margins_the_risk_alone_limits_the_loss():
    curve, plain = merged_and_plain(np.random.default_rng(8), 20 * ROWS)
    strict, generous = points_of(curve, plain, exchange=0.0), points_of(curve, plain, exchange=1e6)
    assert strict == generous
    by_count = points_of(replace(curve, margins=None), plain, exchange=0.0)
    assert not any(point.allowed and point.expected_loss > 0 for point in by_count)
    assert all(point.risk <= MARGINS_RISK for point in generous if point.allowed)
    assert any(point.allowed for point in generous)
    own = points_of(curve, plain, risk=0.49)  # a risk that somebody gave is the one that counts, shared by two
    assert {point.allowed for point in own if 0.25 < point.risk < 0.49 / np.sqrt(2)} <= {True}
    assert sum(point.allowed for point in own) >= sum(point.allowed for point in generous)
