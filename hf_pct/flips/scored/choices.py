"""Which metric of each task is compared, from which score on a row is right, and which drop counts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from ...core.errors import NotComparableError
from ..tables.metric import Metric, is_zero_one
from ..tables.scores import Scores
from .measures.outcomes import Rule

RightAt = float | Literal["none"] | None


@dataclass(frozen=True)
class Choices:
    """What a person asked for. Entries by name are looked up by task first, then by metric.

    `metrics` is an order of preference: each task is compared by the first of them that it has.
    """

    metrics: Sequence[str] = ()
    task_metrics: Mapping[str, str] = field(default_factory=dict)
    right_at: RightAt | Mapping[str, RightAt] = None
    tolerance: float | Mapping[str, float] = 0.0
    higher_is_better: Mapping[str, bool] = field(default_factory=dict)

    def metric(self, old: Scores, new: Scores, task: str) -> Metric:
        """The metric to compare a task by; an error names those that there are."""
        before, after = old.metrics_of(task), new.metrics_of(task)
        common = [name for name in before if name in after]
        wanted = [self.task_metrics[task]] if task in self.task_metrics else list(self.metrics)
        if not wanted:
            defaults = {side.default_metric for side in (old, new) if side.default_metric is not None}
            wanted = [name for name in common if defaults == {name}] or (common if len(common) == 1 else [])
        chosen = next((name for name in wanted if name in common), None)
        if chosen is None:
            raise ValueError(_no_metric(task, wanted, before, after))
        metric, other = old.metrics[chosen], new.metrics[chosen]
        if chosen not in self.higher_is_better and metric.higher_is_better != other.higher_is_better:
            raise NotComparableError(f"The two sides do not agree whether a higher {chosen} is better. Say which.")
        declared = {side.right_at for side in (metric, other)} - {None}
        if len(declared) > 1 and self._of(self.right_at, task, chosen) is None:
            raise NotComparableError(
                f"Task {task}: {chosen} is right at {metric.right_at:g} in the old log and at {other.right_at:g} in "
                f"the new one. Say which holds for both: right_at (--right_at {task}=NUMBER)."
            )
        direction = self.higher_is_better.get(chosen, metric.higher_is_better)
        return replace(metric, higher_is_better=direction, right_at=next(iter(declared), None))

    def rule(self, metric: Metric, task: str, old: np.ndarray, new: np.ndarray) -> Rule:
        """When a row is right and which drop counts, for scores that were turned so that more is better."""
        tolerance = self._of(self.tolerance, task, metric.name)
        if tolerance is None or not 0 <= tolerance < np.inf:
            raise ValueError(f"tolerance is {tolerance}, expected a number that is not negative.")
        asked = self._of(self.right_at, task, metric.name)
        if asked == "none":
            return Rule(None, tolerance)
        scores = [metric.sign * (side[~np.isnan(side)] if side.shape[1] > 1 else side) for side in (old, new)]
        zero_one = all(is_zero_one(side) for side in scores)
        low, high = min(side.min() for side in scores), max(side.max() for side in scores)
        right_at = metric.right_at if asked is None else float(asked)
        if right_at is not None:
            reached = right_at <= high if metric.higher_is_better else low <= right_at
            exempt = asked is None or (zero_one and right_at in (0, 1))  # a hard task of which nothing is right
            if not np.isfinite(right_at) or not (reached or exempt):
                raise ValueError(
                    f"right_at is {right_at:g}, but the scores {metric.name} of task {task} are from {low:g} to "
                    f"{high:g}, so no row would be right on either side and none could break. Give a score that rows "
                    f"reach, or --right_at {task}=none to compare without right and wrong."
                )
            return Rule(metric.sign * right_at, tolerance)
        if zero_one:
            return Rule(1.0 if metric.higher_is_better else 0.0, tolerance)
        raise ValueError(
            f"The scores {metric.name} of task {task} are not 0 or 1 but from {low:g} to {high:g}, so it must be said "
            f"from which score on a row is right: right_at (--right_at {task}=NUMBER), or --right_at {task}=none to "
            "compare without right and wrong."
        )

    @staticmethod
    def _of(value: object, task: str, metric: str) -> Any:
        if isinstance(value, Mapping):
            return value.get(task, value.get(metric, value.get("*")))
        return value


def _no_metric(task: str, wanted: Sequence[str], before: Sequence[str], after: Sequence[str]) -> str:
    listed = f"the old side has {', '.join(before) or 'none'}, the new one {', '.join(after) or 'none'}"
    if {*before} == {*after}:
        listed = f"it has {', '.join(before)}"
    if wanted:
        return (
            f"Task {task} has no metric {' or '.join(wanted)} on both sides; {listed}. Choose with metric (--metric)."
        )
    return f"Task {task} has several metrics; {listed}. Choose one with metric (--metric {before[0]})."


def check_names(choices: Choices, tasks: Sequence[str], old: Scores, new: Scores) -> None:
    """Refuse entries for tasks or metrics that are not there: a typing error must not change what is right."""
    known = {*tasks, *old.scores, *new.scores, "*"}
    problems = []
    for option, value in (("right_at", choices.right_at), ("tolerance", choices.tolerance)):
        if isinstance(value, Mapping):
            problems += [f"{option} names {name!r}" for name in value if name not in known]
    problems += [f"metric names task {name!r}" for name in choices.task_metrics if name not in tasks]
    problems += [f"the direction names {name!r}" for name in choices.higher_is_better if name not in known]
    if problems:
        raise ValueError(
            f"{'; '.join(problems)}, which is neither a task nor a metric. Tasks: {', '.join(tasks)}; metrics: "
            f"{', '.join(dict.fromkeys([*old.scores, *new.scores]))}."
        )


def threshold_notes(old: Scores, new: Scores) -> list[str]:
    """Metrics that the two logs judge by other thresholds: so does a verdict over all metrics, such as success."""
    both = [(old.metrics[name], new.metrics[name]) for name in old.metrics if name in new.metrics]
    changed = [
        f"{before.name} ({before.right_at:g} and {after.right_at:g})"
        for before, after in both
        if before.right_at is not None and after.right_at is not None and before.right_at != after.right_at
    ]
    listed = ", ".join(changed)
    return [f"The old and the new log judge by other thresholds: {listed}."] if changed else []


@dataclass(frozen=True)
class Settings:
    """What holds for all tasks of one comparison."""

    choices: Choices
    slices: Sequence[str] | None
    cluster: str | None
    allow_partial: bool
    confidence: float
    correction: str
    max_rows: int
