"""Mean scores, their difference with an interval, and the test of it, for one task and for several together."""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy import special

from ...stats import Interval, upper_bound
from ...tables.metric import is_zero_one
from ..report import WeightedMean
from ..task_report import MeanGain, TaskReport
from .outcomes import Shares
from .rates import unit_sums
from .repeats import permute_within_items
from .sign_flip import sign_flip

Part = tuple[TaskReport, Shares, np.ndarray, np.ndarray, np.ndarray | None]


def item_means(scores: np.ndarray) -> np.ndarray:
    """Each item's mean over its runs."""
    return scores[:, 0] if scores.shape[1] == 1 else np.nanmean(scores, axis=1)


def mean_gain(
    old: np.ndarray, new: np.ndarray, clusters: np.ndarray | None, confidence: float, sign: float
) -> MeanGain:
    """The gain of the mean, of scores turned so that more is better; `sign` turns the two means back."""
    before, after = item_means(old), item_means(new)
    gains = after - before
    estimate, interval = float(gains.mean()), gain_interval(gains, clusters, confidence, _span(old, new))
    units = len(gains) if clusters is None else len(np.unique(clusters))
    if clusters is None and (old.shape[1] > 1 or new.shape[1] > 1):
        within = permute_within_items(old, new)
        p_value, p_worse, method = within.p_value, within.p_worse, f"{within.method}, runs of an item change places"
    else:
        flip = sign_flip(gains, clusters)
        p_value, p_worse, method = flip.p_value, flip.p_worse, f"{flip.method}, signs flip"
    means = sign * float(before.mean()), sign * float(after.mean())
    return MeanGain(*means, estimate, interval, p_value, p_worse, method, units)


def _span(old: np.ndarray, new: np.ndarray) -> float:
    """How far two scores can be apart: what was seen, and 1 for 0/1 scores of which only one value occurred."""
    low, high = min(np.nanmin(old), np.nanmin(new)), max(np.nanmax(old), np.nanmax(new))
    return 1.0 if is_zero_one(np.abs([low, high])) else float(high - low)


def gain_interval(gains: np.ndarray, clusters: np.ndarray | None, confidence: float, span: float) -> Interval:
    """Student's interval for the mean gain, by cluster where rows belong together.

    Where nothing differs the spread is zero, and the interval is what so many rows cannot exclude.
    """
    sizes, sums = unit_sums(gains, clusters)
    estimate, units = float(gains.mean()), len(sums)
    unexcluded = upper_bound(0, units, confidence) * span
    if units < 2 or not gains.any():
        reach = span if units < 2 else unexcluded
        return Interval(estimate - reach, estimate + reach, confidence)
    reach = standard_error(sizes, sums) * float(special.stdtrit(units - 1, (1 + confidence) / 2))
    return Interval(estimate - reach, estimate + reach, confidence)


def standard_error(sizes: np.ndarray, sums: np.ndarray) -> float:
    """Of sum(sums) / sum(sizes) over independent units."""
    units = len(sums)
    spread = np.square(sums - sums.sum() / sizes.sum() * sizes).sum()
    return float(np.sqrt(units / (units - 1) * spread)) / float(sizes.sum())


def pooled_mean(parts: Sequence[Part], weights: Mapping[str, float] | None, confidence: float) -> WeightedMean | None:
    """The weighted mean gain over tasks with its own sign-flip test; None when the scales cannot be averaged."""
    shares = _weights([report.task for report, *_ in parts], weights)
    of, columns = _comparable(parts)
    if columns is None:
        return None
    estimate, variance, units = 0.0, 0.0, []
    for (report, _, _, _, clusters), gains in zip(parts, columns, strict=True):
        weight = shares[report.task]
        sizes, sums = unit_sums(gains, clusters)
        estimate += weight * float(gains.mean())
        variance += (weight * standard_error(sizes, sums)) ** 2 if len(sums) > 1 else weight**2
        units.append(weight * sums / len(gains))
    test = sign_flip(np.concatenate(units))
    reach = float(np.sqrt(variance) * special.ndtri((1 + confidence) / 2))
    interval = Interval(estimate - reach, estimate + reach, confidence)
    return WeightedMean(of, shares, estimate, interval, test.p_value, test.p_worse)


def _weights(tasks: Sequence[str], weights: Mapping[str, float] | None) -> dict[str, float]:
    chosen = dict.fromkeys(tasks, 1.0) if weights is None else dict(weights)
    problems = [f"{task!r} is no task" for task in chosen if task not in tasks]
    problems += [f"{task} has no weight" for task in tasks if task not in chosen]
    problems += [f"the weight of {task} is {weight}" for task, weight in chosen.items() if not 0 <= weight < np.inf]
    if problems or not sum(chosen.values()) > 0:
        raise ValueError(
            f"task_weights: {'; '.join(problems) or 'all are 0'}. Expected a number that is not negative for each of "
            f"{', '.join(tasks)}."
        )
    total = sum(chosen.values())
    return {task: chosen[task] / total for task in tasks}


def _comparable(parts: Sequence[Part]) -> tuple[str, list[np.ndarray] | None]:
    """The gains to average: scores when all lie between 0 and 1, else shares of right rows when all have them."""
    if all(_span_inside(old) and _span_inside(new) for _, _, old, new, _ in parts):
        return "scores", [item_means(new) - item_means(old) for _, _, old, new, _ in parts]
    if all(report.right_at is not None for report, *_ in parts):
        return "shares of right rows", [shares.new_right - shares.old_right for _, shares, *_ in parts]
    return "", None


def _span_inside(scores: np.ndarray) -> bool:
    return bool(np.nanmin(scores) >= 0 and np.nanmax(scores) <= 1)
