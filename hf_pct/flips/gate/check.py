"""Holding a report against the rules. Every rate and bound is computed again from the counts."""

from collections.abc import Callable
from dataclasses import dataclass

from ...core.errors import PASSED, REGRESSED, NotComparableError
from ..grouping import GroupFlips
from ..report import FlipReport
from ..stats import non_inferiority, upper_bound
from .config import GateConfig
from .consistency import check_consistency


@dataclass(frozen=True)
class RuleResult:
    """One rule: what was found, what was allowed, and where, if it is about one class or slice."""

    rule: str
    value: float
    limit: float
    passed: bool
    where: str = ""

    @property
    def margin(self) -> float:
        """How far inside the limit the value is; negative when the rule failed."""
        return self.value - self.limit if self.rule.startswith("min_") else self.limit - self.value


@dataclass(frozen=True)
class GateResult:
    """The verdict on an update.

    Example:
        >>> from hf_pct import GateConfig, Predictions, check_gate, compare
        >>> ids, labels = [1, 2, 3, 4], ["yes", "no", "yes", "no"]
        >>> old = Predictions(ids, labels, ["yes", "no", "yes", "yes"])
        >>> new = Predictions(ids, labels, ["yes", "yes", "yes", "no"])
        >>> result = check_gate(compare(old, new), GateConfig(max_nfr=0.01))
        >>> result.passed, result.exit_code
        (False, 1)
    """

    results: tuple[RuleResult, ...]

    @property
    def passed(self) -> bool:
        return bool(self.results) and all(result.passed for result in self.results)

    @property
    def exit_code(self) -> int:
        return PASSED if self.passed else REGRESSED

    @property
    def deciding(self) -> tuple[RuleResult, ...]:
        """The rules that the verdict rests on: all of them, unless it is about several candidates."""
        return self.results

    def remarks(self) -> list[str]:
        """What a table of rules alone does not say."""
        return []

    def headline(self) -> str:
        """The verdict in one line."""
        failed = [result.rule for result in self.results if not result.passed]
        return f"REGRESSED: {', '.join(failed)}" if failed else "PASSED: every rule holds"


def check_gate(report: FlipReport, config: GateConfig) -> GateResult:
    """Hold a report against the rules.

    Raises when there is no rule, when the report contradicts itself, and when a rule has nothing to judge.
    """
    rules = config.rules()
    if not rules:
        raise ValueError("The gate has no rule, so it would pass anything. Set at least one, such as max_nfr: 0.01.")
    check_consistency(report)
    if report.coverage.partial and not config.allow_partial:
        left_out = report.coverage.only_old + report.coverage.only_new
        raise NotComparableError(
            f"The report compares only {report.coverage.compared} rows and leaves out {left_out} that one side lacks. "
            "Compare both models on the same data, or set allow_partial (--allow_partial) to judge what there is."
        )
    return GateResult(tuple(_check(rule, limit, report, config) for rule, limit in rules.items()))


def _check(rule: str, limit: float, report: FlipReport, config: GateConfig) -> RuleResult:
    value, where = _MEASURES[rule](report, config)
    passed = value >= limit if rule.startswith("min_") else value <= limit
    return RuleResult(rule, value, limit, passed, where)


def _worst(groups: list[tuple[str, GroupFlips]], config: GateConfig, kind: str) -> tuple[float, str]:
    judged = [(where, group) for where, group in groups if group.rows >= config.min_group_rows]
    if not judged:
        most = f"the largest has {max(group.rows for _, group in groups)}" if groups else "there is none"
        raise NotComparableError(
            f"max_{kind}_nfr is set, but no {kind} has {config.min_group_rows} rows ({most}), so it judges nothing. "
            "Compare on more rows, lower min_group_rows (--min_group_rows), or leave the rule out."
        )
    where, group = max(judged, key=lambda entry: (entry[1].negative_flips / entry[1].rows, entry[1].rows))
    return group.negative_flips / group.rows, f"{where}: {group.negative_flips} of {group.rows} rows"


def _class(report: FlipReport, config: GateConfig) -> tuple[float, str]:
    return _worst([(group.name, group) for group in report.classes], config, "class")


def _slice(report: FlipReport, config: GateConfig) -> tuple[float, str]:
    if not report.slices:
        raise NotComparableError("max_slice_nfr is set, but the report has no slices. Compare with slices (--slices).")
    groups = [(f"{name} = {group.name}", group) for name, entries in report.slices.items() for group in entries]
    return _worst(groups, config, "slice")


def _excess(report: FlipReport, config: GateConfig) -> tuple[float, str]:
    if report.noise_floor is None:
        raise NotComparableError(
            "max_excess_nfr is set, but the report has no noise floor. Compare with a second run of the old recipe: "
            "old_rerun (--old_rerun)."
        )
    return report.counts.nfr - report.noise_floor.nfr, ""


def _weighted(report: FlipReport, config: GateConfig) -> tuple[float, str]:
    if report.weighted is None:
        raise NotComparableError(
            "max_weighted_nfr is set, but the report has no weight. Compare with weight (--weight)."
        )
    return report.weighted.counts.nfr, f"by {report.weighted.column}"


def _cumulative(report: FlipReport, config: GateConfig) -> tuple[float, str]:
    raise NotComparableError(
        "max_cumulative_nfr is set, but this report is of two versions. Compare a chain: hf-pct compare V1 V2 V3."
    )


def _effective_rows(report: FlipReport, bound: str) -> float:
    """How many independent rows a bound rests on: all of them, or as many as the clusters of the report amount to."""
    rows = report.effective_rows.get(bound, report.counts.total) if report.cluster else report.counts.total
    if not 0 < rows <= report.counts.total + 1e-6:
        raise NotComparableError(
            f"The report says that {bound} rests on {rows} effective rows of {report.counts.total:g}, expected a "
            "number above 0 and at most all of them. It was edited; compare again."
        )
    return rows


def _nfr_upper(report: FlipReport, config: GateConfig) -> tuple[float, str]:
    """The bound from the counts. Rows that belong together can only widen it, and that much the report says."""
    rows = _effective_rows(report, "nfr_upper")
    bound = upper_bound(min(report.counts.nfr, 1.0) * rows, rows, report.confidence)
    return (bound if report.cluster is None else max(bound, report.nfr_upper)), ""


def _accuracy_loss(report: FlipReport, config: GateConfig) -> tuple[float, str]:
    """The loss that the counts do not exclude; likewise."""
    counts, rows = report.counts, _effective_rows(report, "non_inferiority")
    bound = non_inferiority(counts.nfr * rows, counts.pfr * rows, rows, 0.0, report.confidence).lower_bound
    return max(0.0, -(bound if report.cluster is None else min(bound, report.non_inferiority.lower_bound))), ""


_MEASURES: dict[str, Callable[[FlipReport, GateConfig], tuple[float, str]]] = {
    "max_nfr": lambda report, _: (report.counts.nfr, ""),
    "max_nfr_upper": _nfr_upper,
    "max_class_nfr": _class,
    "max_slice_nfr": _slice,
    "max_relative_nfr": lambda report, _: (report.counts.relative_nfr, ""),
    "max_excess_nfr": _excess,
    "max_weighted_nfr": _weighted,
    "min_accuracy_gain": lambda report, _: (report.counts.accuracy_gain, ""),
    "max_accuracy_loss": _accuracy_loss,
    "min_rows": lambda report, _: (report.counts.total, ""),
    "max_cumulative_nfr": _cumulative,
}
