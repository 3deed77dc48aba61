"""How many independent rows do weighted rows, or rows that come in clusters, amount to?

Korn and Graubard's idea (1998): estimate the variance of the rate from the units (clusters, or single weighted rows),
ask how many independent rows would have that variance, and use the exact interval for that many. Two changes keep the
level where flips are rare, which is where it matters here:

* The variance is itself estimated from the few units that flipped, so the number is reduced as Student's t demands,
  with as many degrees of freedom as there are units that contribute: one flipped cluster proves little.
* It never leaves the range that is plausible: at most the rows' own number (no correlation), at least the number that
  is left when a unit flips as one, and the more often the larger it is (`_size_if_flips_follow`). With no flip at all
  there is no variance to estimate, and the same assumption decides alone.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from .binomial import Interval, check_confidence, clopper_pearson, upper_bound


def effective_size(weights: ArrayLike) -> float:
    """Kish's effective number of rows: how many equally weighted rows tell as much as these weighted ones."""
    sizes = np.asarray(weights, dtype=np.float64)
    return float(sizes.sum() ** 2 / np.square(sizes).sum())


def _size_if_flips_follow(sizes: np.ndarray, power: int) -> float:
    """How many equal rows the units amount to if each flips as one, with a chance that grows as its size^power.

    Power 0 is Kish's size: the chance to flip has nothing to do with the size.
    """
    relative = sizes / sizes.max()
    return float(relative.sum() * (relative ** (power + 1)).sum() / (relative ** (power + 2)).sum())


def effective_rows(
    sizes: np.ndarray, sums: np.ndarray, row_variance: float, most: float, level: float, power: int = 1
) -> float:
    """How many independent rows have the variance of sum(sums) / sum(sizes), for a bound at the one-sided `level`.

    Args:
        sizes: what each unit counts: its rows, or its weight.
        sums: what the unit adds: its flips, its weighted flips, or its rows fixed minus broken.
        row_variance: the variance that one independent row would have.
        most: the number of rows if all were independent.
        level: the one-sided confidence, which decides how much Student's t takes off.
        power: the steepest growth of a unit's chance to flip with its size for which the bound still holds.
    """
    total = sizes.sum()
    if row_variance <= 0 or len(sizes) < 2:
        # the chance of no flip at all depends on one power less than the variance of the flips
        return min(most, _size_if_flips_follow(sizes, power - 1))
    deviations = sums - sums.sum() / total * sizes
    spread = float(np.square(deviations).sum())
    if spread <= 0:
        return most
    least = min(most, _size_if_flips_follow(sizes, power))
    variance = len(sizes) / (len(sizes) - 1) * spread / total**2
    rows = row_variance / variance
    return float(np.clip(rows * _certainty(deviations, spread, level, rows * row_variance), least, most))


def _certainty(deviations: np.ndarray, spread: float, level: float, flips: float) -> float:
    """The share of the estimated number of rows that may be claimed, given that the variance is only estimated.

    Student's t for the degrees of freedom that the deviations have, and Hall's correction for how much more skewed the
    units are than that many independent rows, of which about `flips` are flips. The skewness of a sample falls short
    of the true one, hence twice the correction.
    """
    if level <= 0.5:
        return 1.0
    degrees = min(spread**2 / float((deviations**4).sum()), len(deviations) - 1)
    normal = float(special.ndtri(level))
    skewness = abs(float((deviations**3).sum())) / spread**1.5 - 1 / math.sqrt(flips)
    stretch = 1 + 2 * (2 * normal**2 + 1) / (6 * normal) * max(skewness, 0.0)
    return (normal / float(special.stdtrit(degrees, level)) / stretch) ** 2


@dataclass(frozen=True)
class Rate:
    """A rate over units with its two-sided interval, its one-sided upper bound and the rows that each amounts to."""

    value: float
    interval: Interval
    upper: float
    interval_rows: float
    upper_rows: float


def rate_of(sizes: np.ndarray, sums: np.ndarray, most: float, confidence: float, power: int = 1) -> Rate:
    """The rate sum(sums) / sum(sizes) over independent units, with bounds that hold whatever a unit's rows share."""
    check_confidence(confidence)
    value = float(np.clip(sums.sum() / sizes.sum(), 0.0, 1.0))
    variance = value * (1 - value)
    two_sided = effective_rows(sizes, sums, variance, most, (1 + confidence) / 2, power)
    one_sided = effective_rows(sizes, sums, variance, most, confidence, power)
    return Rate(
        value,
        clopper_pearson(value * two_sided, two_sided, confidence),
        upper_bound(value * one_sided, one_sided, confidence),
        two_sided,
        one_sided,
    )
