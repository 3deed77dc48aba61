"""Rates over items with their intervals: exact for single runs of single rows, by unit where runs or rows repeat."""

import numpy as np

from ...stats import Interval, clopper_pearson, rate_of, upper_bound
from .outcomes import Rule, Shares


def unit_sums(values: np.ndarray, clusters: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Sizes and sums of the independent units: items, or clusters of items that belong together."""
    if clusters is None:
        return np.ones(len(values)), values
    _, member = np.unique(clusters, return_inverse=True)
    return np.bincount(member).astype(np.float64), np.bincount(member, weights=values)


def share_rates(
    shares: Shares, rule: Rule, clusters: np.ndarray | None, confidence: float, exact: bool
) -> tuple[dict[str, float], dict[str, Interval], float | None]:
    """Every rate of a task, its interval, and the one-sided upper bound on NFR (None without right and wrong)."""
    parts = {"dropped": shares.dropped, "risen": shares.risen}
    if rule.right_at is not None:
        parts |= {"nfr": shares.of("broken"), "pfr": shares.of("fixed")}
        parts |= {"old_accuracy": shares.old_right, "new_accuracy": shares.new_right}
        if shares.changed_answers is not None:
            parts["changed"] = shares.of("changed")
    rates, intervals = {}, {}
    bound = None
    for name, values in parts.items():
        rates[name] = float(values.mean())
        intervals[name], upper = rate_interval(values, clusters, confidence, exact)
        if name == "nfr":
            bound = upper
    return rates, intervals, bound


def rate_interval(
    values: np.ndarray, clusters: np.ndarray | None, confidence: float, exact: bool
) -> tuple[Interval, float]:
    """The two-sided interval and the one-sided upper bound of the mean of shares between 0 and 1."""
    if exact and clusters is None:
        count, total = round(float(values.sum())), len(values)
        return clopper_pearson(count, total, confidence), upper_bound(count, total, confidence)
    rate = rate_of(*unit_sums(values, clusters), len(values), confidence)
    return rate.interval, rate.upper
