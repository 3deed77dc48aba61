"""The fitted curve of one candidate along alpha: what its development rows and the prior say together.

Every row that flips between the old and the unmerged new model is undone at some alpha; how many of them, and where,
are the only numbers that matter. Their rates have a Dirichlet posterior, the exponents of the two undoing curves a
posterior on a grid, and the answer is a few thousand draws of (NFR, accuracy loss) at every alpha. No fitting loop,
and the same rows always give the same draws.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from .curve import AlphaCurve
from .margins import smoothed_gains
from .prior import LINEAR, Prior

DRAWS = 2048
_GRID = np.linspace(-2.6, 2.6, 15)
_WIDE = np.sinh(_GRID)  # the grid of an unknown in scales of its prior: fine in the middle, from -7 to 7
_LOG_WIDTH = np.log(np.cosh(_GRID))


@dataclass(frozen=True)
class CurveFit:
    """Draws from the posterior: `loss[i, k]` is the accuracy lost against the yardstick at `alphas[i]` in draw k.

    `uses_margins` says whether margins were there beside the counts, which tell several times as much.
    """

    alphas: np.ndarray
    nfr: np.ndarray
    loss: np.ndarray
    accuracy: np.ndarray
    weights: np.ndarray
    uses_margins: bool = False

    def mean(self, draws: np.ndarray) -> np.ndarray:
        return draws @ self.weights

    def quantiles(self, draws: np.ndarray, levels: tuple[float, ...] = (0.05, 0.95)) -> np.ndarray:
        """Quantiles of each alpha's draws, one row per alpha."""
        order = np.argsort(draws, axis=1)
        shares = np.cumsum(self.weights[order], axis=1)
        places = [np.minimum((shares < level).sum(1), draws.shape[1] - 1) for level in levels]
        ranked = np.take_along_axis(draws, order, 1)
        return np.stack([ranked[np.arange(len(draws)), place] for place in places], axis=1)

    def chance(self, holds: np.ndarray) -> np.ndarray:
        """The probability of something that holds or not in each draw: `fit.chance(fit.loss > 0.005)`."""
        return holds @ self.weights


def fit_curve(
    curve: AlphaCurve,
    yardstick: np.ndarray | None = None,
    prior: Prior = LINEAR,
    seed: int = 0,
    yardstick_margins: np.ndarray | None = None,
) -> CurveFit:
    """Fit one curve. `yardstick` is the correctness, row by row, of the model that accuracy is held against."""
    rng = np.random.default_rng(seed)
    new = curve.new_correct
    yard = new if yardstick is None else np.asarray(yardstick, bool)
    cells, weights = _flip_rates(curve.old_correct, yard, new, prior, rng)
    old_right, yard_right, new_right = _CELLS
    negative, positive = cells[:, old_right & ~new_right].sum(1), cells[:, ~old_right & new_right].sum(1)
    base_gain = cells[:, new_right].sum(1) - cells[:, yard_right].sum(1)
    negative_undone, positive_undone = _undoing(curve, prior, rng)
    arch = _arch(curve.alphas)[:, None]
    middle = _middle(curve, prior, rng) * arch
    nfr = negative * (1 - negative_undone) + _middle_flips(curve, prior, rng) * arch
    gain = base_gain + negative * negative_undone - positive * positive_undone + middle
    accuracy = cells[:, yard_right].sum(1) + gain
    evidence = smoothed_gains(curve.margins, yardstick_margins)
    if evidence is not None:
        weights = special.softmax(np.log(weights + 1e-300) + evidence.log_likelihood(gain))
    return CurveFit(curve.alphas, nfr, -gain, accuracy, weights, evidence is not None)


_CELLS = np.array([[bool(cell >> bit & 1) for cell in range(8)] for bit in range(3)])
"""Old, yardstick and new model: right (True) or wrong in each of the eight cells that a row may fall in."""


def _flip_rates(
    old: np.ndarray, yard: np.ndarray, new: np.ndarray, prior: Prior, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draws of the rates of the eight cells, and their weights under the prior on gains."""
    counts = np.bincount(old * 1 + yard * 2 + new * 4, minlength=8)
    possible = np.ones(8, bool) if (yard != new).any() else _CELLS[1] == _CELLS[2]
    drawn = rng.gamma(np.where(possible, counts + 0.25, 1.0), size=(DRAWS, 8)) * possible
    cells = drawn / drawn.sum(1, keepdims=True)
    old_right, yard_right, new_right = _CELLS
    negative, positive = cells[:, old_right & ~new_right].sum(1), cells[:, ~old_right & new_right].sum(1)
    log_weight = _gain_ratio(np.log(positive / negative), prior)
    if (yard != new).any():
        base_gain = cells[:, new_right].sum(1) - cells[:, yard_right].sum(1)
        log_weight += _student(base_gain, prior.base_gain, prior.base_degrees)
    return cells, special.softmax(log_weight)


def _gain_ratio(values: np.ndarray, prior: Prior) -> np.ndarray:
    """The log density of the mixture: a Gamma, and for surprises a wide Cauchy around 1."""
    shape, scale = prior.gain_ratio
    above = np.maximum(values, 1e-12)
    usual = np.where(values > 0, above ** (shape - 1) * np.exp(-above / scale), 0) / (
        special.gamma(shape) * scale**shape
    )
    anything = 1 / (1.5 * np.pi * (1 + ((values - 1) / 1.5) ** 2))
    return np.log((1 - prior.surprise) * usual + prior.surprise * anything)


def _student(values: np.ndarray, place: tuple[float, float], degrees: float) -> np.ndarray:
    """The log density of a Student t, up to a constant."""
    return -(degrees + 1) / 2 * np.log1p(((values - place[0]) / place[1]) ** 2 / degrees)


def _undoing(curve: AlphaCurve, prior: Prior, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draws of the shares of negative and of positive flips that are undone, alphas by draws.

    The law's numbers come from one of two priors, the usual one or the wide one of a surprise; the rows say which.
    """
    centre, gap = (place + scale * _WIDE for place, scale in (prior.centre, prior.gap))
    widths = np.array([[1.0], [prior.surprise_width]])
    level = -0.5 * (_WIDE / widths) ** 2 - np.log(widths) + _LOG_WIDTH  # usual and wide, by places on the grid
    log_post = np.log([1 - prior.surprise, prior.surprise])[:, None, None] + level[:, :, None] + level[:, None]
    sides = {}
    for sign, place in ((1, prior.negative_steepness), (-1, prior.positive_steepness)):
        steepness = np.exp(place[0] + place[1] * _WIDE)
        offset = centre[:, None] + sign * gap / 2
        ends = np.append(curve.alphas[_inner(curve)], 1.0)
        shares = _share(ends, offset[..., None], steepness)
        steps = np.maximum(np.diff(shares, axis=0, prepend=0.0), 1e-12)
        log_side = np.einsum("i,icgs->cgs", undone_at(curve, sign > 0), np.log(steps)) + level[:, None, None]
        sides[sign] = (offset, steepness, log_side)
        log_post = log_post + special.logsumexp(log_side, axis=-1)
    places = _draw(log_post.reshape(1, -1), np.zeros(DRAWS, int), rng)
    drawn = []
    for offset, steepness, log_side in sides.values():
        chosen = _draw(log_side.reshape(-1, len(_WIDE)), places, rng)
        drawn.append(_share(curve.alphas, offset.ravel()[places % offset.size], steepness[chosen]))
    return drawn[0], drawn[1]


def _share(alphas: np.ndarray, offset: np.ndarray, steepness: np.ndarray) -> np.ndarray:
    """The share undone at each alpha (first axis): none at 0, all at 1."""
    logit = special.logit(alphas).reshape(-1, *[1] * max(np.ndim(offset), np.ndim(steepness)))
    return special.expit(offset + logit * steepness)


def _draw(log_weights: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One column for each entry of `rows`, with probability by that row's weights."""
    shares = np.exp(log_weights - log_weights.max(1, keepdims=True)).cumsum(1)
    shares /= shares[:, -1:]
    level = rng.random(len(rows))
    if len(shares) == 1:
        return np.searchsorted(shares[0], level)
    return (shares[rows] < level[:, None]).sum(1)


def undone_at(curve: AlphaCurve, negative: bool) -> np.ndarray:
    """How many flips of one sign are first undone at each alpha between 0 and 1, and last at 1 itself.

    A row that goes back and forth counts by how many of the alphas take its flip back.
    """
    inner = curve.correct[_inner(curve)]
    if negative:
        flips, back = curve.old_correct & ~curve.new_correct, inner
    else:
        flips, back = ~curve.old_correct & curve.new_correct, ~inner
    return np.bincount(len(inner) - back[:, flips].sum(0), minlength=len(inner) + 1)


def _arch(alphas: np.ndarray) -> np.ndarray:
    """What only the middle of a curve has: nothing at both ends, one at alpha 0.5."""
    return 4 * alphas * (1 - alphas)


def _heights(curve: AlphaCurve, changed: np.ndarray) -> np.ndarray:
    """Each row's least-squares height of the arch, from how it changed at the inner alphas (alphas by rows)."""
    shape = _arch(curve.alphas[_inner(curve)])
    return shape @ changed / (shape @ shape)


def _inner(curve: AlphaCurve) -> np.ndarray:
    return (curve.alphas > 0) & (curve.alphas < 1)


def _middle(curve: AlphaCurve, prior: Prior, rng: np.random.Generator) -> np.ndarray:
    """Draws of what the middle gains on rows that do not flip between the ends: right there alone, or wrong there."""
    mean, sd = prior.middle
    inner = _inner(curve)
    if not inner.any():
        return rng.normal(mean, sd, DRAWS)
    same = curve.old_correct == curve.new_correct
    per_row = _heights(curve, curve.correct[inner][:, same].astype(float) - curve.new_correct[same])
    measured, variance = per_row.sum() / curve.total, (per_row @ per_row + 0.5) / curve.total**2
    precision = 1 / sd**2 + 1 / variance
    return rng.normal((mean / sd**2 + measured / variance) / precision, precision**-0.5, DRAWS)


def _middle_flips(curve: AlphaCurve, prior: Prior, rng: np.random.Generator) -> np.ndarray:
    """Draws of the rate of negative flips that only the middle has: rows that both ends get right.

    Nearly all merges have next to none. Rows that plainly show some are believed: the second part of the mixture.
    """
    inner = _inner(curve)
    flips, rows = 0.0, 0
    if inner.any():
        both = curve.old_correct & curve.new_correct
        flips, rows = float(_heights(curve, ~curve.correct[inner][:, both]).sum()), curve.total
    rates = 0.5 / np.array(prior.middle_flips)
    log_share = (
        np.log([1 - prior.surprise, prior.surprise]) + 0.5 * np.log(rates) - (flips + 0.5) * np.log(rates + rows)
    )
    usual = rng.random(DRAWS) < special.softmax(log_share)[0]
    return rng.gamma(flips + 0.5, size=DRAWS) / (np.where(usual, rates[0], rates[1]) + rows)
