"""What a sample of the differing rows shows about all of them: exact bounds, once or after every label, and a verdict.

Sampling without replacement: of `differ` rows, an unknown number `total` has the property (the old answer is right);
`count` of `labelled` randomly drawn ones do.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import special

from ..stats import check_confidence

Verdict = Literal["ship", "hold back", "label on"]


def log_chance(count: int, labelled: int, total: int, differ: int) -> float:
    """The log of the hypergeometric chance to draw exactly `count`."""
    if count > total or labelled - count > differ - total:
        return -math.inf
    return _log_choose(total, count) + _log_choose(differ - total, labelled - count) - _log_choose(differ, labelled)


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _chance_at_most(count: int, labelled: int, total: int, differ: int) -> float:
    """The hypergeometric chance to draw at most `count`."""
    drawn = np.arange(max(0, labelled - (differ - total)), min(count, total) + 1)
    if not len(drawn):
        return 0.0
    terms = (
        _log_choose_many(total, drawn)
        + _log_choose_many(differ - total, labelled - drawn)
        - _log_choose(differ, labelled)
    )
    return min(1.0, float(np.exp(terms).sum()))


def _log_choose_many(n: int, k: np.ndarray) -> np.ndarray:
    return special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)


def total_bounds(count: int, labelled: int, differ: int, tail: float) -> tuple[int, int]:
    """The smallest and the largest total that the sample does not exclude, each with an error of at most `tail`."""
    _check(count, labelled, differ)
    check_confidence(1 - tail)

    def largest(seen: int) -> int:
        return _last_true(seen, differ - labelled + seen, lambda t: _chance_at_most(seen, labelled, t, differ) > tail)

    return differ - largest(labelled - count), largest(count)


def sequence_bounds(count: int, labelled: int, differ: int, error: float) -> tuple[int, int]:
    """The totals that are not excluded although one looked after every label: an error of at most `error` ever.

    The prior-posterior ratio of Waudby-Smith and Ramdas (2020) with a uniform prior: the chance of the sample under
    the prior is 1 / (labelled + 1), and a total is excluded once its own chance is smaller than that by `error`.
    """
    _check(count, labelled, differ)
    check_confidence(1 - error)
    limit = math.log(error) - math.log(labelled + 1)

    def largest(seen: int) -> int:
        likely = min(max(round(seen * differ / labelled) if labelled else differ, seen), differ - labelled + seen)
        return _last_true(likely, differ - labelled + seen, lambda t: log_chance(seen, labelled, t, differ) > limit)

    return differ - largest(labelled - count), largest(count)


def mixture_bounds(count: int, labelled: int, error: float) -> tuple[float, float]:
    """The same for a rate of future rows: the mixture e-process of a Bernoulli rate with a uniform prior."""
    if not labelled:
        return 0.0, 1.0
    limit = math.log(error) + float(special.betaln(count + 1, labelled - count + 1))

    def excluded(rate: float) -> bool:
        return float(special.xlogy(count, rate) + special.xlog1py(labelled - count, -rate)) <= limit

    peak = count / labelled
    return _edge(peak, 0.0, excluded), _edge(peak, 1.0, excluded)


def _edge(inside: float, end: float, excluded: Callable[[float], bool]) -> float:
    if not excluded(end):
        return end
    outside = end
    for _ in range(60):
        middle = (inside + outside) / 2
        inside, outside = (inside, middle) if excluded(middle) else (middle, outside)
    return outside


def _last_true(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The last number from `low` to `high` for which a condition holds that, once false, stays false."""
    if holds(high):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _check(count: int, labelled: int, differ: int) -> None:
    if not 0 <= count <= labelled <= differ:
        raise ValueError(f"Got {count} of {labelled} labels of {differ} rows, expected 0 <= count <= labels <= rows.")


# ---- a verdict after every label, valid whenever one stops


@dataclass(frozen=True)
class SequentialVerdict:
    """Whether the traffic's NFR is at most `max_nfr`, and after how many labels that was certain."""

    verdict: Verdict
    max_nfr: float
    labels_used: int
    labels_seen: int


def decide(
    rights: Iterable[str], differ: int, rows: int, max_nfr: float, confidence: float = 0.95
) -> SequentialVerdict:
    """Go through the labels (old, new, neither, unsure) in the order of the plan and stop once the verdict is certain.

    The verdict is wrong with a chance of at most 1 - confidence, however often one looks. NFR cannot exceed churn: if
    that is small enough, no label is needed. An unsure label counts against either verdict.
    """
    if not 0 <= max_nfr <= 1:
        raise ValueError(f"max_nfr is {max_nfr}, expected a fraction from 0 to 1 (1 % is 0.01).")
    allowed = math.floor(max_nfr * rows + 1e-9)
    if differ <= allowed:
        return SequentialVerdict("ship", max_nfr, 0, 0)
    error = math.log(1 - confidence)
    old = unsure = labelled = 0
    seen = list(rights)
    for right in seen:
        labelled += 1
        old, unsure = old + (right == "old"), unsure + (right == "unsure")
        limit = error - math.log(labelled + 1)
        if _excludes(old + unsure, labelled, allowed + 1, differ, limit, above=True):
            return SequentialVerdict("ship", max_nfr, labelled, len(seen))
        if _excludes(old, labelled, allowed, differ, limit, above=False):
            return SequentialVerdict("hold back", max_nfr, labelled, len(seen))
    return SequentialVerdict("label on", max_nfr, labelled, len(seen))


def _excludes(count: int, labelled: int, total: int, differ: int, limit: float, *, above: bool) -> bool:
    """Whether the labels exclude `total` right old answers and every number beyond it."""
    beyond = total * labelled >= count * differ if above else total * labelled <= count * differ
    return beyond and log_chance(count, labelled, total, differ) <= limit
