"""Pictures for print: every figure is a function that takes numbers and returns a matplotlib Figure.

The functions live in files by what they are about and are all found here. `save_plots` draws what a saved report
holds: the pair's own figures, and those whose numbers were added to it with `FlipReport.with_figures` (a merge's
curve, epochs, ensembles, a chain).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.decode import JsonObject
from ...core.files import check_can_write, write_whole
from ...flips.report import FlipReport
from ...flips.several.candidates import CandidatesReport
from ..extras import ChainSource, CurveSource
from .distributions import displacement_histogram, rank_histogram, uncertainty_histograms
from .merge import alpha_curve, landscape
from .report import flip_square, flip_uncertainty, nfr_by_class
from .training import accuracy_nfr, chain_matrix, nfr_by_ensemble_size, nfr_per_epoch

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES: dict[str, Callable[..., Figure]] = {
    figure.__name__: figure
    for figure in (
        flip_square,
        nfr_by_class,
        alpha_curve,
        accuracy_nfr,
        nfr_by_ensemble_size,
        displacement_histogram,
        rank_histogram,
        uncertainty_histograms,
        nfr_per_epoch,
        landscape,
        chain_matrix,
    )
}
FORMATS = ("png", "pdf", "svg")


def save_plots(
    report: FlipReport | str | os.PathLike,
    folder: str | os.PathLike,
    *,
    curve: CurveSource | None = None,
    chain: ChainSource | None = None,
    numbers: Mapping[str, JsonObject] | None = None,
    formats: Sequence[str] = ("png",),
    overwrite: bool = False,
) -> list[Path]:
    """Draw a report into a folder and say which files were written.

    A report gives the flip square, NFR by class and by each slice, how unsure the models were of the flips and, when
    both tables had logits, the displacement, rank and uncertainty histograms; further every figure that was added to
    it.
    `curve` (what `read_curve` takes) adds the alpha curve, `chain` (what `read_chain` takes) the chain matrix, and
    `numbers` any other figure by its name, with its arguments.
    """
    report = report if isinstance(report, FlipReport) else FlipReport.load(report)
    numbers = {**report.figures, **(numbers or {})}
    unknown = [name for name in numbers if name not in FIGURES] + [f for f in formats if f not in FORMATS]
    if unknown:
        known = f"figures {', '.join(FIGURES)}; formats {', '.join(FORMATS)}"
        raise ValueError(f"Unknown: {', '.join(map(repr, unknown))}. Known: {known}.")
    drawings: dict[str, Callable[[], Figure | None]] = {
        "flip_square": lambda: flip_square(report, report.confidence),
        "nfr_by_class": lambda: nfr_by_class(report),
        "flip_uncertainty": lambda: flip_uncertainty(report),
    }
    for name, groups in report.slices.items():
        drawings[f"nfr_by_{_file_name(name)}"] = partial(nfr_by_class, groups, name=name)
    if curve is not None:
        drawings["alpha_curve"] = lambda: alpha_curve(curve)
    if chain is not None:
        drawings["chain_matrix"] = lambda: chain_matrix(chain)
    for name, arguments in numbers.items():
        drawings[name] = partial(FIGURES[name], **arguments)
    paths = {name: [Path(folder) / f"{name}.{ending}" for ending in formats] for name in drawings}
    for path in (path for group in paths.values() for path in group):
        check_can_write(path, overwrite)  # before the work, and all of it: no half a set of pictures
    written = []
    for name, draw in drawings.items():
        figure = draw()
        for path in paths[name] if figure is not None else []:
            written.append(_save(figure, path, overwrite))
    return written


def save_candidates(
    report: CandidatesReport,
    folder: str | os.PathLike,
    *,
    formats: Sequence[str] = ("png",),
    overwrite: bool = False,
) -> list[Path]:
    """Draw accuracy against NFR of several candidates into a folder, with the intervals that hold for all of them."""
    methods = []
    for name, entry in report.items():
        method: JsonObject = {"name": name, "accuracy": entry.counts.new_accuracy, "nfr": entry.nfr}
        for key, interval in (("accuracy", "new_accuracy"), ("nfr", "nfr")):
            method |= {f"{key}_low": entry.intervals[interval].low, f"{key}_high": entry.intervals[interval].high}
        methods.append(method)
    paths = [Path(folder) / f"accuracy_nfr.{ending}" for ending in formats]
    for path in paths:
        check_can_write(path, overwrite)
    figure = accuracy_nfr(methods)
    return [_save(figure, path, overwrite) for path in paths]


def _save(figure: Figure, path: Path, overwrite: bool) -> Path:
    """Whole or not at all, and without the date, so that the same numbers give the same file."""
    kind = path.suffix.removeprefix(".")
    metadata = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(kind)
    with write_whole(path, overwrite) as unfinished:
        figure.savefig(unfinished, format=kind, metadata=metadata)
    return path


def _file_name(column: str) -> str:
    return re.sub(r"[^\w.-]+", "_", column).strip("._")[:60] or "slice"


__all__ = [*FIGURES, "FIGURES", "flip_uncertainty", "save_candidates", "save_plots"]
