"""FlipReport: everything that one comparison of an old and a new model found, as numbers, JSON, Markdown and rows."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from .._version import __version__
from ..files import write_text
from .counts import FlipCounts
from .errors import NotComparableError
from .grouping import GroupFlips
from .pairing import Coverage
from .predictions import Provenance
from .stats import Difference, Interval, McNemar, NonInferiority

if TYPE_CHECKING:
    import datasets

FORMAT = "hf_pct.flip_report"
FORMAT_VERSION = 1


@dataclass(frozen=True)
class Confusion:
    """Rows of `label` that the old model got right and the new one takes for `new_answer`."""

    label: str
    new_answer: str
    count: int


@dataclass(frozen=True)
class LabelChanges:
    """Classes that only one of the two models has, and what became of the rows that involve them.

    Rows of added classes are left out of every other number: the old model could not have known them. Rows of removed
    classes stay in: what worked yesterday fails today, also when the class was dropped or renamed by mistake.
    """

    shared: int
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    added_rows: int = 0
    added_accuracy: float = 0.0
    removed_rows: int = 0
    flips_into_added: int = 0


@dataclass(frozen=True)
class NoiseFloor:
    """What a second run of the old recipe flips by itself, and how much the new model flips beyond that."""

    nfr: float
    interval: Interval
    excess_nfr: float
    excess_interval: Interval
    p_value: float


@dataclass(frozen=True)
class WeightedFlips:
    """The counts with every row weighted by a column, such as its traffic."""

    column: str
    counts: FlipCounts
    effective_rows: float
    nfr_interval: Interval


@dataclass(frozen=True)
class FlipReport:
    """The flips between an old and a new model. Rates are fractions; `flips` has one row for each flipped row.

    `figures` holds the numbers of the pictures that a report can draw, by the figure's name.
    """

    counts: FlipCounts
    intervals: dict[str, Interval]
    nfr_upper: float
    mcnemar: McNemar
    non_inferiority: NonInferiority
    coverage: Coverage
    labels: LabelChanges
    classes: list[GroupFlips]
    slices: dict[str, list[GroupFlips]]
    confusions: list[Confusion]
    flips: pa.Table
    old: Provenance
    new: Provenance
    confidence: float = 0.95
    correction: str = "holm"
    cluster: str | None = None
    noise_floor: NoiseFloor | None = None
    weighted: WeightedFlips | None = None
    notes: list[str] = field(default_factory=list)
    figures: dict[str, dict[str, Any]] = field(default_factory=dict)
    version: str = __version__

    @property
    def nfr(self) -> float:
        return self.counts.nfr

    @property
    def pfr(self) -> float:
        return self.counts.pfr

    def to_dict(self, flips: bool = True) -> dict[str, Any]:
        """Plain dicts, lists and numbers; `flips=False` leaves the flipped rows out."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__ if name not in ("flips", "counts")}
        data = {"format": FORMAT, "format_version": FORMAT_VERSION, **self.counts.as_dict()}
        data |= {name: _plain(value) for name, value in fields.items()}
        if flips:
            data["flips"] = self.flips.to_pylist()
        return data

    def to_json(self) -> str:
        """JSON with the numbers indented for reading and each flipped row on a line of its own."""
        head = json.dumps(self.to_dict(flips=False), indent=2, ensure_ascii=False)
        rows = ",\n".join("    " + json.dumps(row, ensure_ascii=False) for row in self.flips.to_pylist())
        listing = f"[\n{rows}\n  ]" if rows else "[]"
        return f'{head.removesuffix("}").rstrip()},\n  "flips": {listing}\n}}\n'

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "FlipReport":
        """The report that `to_dict` described. Refuses what is not one, and what a newer hf_pct wrote."""
        if not isinstance(data, Mapping) or data.get("format") != FORMAT:
            raise ValueError(f'This is not a flip report: expected a JSON object with "format": "{FORMAT}".')
        if data.get("format_version", 0) > FORMAT_VERSION:
            raise NotComparableError(
                f"The report is in format {data['format_version']}, written by hf_pct {data.get('version', '?')}; "
                f"this hf_pct {__version__} reads up to format {FORMAT_VERSION}. Upgrade: pip install -U hf-pct"
            )
        try:
            return _decode(data)
        except (KeyError, TypeError) as error:
            raise ValueError(
                f"The flip report is incomplete or was edited: {type(error).__name__}: {error}."
            ) from error

    def save(self, path: str | os.PathLike, overwrite: bool = False) -> Path:
        """Write the JSON file, whole or not at all."""
        return write_text(path, self.to_json(), overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike) -> "FlipReport":
        """Read a report written by `save` or by `hf-pct compare`."""
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise FileNotFoundError(
                f"{path} does not exist, expected a flip report (JSON) as `hf-pct compare` writes."
            ) from None
        except IsADirectoryError:
            raise ValueError(
                f"{path} is a folder, expected the flip report in it: {Path(path) / 'flip_report.json'}"
            ) from None
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise ValueError(
                f"{path} is not a whole JSON file: {error}. Make it again with hf-pct compare."
            ) from error
        try:
            return cls.from_dict(data)
        except ValueError as error:
            raise type(error)(f"{path}: {error}") from error

    def with_figures(self, **figures: dict[str, Any]) -> "FlipReport":
        """The same report with the numbers of further figures, by the names of `hf_pct.viz.plots.FIGURES`.

        What a comparison of two tables cannot know (a merge's curve, epochs, ensembles) is then drawn from the saved
        report like the rest.
        """
        return replace(self, figures={**self.figures, **figures})

    def to_markdown(self, max_rows: int = 20) -> str:
        """A report for people; the longer tables show their first `max_rows` rows."""
        from .markdown import report_markdown

        return report_markdown(self, max_rows)

    def to_text(self) -> str:
        """A dozen lines for a terminal."""
        from .markdown import report_text

        return report_text(self)

    def to_html(self, **options: Any) -> str:
        """One self-contained HTML page; `options` (gate, curve, texts, ...) are those of `viz.page.render_page`."""
        from ..viz.page import render_page

        return render_page(self, **options)

    def to_dataset(self) -> "datasets.Dataset":
        """The flipped rows as a `datasets.Dataset`."""
        from datasets import Dataset

        return Dataset(self.flips)


def _plain(value: Any) -> Any:
    if hasattr(value, "__dataclass_fields__"):
        value = asdict(value)
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    return value


def _decode(data: Mapping[str, Any]) -> FlipReport:
    def interval(values: Mapping[str, Any]) -> Interval:
        return Interval(**values)

    def counts(values: Mapping[str, Any]) -> FlipCounts:
        return FlipCounts(**{name: values[name] for name in FlipCounts.__dataclass_fields__})

    def groups(values: list[Mapping[str, Any]]) -> list[GroupFlips]:
        return [GroupFlips(**group) for group in values]

    floor, weighted = data.get("noise_floor"), data.get("weighted")
    labels: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in data["labels"].items()
    }
    return FlipReport(
        counts=counts(data),
        intervals={name: interval(values) for name, values in data["intervals"].items()},
        nfr_upper=data["nfr_upper"],
        mcnemar=McNemar(**data["mcnemar"]),
        non_inferiority=NonInferiority(**data["non_inferiority"]),
        coverage=Coverage(**data["coverage"]),
        labels=LabelChanges(**labels),
        classes=groups(data["classes"]),
        slices={name: groups(values) for name, values in data["slices"].items()},
        confusions=[Confusion(**confusion) for confusion in data["confusions"]],
        flips=pa.Table.from_pylist(data.get("flips", [])),
        old=Provenance.from_dict(data["old"]),
        new=Provenance.from_dict(data["new"]),
        confidence=data["confidence"],
        correction=data["correction"],
        cluster=data.get("cluster"),
        noise_floor=floor
        and NoiseFloor(
            **{**floor, "interval": interval(floor["interval"]), "excess_interval": interval(floor["excess_interval"])}
        ),
        weighted=weighted
        and WeightedFlips(
            **{**weighted, "counts": counts(weighted["counts"]), "nfr_interval": interval(weighted["nfr_interval"])}
        ),
        notes=list(data.get("notes", [])),
        figures=dict(data.get("figures", {})),
        version=data.get("version", "unknown"),
    )


__all__ = ["Confusion", "Difference", "FlipReport", "LabelChanges", "NoiseFloor", "WeightedFlips"]
