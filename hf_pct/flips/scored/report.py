"""ScoreReport: everything that one comparison of two tables of scores found, as numbers, JSON, Markdown and rows."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from ..._version import __version__
from ...core.decode import JsonObject, check_format, convert, load_json
from ...core.files import write_text
from ..report_files import EDITED_SINCE, rows_table, seal
from ..stats import Interval
from ..tables.predictions import Provenance
from .task_report import TaskReport

FORMAT = "hf_pct.score_report"
FORMAT_VERSION = 1


@dataclass(frozen=True)
class WeightedMean:
    """The mean gain over tasks, each with its weight; `of` says of what: scores, or shares of right rows."""

    of: str
    weights: dict[str, float]
    estimate: float
    interval: Interval
    p_value: float
    p_worse: float


@dataclass(frozen=True)
class Pooled:
    """The verdict over all tasks: those that regressed (one-sided, Holm), and the weighted mean with its own test."""

    regressed: list[str]
    level: float
    mean: WeightedMean | None = None


@dataclass(frozen=True)
class ScoreReport:
    """The changes between an old and a new version, task by task; `rows` has one row for each item that changed.

    `edited` says how a report that was read differs from what was written; a gate refuses it.

    Example:
        >>> from hf_pct import Scores, compare
        >>> report = compare(Scores([1, 2, 3], [1, 1, 0]), Scores([1, 2, 3], [1, 0, 1]))
        >>> report.tasks[0].counts.nfr, report.rows.num_rows
        (0.3333333333333333, 2)
    """

    tasks: list[TaskReport]
    pooled: Pooled
    rows: pa.Table
    old: Provenance
    new: Provenance
    confidence: float = 0.95
    correction: str = "holm"
    cluster: str | None = None
    notes: list[str] = field(default_factory=list)
    version: str = __version__
    edited: str = ""

    def task(self, name: str) -> TaskReport:
        """The report of one task; an error names those that there are."""
        for report in self.tasks:
            if report.task == name:
                return report
        raise KeyError(f"There is no task {name!r}. Tasks: {', '.join(report.task for report in self.tasks)}.")

    def to_dict(self, rows: bool = True) -> JsonObject:
        """Plain dicts, lists and numbers; `rows=False` leaves the changed rows out."""
        names = (name for name in self.__dataclass_fields__ if name not in ("rows", "edited"))
        data: JsonObject = {"format": FORMAT, "format_version": FORMAT_VERSION}
        data |= {name: _plain(getattr(self, name)) for name in names}
        data["seal"] = seal(data)
        if rows:
            data["rows"] = self.rows.to_pylist()
        return data

    def to_json(self) -> str:
        """JSON with the numbers indented for reading and each changed row on a line of its own."""
        head = json.dumps(self.to_dict(rows=False), indent=2, ensure_ascii=False)
        lines = ",\n".join("    " + json.dumps(row, ensure_ascii=False) for row in self.rows.to_pylist())
        listing = f"[\n{lines}\n  ]" if lines else "[]"
        return f'{head.removesuffix("}").rstrip()},\n  "rows": {listing}\n}}\n'

    @classmethod
    def from_dict(cls, data: Mapping[str, object], source: str = "The score report") -> "ScoreReport":
        """The report that `to_dict` described. Refuses what is not one, and what a newer hf_pct wrote."""
        check_format(data, FORMAT, FORMAT_VERSION, "a score report", source)
        file = convert(dict(data), _ScoreFile, source)
        fields = {name: getattr(file, name) for name in cls.__dataclass_fields__ if name not in ("rows", "edited")}
        numbers = {name: value for name, value in data.items() if name != "rows"}
        edited = EDITED_SINCE if file.seal not in (None, seal(numbers)) else ""
        return cls(rows=rows_table(file.rows, f"{source}: rows"), edited=edited, **fields)

    def save(self, path: str | os.PathLike, overwrite: bool = False) -> Path:
        """Write the JSON file, whole or not at all."""
        return write_text(path, self.to_json(), overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike) -> "ScoreReport":
        """Read a report written by `save` or by `hf-pct compare`."""
        return cls.from_dict(load_json(path, "a score report (JSON) as `hf-pct compare` writes"), str(path))

    def to_markdown(self, max_rows: int = 20) -> str:
        """A report for people; the longer tables show their first `max_rows` rows."""
        from ..render.scores import scores_markdown

        return scores_markdown(self, max_rows)

    def to_text(self) -> str:
        """A screen for a terminal."""
        from ..render.scores import scores_text

        return scores_text(self)

    def to_html(self, **options: object) -> str:
        """One self-contained HTML page; `options` are those of `viz.page.render_page`."""
        from ..render import render_page

        return render_page(self, **options)


@dataclass(frozen=True)
class _ScoreFile:
    """A score report as its JSON file has it."""

    tasks: list[TaskReport]
    pooled: Pooled
    old: Provenance
    new: Provenance
    confidence: float
    correction: str
    cluster: str | None = None
    notes: list[str] = field(default_factory=list)
    version: str = "unknown"
    rows: list[JsonObject] = field(default_factory=list)
    seal: str | None = None  # earlier versions wrote none


def _plain(value: Any) -> object:
    if hasattr(value, "__dataclass_fields__"):
        return asdict(value)
    return [_plain(entry) for entry in value] if isinstance(value, list) else value
