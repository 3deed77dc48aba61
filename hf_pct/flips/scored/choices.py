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
        if chosen in self.higher_is_better:
            return replace(metric, higher_is_better=self.higher_is_better[chosen])
        if metric.higher_is_better != other.higher_is_better:
            raise NotComparableError(f"The two sides do not agree whether a higher {chosen} is better. Say which.")
        return metric

    def rule(self, metric: Metric, task: str, old: np.ndarray, new: np.ndarray) -> Rule:
        """When a row is right and which drop counts, for scores that were turned so that more is better."""
        tolerance = self._of(self.tolerance, task, metric.name)
        if tolerance is None or not tolerance >= 0:
            raise ValueError(f"tolerance is {tolerance}, expected a number that is not negative.")
        right_at = self._of(self.right_at, task, metric.name)
        right_at = metric.right_at if right_at is None else right_at
        if right_at == "none":
            return Rule(None, tolerance)
        if right_at is not None:
            return Rule(metric.sign * float(right_at), tolerance)
        scores = [np.abs(side[~np.isnan(side)]) if side.shape[1] > 1 else np.abs(side) for side in (old, new)]
        if all(is_zero_one(side) for side in scores):
            return Rule(1.0 if metric.higher_is_better else 0.0, tolerance)
        low, high = min(side.min() for side in scores), max(side.max() for side in scores)
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
