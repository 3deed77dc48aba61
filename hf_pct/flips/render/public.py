"""What of a report may leave the machine: no path of a person's disk, in a name or inside a sentence."""

import re
from dataclasses import replace
from typing import TypeVar

from ..report import FlipReport
from ..scored.report import ScoreReport
from ..tables.predictions import Provenance

Value = TypeVar("Value")
Report = TypeVar("Report", FlipReport, ScoreReport)

# /home/someone/x, ~/x, C:\x: two parts at least, and not the end of an address, a date or a word such as and/or
_PATH = re.compile(r"(?<![\w:/.~\\])(?:~?/(?:[^\s/'\"`,;:()<>|]+/)+|~/|[A-Za-z]:[\\/](?:[^\s\\/'\"`,;()<>|]+[\\/])*)")


def without_paths(text: str) -> str:
    """Text in which every absolute path is cut to its last part.

    >>> without_paths("rows of /home/someone/data/test.jsonl were left out, see https://example.org/a/b")
    'rows of test.jsonl were left out, see https://example.org/a/b'
    """
    return _PATH.sub("", text)


def public_value(value: Value) -> Value:
    """The same for all text inside of lists and dicts."""
    if isinstance(value, str):
        return without_paths(value)  # type: ignore[return-value]
    if isinstance(value, dict):
        return {name: public_value(entry) for name, entry in value.items()}  # type: ignore[return-value]
    if isinstance(value, list | tuple):
        return type(value)(public_value(entry) for entry in value)
    return value


def without_local_paths(report: Report) -> Report:
    """A report whose notes, names and settings hold no path of this machine."""
    return replace(report, old=_public(report.old), new=_public(report.new), notes=public_value(list(report.notes)))


def _public(origin: Provenance) -> Provenance:
    model, dataset = public_value([origin.model, origin.dataset])
    return replace(origin, model=model, dataset=dataset, settings=public_value(origin.settings))
