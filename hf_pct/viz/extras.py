"""What a page or a picture may show beside one report: the alpha curve of a merge, and a chain of versions.

Both come as files that other rooms write, or as the same numbers in memory, so looking needs neither models nor torch.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ..core.decode import JsonObject, check_plain, convert, load_json
from ..core.errors import NotComparableError
from ..flips.report import FlipReport

# the thing itself, a file of it, or what such a file holds
CurveSource: TypeAlias = "MergeCurve | str | os.PathLike | JsonObject | Sequence[JsonObject]"
ChainSource: TypeAlias = "Chain | str | os.PathLike | JsonObject"

_NEEDED = ("alpha", "accuracy", "nfr")


@dataclass(frozen=True)
class MergeCurve:
    """Accuracy and NFR of a merged model along alpha, the share of the OLD model; rows are sorted by alpha.

    A row has at least `alpha`, `accuracy` and `nfr`; intervals (`nfr_low`, `nfr_high`, ...), `gain` over the old model
    and the probability ensemble (`ensemble_accuracy`, `ensemble_nfr`) are shown where they are. `old_weights` and
    `new_weights` are the content hashes of what was merged and, first among the new ones, of what came out.
    """

    rows: tuple[dict[str, float], ...]
    chosen: float | None = None
    reason: str = ""
    old_weights: str | None = None
    new_weights: tuple[str, ...] = ()

    def column(self, name: str) -> list[float] | None:
        """One number per row, or None when a row lacks it."""
        if not all(isinstance(row.get(name), (int, float)) for row in self.rows):
            return None
        return [float(row[name]) for row in self.rows]

    @property
    def old_accuracy(self) -> float | None:
        """The old model's accuracy: from the gain, or at alpha = 1."""
        first, last = self.rows[0], self.rows[-1]
        if "gain" in first:
            return first["accuracy"] - first["gain"]
        return last["accuracy"] if last["alpha"] == 1 else None


@dataclass(frozen=True)
class Chain:
    """`nfr[i][j]`: the NFR when version i is replaced by version j."""

    versions: tuple[str, ...]
    nfr: tuple[tuple[float, ...], ...]
    accuracy: tuple[float, ...] | None = None


@dataclass(frozen=True)
class _ChainFile:
    """What a chain's JSON must hold; that its numbers fit together is checked after."""

    versions: list[str]
    nfr: list[list[float]]
    accuracy: list[float] | None = None


def read_curve(source: CurveSource) -> MergeCurve:
    """A curve from `pct_merge.json` as `hf-pct merge --alpha auto` writes it, from its contents, or from bare rows."""
    if isinstance(source, MergeCurve):
        return source
    contents, name = _contents(source, "a pct_merge.json")
    selection: JsonObject = {}
    if isinstance(contents, Mapping):
        selection, rows = contents.get("selection") or {}, contents.get("curve")
        chosen = selection.get("alpha") if isinstance(selection, Mapping) else None
        chosen = contents.get("alpha") if chosen is None else chosen
    else:
        rows, chosen = contents, None
    if not rows:
        raise ValueError(
            f"{name} has no alpha curve: it was merged at a given alpha and nothing was measured. Merge with "
            "--alpha auto --dataset DATA, which measures every alpha."
        )
    problems = []
    if isinstance(rows, (str, bytes)) or not isinstance(rows, Sequence):
        problems.append(f"the curve is {type(rows).__name__}, expected a list with one object for each alpha")
        rows = []
    for number, row in enumerate(rows):
        missing = [key for key in _NEEDED if not isinstance(row, Mapping) or not _is_rate(row.get(key))]
        if missing:
            problems.append(f"row {number}: expected numbers from 0 to 1 for {', '.join(missing)}, got {row!r:.80}")
    if problems:
        raise ValueError(f"{name} is not an alpha curve: {'; '.join(problems[:5])}")
    kept = sorted((dict(row) for row in rows), key=lambda row: row["alpha"])
    reason = str(selection.get("reason", "")) if isinstance(selection, Mapping) else ""
    return MergeCurve(tuple(kept), chosen if _is_rate(chosen) else None, reason, *_weights(contents))


def check_curve(curve: MergeCurve, report: FlipReport) -> None:
    """Raise when a curve is of other models than the two that the report compares."""
    problems = []
    if curve.old_weights and report.old.weights and curve.old_weights != report.old.weights:
        problems.append(f"its old model has the weights {curve.old_weights}, the report's {report.old.weights}")
    if curve.new_weights and report.new.weights and report.new.weights not in curve.new_weights:
        problems.append(f"it made the weights {curve.new_weights[0]}, the report is about {report.new.weights}")
    if problems:
        raise NotComparableError(f"The alpha curve is of another merge than the report: {'; '.join(problems)}.")


def _weights(record: object) -> tuple[str | None, tuple[str, ...]]:
    """The hashes in a merge record: of its old model, and of what it made and its new models; older ones lack some."""
    if not isinstance(record, Mapping) or not isinstance(record.get("weights"), str):
        return None, ()
    old, *new = [
        source.get("weights") if isinstance(source, Mapping) else None
        for source in (record.get("old"), *(record.get("new") or ()))
    ]
    return old, (record["weights"], *filter(None, new))


def read_chain(source: ChainSource) -> Chain:
    """A chain from JSON with `versions` (names in order) and `nfr` (a square matrix), or from such a mapping."""
    if isinstance(source, Chain):
        return source
    contents, name = _contents(source, "a chain of versions")
    if not isinstance(contents, Mapping) or "versions" not in contents or "nfr" not in contents:
        keys = ", ".join(contents) if isinstance(contents, Mapping) else type(contents).__name__
        raise ValueError(f'{name} is not a chain: expected an object with "versions" and "nfr", found {keys}.')
    named = convert(dict(contents), _ChainFile, name)
    versions, matrix, accuracy = named.versions, named.nfr, named.accuracy
    size = len(versions)
    problems = []
    if size < 2:
        problems.append(f"{size} versions, expected at least 2")
    if len(matrix) != size or any(len(row) != size for row in matrix):
        problems.append(f"nfr has rows of {[len(row) for row in matrix]}, expected {size} rows of {size}")
    elif not all(_is_rate(value) for row in matrix for value in row):
        problems.append("nfr holds something else than numbers from 0 to 1")
    if accuracy is not None and (len(accuracy) != size or not all(map(_is_rate, accuracy))):
        problems.append(f"accuracy is {accuracy!r:.80}, expected {size} numbers from 0 to 1")
    if problems:
        raise ValueError(f"{name} is not a chain: {'; '.join(problems)}")
    nfr = tuple(tuple(float(value) for value in row) for row in matrix)
    return Chain(tuple(versions), nfr, None if accuracy is None else tuple(map(float, accuracy)))


def _contents(source: CurveSource | ChainSource, expected: str) -> tuple[object, str]:
    if not isinstance(source, (str, os.PathLike)):
        return source, "What was given"
    contents = load_json(source, f"{expected} (JSON)")
    check_plain(contents, str(source))
    return contents, str(source)


def _is_rate(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and 0 <= value <= 1
