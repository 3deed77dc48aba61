"""How sure a number of flips makes us: intervals, paired tests and corrections for many comparisons.

`scipy.special` holds the distributions; it loads in a third of the time of `scipy.stats`, and `hf-pct gate` is run on
every commit. All probabilities and rates are fractions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import special

from .columns import check_same_length


@dataclass(frozen=True)
class Interval:
    """A confidence interval for a rate or a difference of rates."""

    low: float
    high: float
    confidence: float


def clopper_pearson(count: float, total: float, confidence: float = 0.95) -> Interval:
    """The exact two-sided interval for a rate of which `count` of `total` rows were seen.

    Fractions of a row are allowed: Korn and Graubard's interval for weighted rows is this one with the effective
    number of rows, see `effective_size`.
    """
    tail = (1 - _check_binomial(count, total, confidence)) / 2
    return Interval(_lower(count, total, tail), _upper(count, total, tail), confidence)


def upper_bound(count: float, total: float, confidence: float = 0.95) -> float:
    """The exact one-sided bound: with this confidence the true rate is below it. 0 of 300 gives 0.0099."""
    return _upper(count, total, 1 - _check_binomial(count, total, confidence))


def lower_bound(count: float, total: float, confidence: float = 0.95) -> float:
    """The exact one-sided bound: with this confidence the true rate is above it."""
    return _lower(count, total, 1 - _check_binomial(count, total, confidence))


def _upper(count: float, total: float, tail: float) -> float:
    return 1.0 if count == total else float(special.betaincinv(count + 1, total - count, 1 - tail))


def _lower(count: float, total: float, tail: float) -> float:
    return 0.0 if count == 0 else float(special.betaincinv(count, total - count + 1, tail))


def _check_binomial(count: float, total: float, confidence: float) -> float:
    if not total > 0 or not 0 <= count <= total:
        raise ValueError(f"Got {count} of {total} rows, expected 0 <= count <= total and at least one row.")
    return check_confidence(confidence)


def check_confidence(confidence: float) -> float:
    """`confidence` itself; an error when it is not a fraction strictly between 0 and 1."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}, expected a fraction between 0 and 1 such as 0.95.")
    return confidence


def effective_size(weights: Any) -> float:
    """Kish's effective number of rows: how many equally weighted rows tell as much as these weighted ones."""
    weights = np.asarray(weights, dtype=np.float64)
    return float(weights.sum() ** 2 / np.square(weights).sum())


@dataclass(frozen=True)
class McNemar:
    """Two p-values for 'the new model breaks as many rows as it fixes'; the mid-p one is less conservative."""

    exact: float
    mid_p: float


def mcnemar(
    negative_flips: int, positive_flips: int, alternative: Literal["two-sided", "worse"] = "two-sided"
) -> McNemar:
    """The exact McNemar test on the rows whose correctness changed, and its mid-p form.

    `alternative="worse"` asks only whether the new model breaks more than it fixes. When no row changed there is no
    evidence of anything, and both p-values are 1.
    """
    if negative_flips < 0 or positive_flips < 0:
        raise ValueError(f"Counts of flips cannot be negative, got {negative_flips} and {positive_flips}.")
    if alternative not in ("two-sided", "worse"):
        raise ValueError(f"alternative is {alternative!r}, expected 'two-sided' or 'worse'.")
    discordant = negative_flips + positive_flips
    if discordant == 0:
        return McNemar(1.0, 1.0)
    fewer, sides = (min(negative_flips, positive_flips), 2) if alternative == "two-sided" else (positive_flips, 1)
    tail = float(special.bdtr(fewer, discordant, 0.5))
    point = tail - (float(special.bdtr(fewer - 1, discordant, 0.5)) if fewer else 0.0)
    return McNemar(min(1.0, sides * tail), min(1.0, sides * (tail - point / 2)))


@dataclass(frozen=True)
class NonInferiority:
    """Whether the new accuracy is at worst `margin` below the old one."""

    margin: float
    difference: float
    lower_bound: float
    p_value: float
    confidence: float

    @property
    def holds(self) -> bool:
        return self.lower_bound > -self.margin


def non_inferiority(
    negative_flips: int, positive_flips: int, total: int, margin: float, confidence: float = 0.95
) -> NonInferiority:
    """Test 'the new accuracy is more than `margin` below the old one' on paired rows, with Tango's score (1998).

    The score statistic stays right where the usual one breaks down: few flips, or none. `lower_bound` is the one-sided
    bound on new accuracy minus old accuracy that inverts the same test, so that it is above -margin exactly when the
    p-value is below 1 - confidence.
    """
    check_confidence(confidence)
    if negative_flips < 0 or positive_flips < 0 or not 0 < total >= negative_flips + positive_flips:
        raise ValueError(
            f"Got {negative_flips} negative and {positive_flips} positive flips of {total} rows, expected counts that "
            "are not negative and sum to at most the number of rows."
        )
    if not 0 <= margin < 1:
        raise ValueError(f"margin is {margin}, expected a fraction of the rows such as 0.005, 0 <= margin < 1.")
    score = _tango_score(negative_flips, positive_flips, total, -margin)
    bound = _tango_bound(negative_flips, positive_flips, total, confidence)
    difference = (positive_flips - negative_flips) / total
    return NonInferiority(margin, difference, bound, float(special.ndtr(-score)), confidence)


def accuracy_gain_interval(negative_flips: int, positive_flips: int, total: int, confidence: float = 0.95) -> Interval:
    """Tango's two-sided score interval for new accuracy minus old accuracy on paired rows."""
    one_sided = (1 + check_confidence(confidence)) / 2
    low = _tango_bound(negative_flips, positive_flips, total, one_sided)
    high = -_tango_bound(positive_flips, negative_flips, total, one_sided)  # the same question with the models swapped
    return Interval(low, high, confidence)


def _tango_bound(negative: int, positive: int, total: int, confidence: float) -> float:
    """The smallest difference that the score does not reject: it falls with the assumed difference, so bisect it."""
    threshold = float(special.ndtri(confidence))
    low, high = -1.0, (positive - negative) / total
    for _ in range(60):
        middle = (low + high) / 2
        if _tango_score(negative, positive, total, middle) > threshold:
            low = middle
        else:
            high = middle
    return low


def _tango_score(negative: int, positive: int, total: int, assumed: float) -> float:
    """Tango's statistic for 'new minus old accuracy is `assumed`': the flips' variance is fitted under it."""
    linear = (2 * total - positive + negative) * assumed - positive - negative
    constant = -negative * assumed * (1 - assumed)
    fitted = (np.sqrt(max(linear**2 - 8 * total * constant, 0.0)) - linear) / (4 * total)
    variance = total * (2 * fitted + assumed * (1 - assumed))
    distance = positive - negative - total * assumed
    if variance <= 0:
        return float(np.sign(distance) * np.inf) if distance else 0.0
    return float(distance / np.sqrt(variance))


@dataclass(frozen=True)
class Difference:
    """A difference of two rates on the same rows, its interval and a two-sided p-value."""

    estimate: float
    interval: Interval
    p_value: float
    clusters: int


def paired_bootstrap(
    first: Any,
    second: Any,
    clusters: Any = None,
    *,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Difference:
    """Bootstrap mean(first) - mean(second), two columns about the same rows: flips of two candidates, say.

    Rows with the same entry in `clusters` (the utterances of one user, the sentences of one document) are drawn
    together. Resampling rows only changes how often each distinct value comes up, so one multinomial draw a resample
    replaces a pass over the rows: ten thousand resamples of a million rows take milliseconds. When the two columns
    agree in every row the percentile interval would shrink to a point; it is then the exact bound on how often they
    could differ, which is what that many agreeing rows really tell.
    """
    check_confidence(confidence)
    if resamples < 100:
        raise ValueError(f"resamples is {resamples}, expected at least 100 for an interval that means something.")
    first, second = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    columns = {"first": first, "second": second}
    groups = None if clusters is None else np.asarray(clusters)
    rows = check_same_length(columns if groups is None else columns | {"clusters": groups})
    difference = first - second
    if groups is None:
        sums, sizes = difference, np.ones(rows)
    else:
        _, member = np.unique(groups, return_inverse=True)
        sums, sizes = np.bincount(member, weights=difference), np.bincount(member).astype(np.float64)
    units, estimate = len(sums), float(difference.mean())
    if not difference.any():
        reach = _upper(0, units, 1 - confidence)
        return Difference(estimate, Interval(-reach, reach, confidence), 1.0, units)
    if groups is None:  # every size is one: sorting plain numbers is far quicker than sorting pairs
        values, repeats = np.unique(sums, return_counts=True)
        distinct = np.stack([values, np.ones_like(values)], axis=1)
    else:
        distinct, repeats = np.unique(np.stack([sums, sizes], axis=1), axis=0, return_counts=True)
    draws = _multinomial_means(distinct, repeats / units, units, resamples, np.random.default_rng(seed))
    low, high = np.quantile(draws, [(1 - confidence) / 2, (1 + confidence) / 2])
    beyond = int(min(np.count_nonzero(draws <= 0), np.count_nonzero(draws >= 0)))
    p_value = min(1.0, 2 * (beyond + 1) / (resamples + 1))
    return Difference(estimate, Interval(float(low), float(high), confidence), p_value, units)


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


def holm(p_values: Sequence[float]) -> np.ndarray:
    """Holm's corrected p-values: below 0.05, the chance of even one false alarm among them is below 5 %."""
    p = _check_p_values(p_values)
    order = np.argsort(p)
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    return _restore(np.minimum(stepped, 1.0), order)


def benjamini_hochberg(p_values: Sequence[float]) -> np.ndarray:
    """Benjamini and Hochberg's corrected p-values: below 0.05, at most 5 % of the alarms are expected to be false."""
    p = _check_p_values(p_values)
    order = np.argsort(p)
    stepped = p[order] * len(p) / np.arange(1, len(p) + 1)
    return _restore(np.minimum(np.minimum.accumulate(stepped[::-1])[::-1], 1.0), order)


def _restore(values: np.ndarray, order: np.ndarray) -> np.ndarray:
    restored = np.empty_like(values)
    restored[order] = values
    return restored


def _check_p_values(p_values: Sequence[float]) -> np.ndarray:
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        raise ValueError("p-values must be a flat list of numbers between 0 and 1.")
    return p


CORRECTIONS = {"holm": holm, "bh": benjamini_hochberg}
