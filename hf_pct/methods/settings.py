"""A setting of a method: its default, its bounds and its help, declared once and checked the same way everywhere.

    every_row: float = setting(1.0, "Weight of the distance on every row.", at_least=0, paper=1)

Flags, YAML keys, `--help`, the table in the docs and the refusal of a bad value all come from such a line.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

_KEY = "hf_pct"


@dataclasses.dataclass(frozen=True)
class Setting:
    """What a method declares about one of its settings; `type` is the annotation, such as `float` or `int | None`."""

    name: str
    type: Any
    default: Any
    help: str
    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None
    choices: tuple[str, ...] | None = None
    paper: object = None
    aliases: tuple[str, ...] = ()

    @property
    def optional(self) -> bool:
        """Whether the setting may be left unset."""
        return type(None) in _kinds(self.type)

    @property
    def expected(self) -> str:
        """The values that are accepted, in words."""
        kinds = _kinds(self.type)
        if self.choices is not None:
            return f"one of {', '.join(self.choices)}"
        if bool in kinds:
            text = "true or false"
        elif int in kinds or float in kinds:
            text = f"a {'finite' if float in kinds else 'whole'} number{self._bounds()}"
        elif str in kinds:
            text = "a text"
        else:
            text = "a list"
        return text + (", or none" if self.optional else "")

    def _bounds(self) -> str:
        low = self.at_least if self.above is None else self.above
        high = self.at_most if self.below is None else self.below
        if low is not None and high is not None:
            return f" in {'[' if self.above is None else '('}{low:g}, {high:g}{']' if self.below is None else ')'}"
        limits = ((">=", self.at_least), (">", self.above), ("<=", self.at_most), ("<", self.below))
        return "".join(f" {sign} {limit:g}" for sign, limit in limits if limit is not None)

    def accepts(self, value: object) -> bool:
        """Whether a value has the right type and lies within the bounds."""
        kinds = _kinds(self.type)
        if value is None:
            return self.optional
        if self.choices is not None:
            return value in self.choices
        if bool in kinds:
            return isinstance(value, bool)
        if int in kinds or float in kinds:
            return self._accepts_number(value, whole=float not in kinds)
        return isinstance(value, str) if str in kinds else isinstance(value, list | tuple)

    def _accepts_number(self, value: object, whole: bool) -> bool:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return False
        return (
            not (whole and value != int(value))
            and (self.at_least is None or value >= self.at_least)
            and (self.above is None or value > self.above)
            and (self.at_most is None or value <= self.at_most)
            and (self.below is None or value < self.below)
        )

    def problem(self, value: object, called: str | None = None) -> str | None:
        """What is wrong with a value, or `None`; `called` is an older name under which the caller gave it."""
        if self.accepts(value):
            return None
        text = f"{called or self.name}={value!r}: expected {self.expected}"
        if self.paper is not None:
            text += f"; the paper's is {self.paper}"
        return text + (f" (the setting is now called {self.name})" if called and called != self.name else "")


def setting(
    default: object,
    help: str,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
    choices: Iterable[str] | None = None,
    paper: object = None,
    aliases: Iterable[str] = (),
) -> Any:
    """Declare a setting in the body of a method's dataclass.

    Args:
        default: the value when nothing is said; `None` needs a type such as `int | None`.
        help: one sentence for `--help` and for the table in the docs.
        at_least, above, at_most, below: bounds, inclusive and exclusive.
        choices: the only values allowed.
        paper: the paper's value, named in errors.
        aliases: older names, still accepted with a deprecation warning.
    """
    declared = {
        "help": help,
        "at_least": at_least,
        "above": above,
        "at_most": at_most,
        "below": below,
        "choices": None if choices is None else tuple(choices),
        "paper": paper,
        "aliases": tuple(aliases),
    }
    return dataclasses.field(default=default, metadata={_KEY: declared})


@cache
def settings_of(method: type) -> tuple[Setting, ...]:
    """The settings that a method declares, in their order."""
    hints = typing.get_type_hints(method)
    return tuple(
        Setting(name=entry.name, type=hints[entry.name], default=entry.default, **entry.metadata[_KEY])
        for entry in dataclasses.fields(method)
        if _KEY in entry.metadata
    )


def find_problems(settings: Iterable[Setting], values: Mapping[str, object], called: Mapping[str, str]) -> list[str]:
    """One line per value that its setting does not accept; `called` maps names to the older ones that were used."""
    checked = (entry.problem(values[entry.name], called.get(entry.name)) for entry in settings if entry.name in values)
    return [problem for problem in checked if problem is not None]


def _kinds(annotation: object) -> tuple[object, ...]:
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        return typing.get_args(annotation)
    return (annotation,)
