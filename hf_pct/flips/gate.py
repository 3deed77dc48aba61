"""The gate: thresholds on a FlipReport, a verdict, and an exit code for CI."""

import difflib
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from .errors import NotComparableError
from .grouping import GroupFlips
from .report import FlipReport

PASSED, REGRESSED, WRONG_USE, NOT_COMPARABLE = 0, 1, 2, 3


def _rule(help_text: str, default: Any = None) -> Any:
    return field(default=default, metadata={"help": help_text})


@dataclass(frozen=True)
class GateConfig:
    """What an update may break. A rule that is None is not checked; all rates are fractions (0.01 is 1 %)."""

    max_nfr: float | None = _rule("limit on the negative flip rate as counted")
    max_nfr_upper: float | None = _rule("limit on its one-sided upper bound: what the data can promise")
    max_class_nfr: float | None = _rule("limit on the NFR of every class with at least min_group_rows rows")
    max_slice_nfr: float | None = _rule("limit on the NFR of every slice with at least min_group_rows rows")
    max_relative_nfr: float | None = _rule("limit on NFR over what independent models would show (1 = independent)")
    max_excess_nfr: float | None = _rule("limit on NFR beyond the noise floor; the report needs old_rerun")
    max_weighted_nfr: float | None = _rule("limit on the weighted NFR; the report needs a weight")
    min_accuracy_gain: float | None = _rule("least new minus old accuracy; 0 forbids a loss, -0.002 allows 0.2 points")
    max_accuracy_loss: float | None = _rule("loss of accuracy that must be excluded with the report's confidence")
    min_rows: int | None = _rule("least number of compared rows: fewer prove nothing")
    min_group_rows: int = _rule("classes and slices with fewer rows are not judged: one flip in three is no rate", 1)
    allow_partial: bool = _rule("accept a report in which rows were left out", False)

    def __post_init__(self) -> None:
        problems = []
        for rule, value in self.rules().items():
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                problems.append(f"{rule} is {value!r}, expected a number")
            elif rule.startswith("max_") and rule != "max_relative_nfr" and not 0 <= value <= 1:
                problems.append(f"{rule} is {value}, expected a fraction from 0 to 1 (1 % is 0.01)")
            elif rule == "max_relative_nfr" and not value >= 0:
                problems.append(f"{rule} is {value}, expected a number that is not negative (1 = independent errors)")
            elif rule == "min_accuracy_gain" and not -1 <= value <= 1:
                problems.append(f"{rule} is {value}, expected a fraction from -1 to 1 (1 point is 0.01)")
            elif rule == "min_rows" and value < 1:
                problems.append(f"{rule} is {value}, expected at least 1")
        if self.min_group_rows < 1:
            problems.append(f"min_group_rows is {self.min_group_rows}, expected at least 1")
        if problems:
            raise ValueError("The gate's rules make no sense:\n  " + "\n  ".join(problems))

    def rules(self) -> dict[str, Any]:
        """The rules that are set."""
        settings = ("min_group_rows", "allow_partial")
        return {name: value for name, value in asdict(self).items() if name not in settings and value is not None}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "GateConfig":
        """A config from a mapping; unknown names are refused, with the name that was probably meant."""
        known = [each.name for each in fields(cls)]
        problems = []
        for name in values:
            if name not in known:
                close = difflib.get_close_matches(str(name), known, n=1)
                problems.append(f"{name!r}" + (f" (did you mean {close[0]}?)" if close else ""))
        if problems:
            raise ValueError(f"Unknown gate rules: {', '.join(problems)}. Known: {', '.join(known)}.")
        return cls(**values)

    @classmethod
    def from_yaml(cls, path: str | os.PathLike) -> "GateConfig":
        """A config from a YAML file with one `rule: number` a line."""
        import yaml

        try:
            values = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise FileNotFoundError(f"{path} does not exist, expected a YAML file of gate rules.") from None
        except yaml.YAMLError as error:
            raise ValueError(f"{path} is not YAML: {error}") from error
        if not isinstance(values, dict):
            raise ValueError(f"{path} holds {type(values).__name__}, expected lines such as `max_nfr: 0.01`.")
        return cls.from_dict(values)


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
    """The verdict on an update."""

    results: tuple[RuleResult, ...]

    @property
    def passed(self) -> bool:
        return all(result.passed for result in self.results)

    @property
    def exit_code(self) -> int:
        return PASSED if self.passed else REGRESSED


def check_gate(report: FlipReport, config: GateConfig) -> GateResult:
    ""
    """Hold a report against the rules. Raises when there is no rule, or when one asks what the report cannot say."""
    rules = config.rules()
    if not rules:
        raise ValueError("The gate has no rule, so it would pass anything. Set at least one, such as max_nfr: 0.01.")
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
        return 0.0, f"no {kind} has {config.min_group_rows} rows"
    where, group = max(judged, key=lambda entry: (entry[1].nfr, entry[1].rows))
    return group.nfr, f"{where}: {group.negative_flips} of {group.rows} rows"


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
    return report.noise_floor.excess_nfr, ""


def _weighted(report: FlipReport, config: GateConfig) -> tuple[float, str]:
    if report.weighted is None:
        raise NotComparableError(
            "max_weighted_nfr is set, but the report has no weight. Compare with weight (--weight)."
        )
    return report.weighted.counts.nfr, f"by {report.weighted.column}"


_MEASURES: dict[str, Callable[[FlipReport, GateConfig], tuple[float, str]]] = {
    "max_nfr": lambda report, _: (report.counts.nfr, ""),
    "max_nfr_upper": lambda report, _: (report.nfr_upper, ""),
    "max_class_nfr": _class,
    "max_slice_nfr": _slice,
    "max_relative_nfr": lambda report, _: (report.counts.relative_nfr, ""),
    "max_excess_nfr": _excess,
    "max_weighted_nfr": _weighted,
    "min_accuracy_gain": lambda report, _: (report.counts.accuracy_gain, ""),
    "max_accuracy_loss": lambda report, _: (max(0.0, -report.non_inferiority.lower_bound), ""),
    "min_rows": lambda report, _: (report.counts.total, ""),
}
