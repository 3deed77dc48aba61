"""The rules of a gate: what an update may break."""

import difflib
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from ...core.decode import JsonObject, load_yaml

_SETTINGS = ("min_group_rows", "allow_partial")


@dataclass(frozen=True)
class Limits:
    """What a rule's number may be, and how to say it."""

    expected: str
    low: float = -math.inf
    high: float = math.inf
    whole: bool = False
    forbids_nothing_at_one: bool = False

    def problem(self, rule: str, value: object) -> str:
        """What is wrong with the value of a rule; empty when nothing is."""
        if isinstance(value, bool) or not isinstance(value, int if self.whole else (int, float)):
            return f"{rule} is {value!r}, expected a {'whole ' * self.whole}number"
        if not math.isfinite(value):
            return f"{rule} is {value}, expected a finite number"
        if not self.low <= value <= self.high:
            return f"{rule} is {value}, expected {self.expected}"
        if self.forbids_nothing_at_one and value == 1:
            meant = "Was 0.01 (1 %) meant? To allow anything leave it out"
            return f"{rule} is 1, which is 100 % and forbids nothing. {meant}"
        return ""


FRACTION = Limits("a fraction from 0 to 1 (1 % is 0.01)", 0, 1, forbids_nothing_at_one=True)
GAIN = Limits("a fraction from -1 to 1 (1 point is 0.01)", -1, 1)
RATIO = Limits("a number that is not negative (1 = independent)", 0)
ROWS = Limits("at least 1", 1, whole=True)


def rule(help_text: str, limits: Limits = FRACTION, default: object = None) -> Any:
    """A field of a gate's config: its help, and what its number may be."""
    return field(default=default, metadata={"help": help_text, "limits": limits})


@dataclass(frozen=True)
class GateConfig:
    """What an update may break. A rule that is None is not checked; all rates are fractions (0.01 is 1 %).

    Example:
        >>> from hf_pct import GateConfig
        >>> GateConfig(max_nfr=0.01, min_accuracy_gain=0.0).rules()
        {'max_nfr': 0.01, 'min_accuracy_gain': 0.0}
    """

    max_nfr: float | None = rule("limit on the negative flip rate as counted")
    max_nfr_upper: float | None = rule("limit on its one-sided upper bound: what the data can promise")
    max_class_nfr: float | None = rule("limit on the NFR of every class with at least min_group_rows rows")
    max_slice_nfr: float | None = rule("limit on the NFR of every slice with at least min_group_rows rows")
    max_relative_nfr: float | None = rule(
        "limit on NFR over what independent models would show (1 = independent)", RATIO
    )
    max_excess_nfr: float | None = rule("limit on NFR beyond the noise floor; the report needs old_rerun")
    max_weighted_nfr: float | None = rule("limit on the weighted NFR; the report needs a weight")
    max_cumulative_nfr: float | None = rule(
        "limit on the rows that some earlier version of a chain got right and the newest one gets wrong"
    )
    min_accuracy_gain: float | None = rule("least new minus old accuracy; 0: no loss, -0.002 allows 0.2 points", GAIN)
    max_accuracy_loss: float | None = rule("loss of accuracy that must be excluded with the report's confidence")
    min_rows: int | None = rule("least number of compared rows: fewer prove nothing", ROWS)
    min_group_rows: int = rule(
        "classes and slices with fewer rows are not judged: one flip in three is no rate", ROWS, 1
    )
    allow_partial: bool = field(default=False, metadata={"help": "accept a report in which rows were left out"})

    def __post_init__(self) -> None:
        values = {**self.rules(), "min_group_rows": self.min_group_rows}
        limits = {entry.name: entry.metadata["limits"] for entry in fields(self) if entry.name in values}
        problems = [problem for name in values if (problem := limits[name].problem(name, values[name]))]
        if not isinstance(self.allow_partial, bool):
            problems.append(f"allow_partial is {self.allow_partial!r}, expected true or false")
        if problems:
            raise ValueError("The gate's rules make no sense:\n  " + "\n  ".join(problems))

    def rules(self) -> JsonObject:
        """The rules that are set."""
        return {name: value for name, value in asdict(self).items() if name not in _SETTINGS and value is not None}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "GateConfig":
        """A config from a mapping; unknown names are refused, with the name that was probably meant."""
        known = [entry.name for entry in fields(cls)]
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
        """A config from a YAML file with one `rule: number` per line."""
        values = load_yaml(path, "a YAML file of gate rules")
        if not isinstance(values, dict):
            raise ValueError(f"{path} holds {type(values).__name__}, expected lines such as `max_nfr: 0.01`.")
        return cls.from_dict(values)
