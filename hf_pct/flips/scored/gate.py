"""The gate on a ScoreReport: a rule holds when it holds in every task; a task may have rules of its own."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ...core.errors import NotComparableError, first_five
from ..gate import GateConfig, GateResult, RuleResult
from ..stats import holm, non_inferiority, upper_bound
from .consistency import check_score_consistency
from .report import ScoreReport
from .task_report import ScoreGroup, TaskReport

if TYPE_CHECKING:
    from .rules import ScoreGateConfig

Found = tuple[float, str]


def check_score_gate(report: ScoreReport, config: "ScoreGateConfig") -> GateResult:
    """Hold a report of scores against the rules.

    Raises when there is no rule, when the report contradicts itself, and when a rule has nothing to judge.
    """
    own: Mapping[str, GateConfig] = config.tasks or {}
    if not config.rules() and not any(rules.rules() for rules in own.values()):
        raise ValueError("The gate has no rule, so it would pass anything. Set at least one, such as max_nfr: 0.01.")
    tasks = {task.task: task for task in report.tasks}
    unknown = [name for name in own if name not in tasks]
    if unknown:
        raise NotComparableError(
            f"The gate has rules for tasks that the report lacks: {first_five(unknown)}. Its tasks: "
            f"{first_five(tasks)}."
        )
    check_score_consistency(report)
    for task in report.tasks:
        _check_coverage(task, config.allow_partial or (task.task in own and own[task.task].allow_partial))
    results = []
    for rule, limit in config.rules().items():
        if rule in _OVERALL:
            results.append(_judged(rule, limit, *_OVERALL[rule](report)))
            continue
        judged = [task for task in report.tasks if task.task not in own or rule not in own[task.task].rules()]
        if judged:
            results.append(_worst_task(rule, limit, judged, config, len(report.tasks) > 1))
    for name, rules in own.items():
        results += [_worst_task(rule, limit, [tasks[name]], rules, True) for rule, limit in rules.rules().items()]
    if not results:
        raise NotComparableError("No rule of the gate is about a task of this report, so it judges nothing.")
    return GateResult(tuple(results))


def _judged(rule: str, limit: float, value: float, where: str) -> RuleResult:
    return RuleResult(rule, value, limit, value >= limit if rule.startswith("min_") else value <= limit, where)


def _worst_task(rule: str, limit: float, tasks: list[TaskReport], config: GateConfig, named: bool) -> RuleResult:
    if rule not in _MEASURES:
        raise NotComparableError(f"{rule} is set, but a report of scores does not have it. Leave the rule out.")
    results = []
    for task in tasks:
        value, where = _MEASURES[rule](task, config)
        results.append(_judged(rule, limit, value, ", ".join(filter(None, (task.task if named else "", where)))))
    return min(results, key=lambda result: result.margin)


def _check_coverage(task: TaskReport, allow_partial: bool) -> None:
    coverage = task.coverage
    if coverage.partial and not allow_partial:
        raise NotComparableError(
            f"Task {task.task}: only {coverage.compared} rows are compared, and "
            f"{coverage.only_old + coverage.only_new} are left out that one side lacks. Score "
            "both versions on the same rows, or set allow_partial (--allow_partial) to judge what there is."
        )


def _needs_right(task: TaskReport, rule: str) -> None:
    if task.right_at is None:
        raise NotComparableError(
            f"{rule} is set, but task {task.task} was compared without right and wrong. Compare with right_at "
            "(--right_at), or judge it by max_dropped or max_score_loss."
        )


def _nfr(task: TaskReport, config: GateConfig) -> Found:
    _needs_right(task, "max_nfr")
    return task.outcomes["broken"] / task.rows, ""


def _nfr_upper(task: TaskReport, config: GateConfig) -> Found:
    """The bound from the counts; repeated runs and clusters can only widen it, and that much the report says."""
    _needs_right(task, "max_nfr_upper")
    bound = upper_bound(task.outcomes["broken"], task.rows, task.gain.interval.confidence)
    return max(bound, task.nfr_upper or 0.0), ""


def _relative(task: TaskReport, config: GateConfig) -> Found:
    _needs_right(task, "max_relative_nfr")
    return task.counts.relative_nfr, ""


def _accuracy_gain(task: TaskReport, config: GateConfig) -> Found:
    _needs_right(task, "min_accuracy_gain")
    return (task.outcomes["fixed"] - task.outcomes["broken"]) / task.rows, ""


def _accuracy_loss(task: TaskReport, config: GateConfig) -> Found:
    _needs_right(task, "max_accuracy_loss")
    flips = task.outcomes["broken"], task.outcomes["fixed"]
    if task.repeats is not None or task.gain.units != task.rows:
        raise NotComparableError(
            f"max_accuracy_loss is set, but task {task.task} has repeated runs or clusters. Use max_score_loss."
        )
    bound = non_inferiority(round(flips[0]), round(flips[1]), task.rows, 0.0, task.gain.interval.confidence)
    return max(0.0, -bound.lower_bound), ""


def _excess(task: TaskReport, config: GateConfig) -> Found:
    _needs_right(task, "max_excess_nfr")
    if task.noise_floor is None:
        raise NotComparableError(
            f"max_excess_nfr is set, but task {task.task} has no noise floor. Compare with repeated runs, or with a "
            "second run of the old version: old_rerun (--old_rerun)."
        )
    return task.outcomes["broken"] / task.rows - task.noise_floor.rates["broken"], ""


def _slice(task: TaskReport, config: GateConfig) -> Found:
    groups = [(f"{name} = {group.name}", group) for name, entries in task.slices.items() for group in entries]
    return _worst_group(task, groups, config, "max_slice_nfr")


def _class(task: TaskReport, config: GateConfig) -> Found:
    groups = [(f"label = {group.name}", group) for group in task.slices.get("label", [])]
    return _worst_group(task, groups, config, "max_class_nfr")


def _worst_group(task: TaskReport, groups: list[tuple[str, ScoreGroup]], config: GateConfig, rule: str) -> Found:
    _needs_right(task, rule)
    judged = [(where, group) for where, group in groups if group.rows >= config.min_group_rows]
    if not judged:
        column = "--slices label" if rule == "max_class_nfr" else "--slices COLUMN"
        raise NotComparableError(
            f"{rule} is set, but task {task.task} has no slice with {config.min_group_rows} rows, so it judges "
            "nothing. "
            f"Compare with slices ({column}), lower min_group_rows, or leave the rule out."
        )
    where, group = max(judged, key=lambda entry: (entry[1].negative_flips / entry[1].rows, entry[1].rows))
    return group.negative_flips / group.rows, f"{where}: {group.negative_flips:g} of {group.rows} rows"


def _regressed_items(task: TaskReport, config: GateConfig) -> Found:
    if task.repeats is None or task.repeats.regressed is None:
        raise NotComparableError(f"max_regressed_items is set, but task {task.task} has no repeated runs.")
    return len(task.repeats.regressed) / task.rows, f"{len(task.repeats.regressed)} of {task.rows} items"


def _regressed_tasks(report: ScoreReport) -> Found:
    corrected = holm([task.gain.p_worse for task in report.tasks])
    names = [
        task.task for task, p_value in zip(report.tasks, corrected, strict=True) if p_value < 1 - report.confidence
    ]
    return len(names), ", ".join(names)


def _mean_gain(report: ScoreReport) -> Found:
    if len(report.tasks) == 1:
        return report.tasks[0].gain.estimate, ""
    if report.pooled.mean is None:
        raise NotComparableError("min_mean_gain is set, but the tasks' scores are on different scales.")
    return report.pooled.mean.estimate, f"mean of {report.pooled.mean.of}"


_OVERALL: dict[str, Callable[[ScoreReport], Found]] = {
    "max_regressed_tasks": _regressed_tasks,
    "min_mean_gain": _mean_gain,
}
_MEASURES: dict[str, Callable[[TaskReport, GateConfig], Found]] = {
    "max_nfr": _nfr,
    "max_nfr_upper": _nfr_upper,
    "max_class_nfr": _class,
    "max_slice_nfr": _slice,
    "max_relative_nfr": _relative,
    "max_excess_nfr": _excess,
    "min_accuracy_gain": _accuracy_gain,
    "max_accuracy_loss": _accuracy_loss,
    "min_rows": lambda task, _: (task.rows, ""),
    "max_dropped": lambda task, _: (task.rates["dropped"], ""),
    "min_score_gain": lambda task, _: (task.gain.estimate, ""),
    "max_score_loss": lambda task, _: (max(0.0, -task.gain.interval.low), ""),
    "max_regressed_items": _regressed_items,
}
