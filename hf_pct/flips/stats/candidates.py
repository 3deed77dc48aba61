"""Do two candidates differ on the same rows? A paired bootstrap, exact where few rows differ."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from ..tables.columns import check_same_length
from .binomial import Interval, check_confidence, upper_bound
from .clustered import cluster_codes, clustered_gain
from .paired import sign_flip

_FEW = 50  # discordant rows: below, the bootstrap's percentiles are visibly too narrow


@dataclass(frozen=True)
class Difference:
    """A difference of two rates on the same rows, its interval and a two-sided p-value."""

    estimate: float
    interval: Interval
    p_value: float
    clusters: int


def paired_bootstrap(
    first: ArrayLike,
    second: ArrayLike,
    clusters: ArrayLike | None = None,
    *,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Difference:
    """mean(first) - mean(second), two columns about the same rows: flips of two candidates, say.

    Rows with the same entry in `clusters` (the utterances of one user, the sentences of one document) stay together.
    The p-value is the sign-flip permutation test over rows or clusters, which is exact: for flips of single rows it
    is the sign test. The interval is a bootstrap's. Where that is too narrow, for fewer than 50 rows that differ and
    for clusters, columns of 0 and 1 get Tango's score interval on the effective number of rows, and other numbers
    Student's t interval. An interval never leaves out 0 when the test cannot. When the two columns agree in every row,
    it is the exact bound on how often they could differ, which is all that so many agreeing rows can show.

    Resampling rows only changes how often each distinct value comes up, so one multinomial draw per resample replaces
    a pass over the rows: ten thousand resamples of a million rows take milliseconds.
    """
    check_confidence(confidence)
    if resamples < 100:
        raise ValueError(f"resamples is {resamples}, expected at least 100 for an interval that means something.")
    left, right = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    columns = {"first": left, "second": right}
    groups = None if clusters is None else np.asarray(clusters)
    rows = check_same_length(columns if groups is None else columns | {"clusters": groups})
    difference = left - right
    if groups is None:
        codes, sizes = np.arange(rows), np.ones(rows)
    else:
        codes, sizes = cluster_codes(groups)
    estimate, units = float(difference.mean()), len(sizes)
    if not difference.any():
        reach = upper_bound(0, units, confidence)
        return Difference(estimate, Interval(-reach, reach, confidence), 1.0, units)
    sums = difference if units == rows else np.bincount(codes, weights=difference)
    p_value = sign_flip(sums).exact
    interval = _score_interval(difference, codes, sizes, confidence)
    if interval is None:
        interval = _drawn_interval(sums, sizes, confidence, resamples, seed)
    if p_value > 1 - confidence:
        interval = Interval(min(interval.low, 0.0), max(interval.high, 0.0), confidence)
    return Difference(estimate, interval, p_value, units)


def _score_interval(
    difference: np.ndarray, codes: np.ndarray, sizes: np.ndarray, confidence: float
) -> Interval | None:
    """Tango's interval, for flips of which few rows differ or rows come in clusters; None where it is not needed."""
    more, less = difference == 1, difference == -1
    if not (more | less | (difference == 0)).all():
        return None
    if len(sizes) == len(difference):
        if np.count_nonzero(difference) >= _FEW:
            return None
        return clustered_gain(sizes, less.astype(float), more.astype(float), confidence)
    return clustered_gain(sizes, np.bincount(codes, weights=less), np.bincount(codes, weights=more), confidence)


def _drawn_interval(sums: np.ndarray, sizes: np.ndarray, confidence: float, resamples: int, seed: int) -> Interval:
    """The bootstrap's percentiles, never narrower than Student's t where rows come in clusters or few differ."""
    single_rows = bool((sizes == 1).all())
    if single_rows:  # sorting plain numbers is far quicker than sorting pairs
        values, repeats = np.unique(sums, return_counts=True)
        distinct = np.stack([values, np.ones_like(values)], axis=1)
    else:
        distinct, repeats = np.unique(np.stack([sums, sizes], axis=1), axis=0, return_counts=True)
    draws = _multinomial_means(distinct, repeats / len(sums), len(sums), resamples, np.random.default_rng(seed))
    low, high = np.quantile(draws, [(1 - confidence) / 2, (1 + confidence) / 2])
    if not single_rows or np.count_nonzero(sums) < _FEW:
        reach = _student_reach(sums, sizes, confidence)
        estimate = sums.sum() / sizes.sum()
        low, high = min(low, estimate - reach), max(high, estimate + reach)
    return Interval(float(low), float(high), confidence)


def _student_reach(sums: np.ndarray, sizes: np.ndarray, confidence: float) -> float:
    squares = np.square(sums - sums.sum() / sizes.sum() * sizes)
    spread = float(squares.sum())
    if spread <= 0 or len(sums) < 2:
        return 0.0
    degrees = min(spread**2 / float(np.square(squares).sum()), len(sums) - 1)
    error = np.sqrt(len(sums) / (len(sums) - 1) * spread) / sizes.sum()
    return float(special.stdtrit(degrees, (1 + confidence) / 2) * error)


def _multinomial_means(
    distinct: np.ndarray, shares: np.ndarray, units: int, resamples: int, rng: np.random.Generator
) -> np.ndarray:
    """The resampled means, drawn in blocks so that many distinct clusters do not fill the memory."""
    block = max(1, 4_000_000 // len(distinct))
    means = []
    for start in range(0, resamples, block):
        drawn = rng.multinomial(units, shares, size=min(block, resamples - start)) @ distinct
        means.append(drawn[:, 0] / drawn[:, 1])
    return np.concatenate(means)
