"""FlipReport: everything that one comparison of an old and a new model found, as numbers, JSON, Markdown and rows."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from .._version import __version__
from ..core.decode import JsonObject, check_format, load_json
from ..core.errors import NotComparableError
from .counts import FlipCounts
from .grouping import GroupFlips
from .pairing import Coverage
from .stats import Difference, Interval, McNemar, NonInferiority
from .tables.predictions import Provenance

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

    `effective_rows` says, where rows belong together, how many independent rows `nfr_upper` and `non_inferiority` rest
    on; the exact formulas for that many rows give these bounds. `figures` holds the numbers of the pictures that a
    report can draw, by the figure's name. `flips_cut` says that some flipped rows are missing: the report was read
    without the file that holds them. `edited` says how a report that was read contradicts
    what it was written with; a gate refuses it.

    Example:
        >>> from hf_pct import Predictions, compare
        >>> ids, labels = [1, 2, 3, 4], ["yes", "no", "yes", "no"]
        >>> old = Predictions(ids, labels, ["yes", "no", "yes", "yes"])
        >>> new = Predictions(ids, labels, ["yes", "yes", "yes", "no"])
        >>> report = compare(old, new)
        >>> report.counts.negative_flips, report.nfr
        (1, 0.25)
        >>> report.flips.select(["id", "kind", "new_answer"]).to_pylist()[0]
        {'id': 2, 'kind': 'negative', 'new_answer': 'yes'}
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
    effective_rows: dict[str, float] = field(default_factory=dict)
    noise_floor: NoiseFloor | None = None
    weighted: WeightedFlips | None = None
    notes: list[str] = field(default_factory=list)
    figures: dict[str, JsonObject] = field(default_factory=dict)
    version: str = __version__
    flips_cut: bool = False
    edited: str = ""

    @property
    def nfr(self) -> float:
        return self.counts.nfr

    @property
    def pfr(self) -> float:
        return self.counts.pfr

    def to_dict(self, flips: bool = True) -> JsonObject:
        """Plain dicts, lists and numbers; `flips=False` leaves the flipped rows out."""
        from .report_files import plain, plain_rows, seal

        left_out = ("flips", "flips_cut", "edited", "counts")
        data = {"format": FORMAT, "format_version": FORMAT_VERSION, **self.counts.to_dict()}
        data |= {name: plain(getattr(self, name)) for name in self.__dataclass_fields__ if name not in left_out}
        data["seal"] = seal(data)
        if flips:
            data["flips"] = plain_rows(self.flips)
        return data

    def to_json(self) -> str:
        """JSON with the numbers indented for reading and each flipped row on a line of its own."""
        from .report_files import report_json

        return report_json(self.to_dict(flips=False), self.flips)

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> "FlipReport":
        """The report that `to_dict` described. Refuses what is not one, and what a newer hf_pct wrote."""
        from .report_files import decode_report

        check_format(data, FORMAT, FORMAT_VERSION, "a flip report", "This")
        return decode_report(cls, data)

    def save(self, path: str | os.PathLike, overwrite: bool = False) -> Path:
        """Write the JSON file, whole or not at all; more than a few thousand flipped rows go to a file beside it."""
        from .report_files import save_report

        return save_report(self, Path(path), overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike) -> "FlipReport":
        """Read a report written by `save` or by `hf-pct compare`."""
        from .report_files import with_saved_rows

        if Path(path).is_dir():
            raise ValueError(f"{path} is a folder, expected the flip report in it: {Path(path) / 'flip_report.json'}")
        data = load_json(path, "a flip report (JSON) as `hf-pct compare` writes")
        try:
            report = cls.from_dict(data)
        except NotComparableError as error:
            raise NotComparableError(f"{path}: {error}") from error
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        return with_saved_rows(report, Path(path), data)

    def with_figures(self, **figures: JsonObject) -> "FlipReport":
        """The same report with the numbers of further figures, by the names of `hf_pct.viz.figures.plots.FIGURES`.

        What a comparison of two tables cannot know (a merge's curve, epochs, ensembles) is then drawn from the saved
        report like the rest.
        """
        return replace(self, figures={**self.figures, **figures})

    def to_markdown(self, max_rows: int = 20) -> str:
        """A report for people; the longer tables show their first `max_rows` rows."""
        from .render.report import report_markdown

        return report_markdown(self, max_rows)

    def to_text(self) -> str:
        """A dozen lines for a terminal."""
        from .render.report import report_text

        return report_text(self)

    def to_html(self, **options: object) -> str:
        """One self-contained HTML page; `options` (gate, curve, texts, ...) are those of `viz.page.render_page`."""
        from .render import render_page

        return render_page(self, **options)

    def to_dataset(self) -> "datasets.Dataset":
        """The flipped rows as a `datasets.Dataset`."""
        from datasets import Dataset

        return Dataset(self.flips)


__all__ = ["Confusion", "Difference", "FlipReport", "LabelChanges", "NoiseFloor", "WeightedFlips"]
