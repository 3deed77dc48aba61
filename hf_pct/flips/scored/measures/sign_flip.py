"""The paired sign-flip test: had old and new changed places by chance, how often would the mean move this far?

Each row's difference (or each cluster's summed difference) keeps its size and takes a random sign. With few rows that
differ all signs are tried; with differences of one size, as between 0/1 scores, the count of signs is binomial and the
test is the exact McNemar test; with more, signs are drawn; with many, the tail comes from a saddlepoint approximation,
which is closer than a drawn tail of any affordable number of draws.
"""

from dataclasses import dataclass

import numpy as np
from scipy import special

from ...stats import sign_flip as paired_sign_flip
from .rates import unit_sums

ENUMERATED = 16  # units that differ: all signs are tried
DRAWN = 1_000
_DRAWS = 9_999
_BINS = 4_096


@dataclass(frozen=True)
class SignFlip:
    """P-values for 'old and new are alike': two-sided, and against 'the new one is worse'."""

    p_value: float
    p_worse: float
    method: str
    units: int


def sign_flip(differences: np.ndarray, clusters: np.ndarray | None = None, *, seed: int = 0) -> SignFlip:
    """Test differences (new minus old, more is better) of rows, or of clusters of rows that belong together.

    Example:
        >>> sign_flip(np.array([-1.0, -1.0, -1.0, 0.0])).p_worse
        0.125
    """
    _, units = unit_sums(np.asarray(differences, dtype=np.float64), clusters)
    scale = np.abs(units).max(initial=0.0)
    units = np.where(np.abs(units) > 1e-12 * scale, units, 0.0)  # what is left of sums that cancel is no difference
    sizes = np.abs(units[units != 0])
    if not len(sizes):
        return SignFlip(1.0, 1.0, "no difference", len(units))
    alike = bool(sizes.max() - sizes.min() <= 1e-9 * scale)
    if alike or len(sizes) <= DRAWN:
        drops = -np.sign(units) if alike else -units
        p_value = paired_sign_flip(drops, "two-sided", resamples=_DRAWS, seed=seed).exact
        p_worse = paired_sign_flip(drops, "worse", resamples=_DRAWS, seed=seed).exact
        return SignFlip(p_value, p_worse, "exact" if alike or len(sizes) <= ENUMERATED else "drawn", len(units))
    observed = float(units.sum())
    beyond = saddlepoint_tail(sizes, abs(observed))
    worse = beyond if observed < 0 else 1.0 - beyond
    return SignFlip(min(1.0, 2 * beyond), worse, "saddlepoint", len(units))


def saddlepoint_tail(sizes: np.ndarray, reach: float) -> float:
    """P(sum of randomly signed sizes >= reach) by Lugannani and Rice's formula, for `reach` not below 0."""
    counts = np.ones(len(sizes))
    if len(sizes) > 4 * _BINS:  # rows of nearly the same size are one size: the tail does not see the difference
        place = (sizes * ((_BINS - 1) / sizes.max())).astype(np.int64)
        counts = np.bincount(place, minlength=_BINS).astype(np.float64)
        squares = np.bincount(place, weights=sizes**2, minlength=_BINS)
        sizes, counts = np.sqrt(squares[counts > 0] / counts[counts > 0]), counts[counts > 0]
    variance = float(counts @ sizes**2)
    if reach < 1e-6 * np.sqrt(variance):
        return 0.5
    if reach >= counts @ sizes * (1 - 1e-9):
        return float(2.0 ** -counts.sum())
    tilt = _solve(sizes, counts, reach, variance)
    curvature = float(counts @ (sizes**2 * (1 - np.tanh(tilt * sizes) ** 2)))
    log_cosh = np.logaddexp(tilt * sizes, -tilt * sizes) - np.log(2)
    signed = np.sqrt(max(2 * (tilt * reach - counts @ log_cosh), 0.0))
    if signed < 1e-4:
        return float(special.ndtr(-reach / np.sqrt(variance)))
    density = np.exp(-(signed**2) / 2) / np.sqrt(2 * np.pi)
    tail = special.ndtr(-signed) + density * (1 / (tilt * np.sqrt(curvature)) - 1 / signed)
    return float(min(max(tail, 0.0), 1.0))


def _solve(sizes: np.ndarray, counts: np.ndarray, reach: float, variance: float) -> float:
    """The tilt under which the expected sum is `reach`; the sum rises with the tilt, so bracket it and bisect."""
    low, high = 0.0, reach / variance
    while counts @ (sizes * np.tanh(high * sizes)) < reach:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        if counts @ (sizes * np.tanh(middle * sizes)) < reach:
            low = middle
        else:
            high = middle
    return (low + high) / 2
