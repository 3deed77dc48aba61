"""Does the new model break more than it fixes? McNemar's test for rows, a sign-flip permutation for clusters."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

Alternative = Literal["two-sided", "worse"]
_ROUNDING = 1e-14  # the Fourier transform adds up to this much to a probability: no p-value claims to be smaller


@dataclass(frozen=True)
class McNemar:
    """Two p-values for 'the new model breaks as many rows as it fixes'; the mid-p one is less conservative."""

    exact: float
    mid_p: float


def mcnemar(negative_flips: int, positive_flips: int, alternative: Alternative = "two-sided") -> McNemar:
    """The exact McNemar test on the rows whose correctness changed, and its mid-p form.

    `alternative="worse"` asks only whether the new model breaks more than it fixes. When no row changed there is no
    evidence of anything, and both p-values are 1.
    """
    if negative_flips < 0 or positive_flips < 0:
        raise ValueError(f"Counts of flips cannot be negative, got {negative_flips} and {positive_flips}.")
    _check_alternative(alternative)
    discordant = negative_flips + positive_flips
    if discordant == 0:
        return McNemar(1.0, 1.0)
    fewer, sides = (min(negative_flips, positive_flips), 2) if alternative == "two-sided" else (positive_flips, 1)
    tail = float(special.bdtr(fewer, discordant, 0.5))
    point = tail - (float(special.bdtr(fewer - 1, discordant, 0.5)) if fewer else 0.0)
    return _p_values(tail, point, sides)


def sign_flip(
    differences: ArrayLike, alternative: Alternative = "two-sided", *, resamples: int = 20_000, seed: int = 0
) -> McNemar:
    """The sign-flip permutation test of 'the sum of `differences` is zero', one number per independent unit.

    A unit is a row or a cluster; its number says how much worse the new model is there (rows broken minus rows
    fixed). If the two models were alike, each number could as well have the other sign. For whole numbers the
    distribution over all sign patterns is computed exactly, and numbers of only 1 and -1 give McNemar's test. Other
    numbers are enumerated up to 2^16 patterns and drawn at random beyond.
    """
    _check_alternative(alternative)
    values = np.asarray(differences, dtype=np.float64)
    if values.ndim != 1 or not np.isfinite(values).all():
        raise ValueError("differences must be a flat list of finite numbers, one per row or cluster.")
    values = values[values != 0]
    sizes = np.abs(values)
    if not len(values):
        return McNemar(1.0, 1.0)
    if (sizes == sizes[0]).all():  # as in a comparison of rows: the binomial distribution is exact at any size
        worse = int((values > 0).sum())
        return mcnemar(worse, len(values) - worse, alternative)
    observed = float(values.sum()) if alternative == "worse" else abs(float(values.sum()))
    whole = bool((sizes == np.round(sizes)).all()) and sizes.sum() < 5_000_000
    tail, point = _whole_tail(sizes, observed) if whole else _drawn_tail(sizes, observed, resamples, seed)
    return _p_values(tail, point, 2 if alternative == "two-sided" else 1)


def _check_alternative(alternative: str) -> None:
    if alternative not in ("two-sided", "worse"):
        raise ValueError(f"alternative is {alternative!r}, expected 'two-sided' or 'worse'.")


def _p_values(tail: float, point: float, sides: int) -> McNemar:
    return McNemar(min(1.0, sides * tail), min(1.0, sides * (tail - point / 2)))


def _whole_tail(sizes: np.ndarray, observed: float) -> tuple[float, float]:
    """P(sum of randomly signed whole sizes >= observed), and P(it equals observed).

    The characteristic function of the sum is a product of cosines; its inverse Fourier transform is the distribution.
    """
    distinct, counts = np.unique(sizes.astype(np.int64), return_counts=True)
    reach = int(sizes.sum())
    length = 2 * reach + 1
    angles = 2 * np.pi * np.arange(length) / length
    characteristic = np.ones(length)
    for size, count in zip(distinct.tolist(), counts.tolist(), strict=True):
        characteristic *= np.cos(size * angles) ** count
    chances = np.maximum(np.fft.fft(characteristic).real / length, 0.0)  # at k: the chance of a sum of k modulo length
    at = round(observed)
    tail = chances[at : reach + 1].sum() if at >= 0 else chances[: reach + 1].sum() + chances[at:].sum()
    return min(1.0, float(tail) + _ROUNDING), float(chances[at])


def _drawn_tail(sizes: np.ndarray, observed: float, resamples: int, seed: int) -> tuple[float, float]:
    """The same for any sizes: every sign pattern when there are few units, random ones otherwise."""
    nearly = 1e-9 * sizes.sum()
    if len(sizes) <= 16:
        bits = np.arange(2 ** len(sizes))[:, None] >> np.arange(len(sizes)) & 1
        sums, extra = (2 * bits - 1) @ sizes, 0
    else:
        rng = np.random.default_rng(seed)
        block = max(1, 4_000_000 // len(sizes))
        starts = range(0, resamples, block)
        signs = (rng.integers(0, 2, (min(block, resamples - start), len(sizes))) for start in starts)
        sums, extra = np.concatenate([(2 * flipped - 1) @ sizes for flipped in signs]), 1
    total = len(sums) + extra  # the observed pattern counts as one of those drawn, so that no p-value is 0
    tail = (int((sums >= observed - nearly).sum()) + extra) / total
    return tail, (int((np.abs(sums - observed) <= nearly).sum()) + extra) / total
