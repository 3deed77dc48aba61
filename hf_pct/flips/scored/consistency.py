"""Does a report of scores agree with itself? As for flips, a gate believes no number that others contradict."""

from collections.abc import Iterable

from ...core.errors import NotComparableError
from .measures.outcomes import OUTCOMES
from .report import ScoreReport
from .task_report import TaskReport

_CLOSE = 1e-6


def check_score_consistency(report: ScoreReport) -> None:
    """Raise every contradiction in a report at once."""
    if report.edited:
        raise NotComparableError(report.edited)
    names = [task.task for task in report.tasks]
    problems = [] if names else ["it has no task, so no row was compared"]
    if len({*names}) < len(names):
        problems.append("it names a task twice")
    for task in report.tasks:
        problems += [f"task {task.task}: {problem}" for problem in _task_problems(task, report.confidence)]
    if not problems:
        problems += _pooled_problems(report)
    if problems:
        raise NotComparableError(
            "The report contradicts itself, so nothing can be judged by it. It was changed after it was written, or "
            "damaged; make it again with hf-pct compare.\n  " + "\n  ".join(problems[:10])
        )


def _task_problems(task: TaskReport, confidence: float) -> Iterable[str]:
    if task.rows < 1 or {*task.outcomes} != {*OUTCOMES} or min(task.outcomes.values()) < 0:
        yield f"{task.rows} rows with the outcomes {task.outcomes}, expected a count for each of {', '.join(OUTCOMES)}"
        return
    total, near = sum(task.outcomes.values()), _CLOSE * task.rows
    if abs(total - task.rows) > near or task.rows != task.coverage.compared:
        yield f"the outcomes add up to {total:g} rows, and {task.rows} were compared"
    for rate, outcome in (("nfr", "broken"), ("pfr", "fixed"), ("changed", "changed")):
        if rate in task.rates and abs(task.rates[rate] * task.rows - task.outcomes[outcome]) > near:
            yield f"{rate} is {task.rates[rate]:g}, and {task.outcomes[outcome]:g} rows are {outcome}"
    for rate in ("dropped", *(("nfr", "pfr", "old_accuracy", "new_accuracy") if task.right_at is not None else ())):
        if not 0 <= task.rates.get(rate, -1) <= 1:
            yield f"the rate {rate} is {task.rates.get(rate)}, expected a number from 0 to 1"
    for name, interval in task.intervals.items():
        if name in task.rates and not interval.low - _CLOSE <= task.rates[name] <= interval.high + _CLOSE:
            yield f"{name} is {task.rates[name]:g}, outside its interval {interval.low:g} to {interval.high:g}"
    gain = task.gain
    moved = abs(gain.new_mean - gain.old_mean)
    if abs(abs(gain.estimate) - moved) > _CLOSE * max(1.0, moved):
        yield f"the mean moved by {moved:g}, and the gain is {gain.estimate:g}"
    if not gain.interval.low - _CLOSE <= gain.estimate <= gain.interval.high + _CLOSE:
        yield f"the gain {gain.estimate:g} is outside its interval {gain.interval.low:g} to {gain.interval.high:g}"
    if abs(gain.interval.confidence - confidence) > _CLOSE or not 0 < confidence < 1:
        yield f"its interval is at confidence {gain.interval.confidence}, the report at {confidence}"
    for name, groups in task.slices.items():
        sums = sum(group.rows for group in groups), sum(group.negative_flips for group in groups)
        if sums[0] != task.rows or abs(sums[1] - task.outcomes["broken"]) > near or any(g.rows < 1 for g in groups):
            yield f"the slices by {name!r} add up to {sums[1]:g} broken of {sums[0]} rows"


def _pooled_problems(report: ScoreReport) -> Iterable[str]:
    """The mean over tasks follows from the tasks and their weights."""
    mean = report.pooled.mean
    if mean is None:
        return
    gains = {
        task.task: task.gain.estimate
        if mean.of == "scores"
        else (task.outcomes["fixed"] - task.outcomes["broken"]) / task.rows
        for task in report.tasks
    }
    if {*mean.weights} != {*gains} or abs(sum(mean.weights.values()) - 1) > _CLOSE:
        yield f"the mean over tasks has the weights {mean.weights}, expected one per task that add up to 1"
        return
    expected = sum(mean.weights[name] * gain for name, gain in gains.items())
    if abs(mean.estimate - expected) > _CLOSE * max(1.0, abs(expected)):
        yield f"the mean gain over tasks is {mean.estimate:g}, and the tasks say {expected:g}"
