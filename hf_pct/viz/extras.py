"""What a page or a picture may show beside one report: the alpha curve of a merge, and a chain of versions.

Both come as files that other rooms write, or as the same numbers in memory, so looking needs neither models nor torch.
"""

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_NEEDED = ("alpha", "accuracy", "nfr")


@dataclass(frozen=True)
class MergeCurve:
    """Accuracy and NFR of a merged model along alpha, the share of the OLD model; rows are sorted by alpha.

    A row has at least `alpha`, `accuracy` and `nfr`; intervals (`nfr_low`, `nfr_high`, ...), `gain` over the old model
    and the probability ensemble (`ensemble_accuracy`, `ensemble_nfr`) are shown where they are.
    """

    rows: tuple[dict[str, float], ...]
    chosen: float | None = None
    reason: str = ""

    def column(self, name: str) -> list[float] | None:
        """One number a row, or None when a row lacks it."""
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


def read_curve(source: str | os.PathLike | Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> MergeCurve:
    """A curve from `pct_merge.json` as `hf-pct merge --alpha auto` writes it, from its contents, or from bare rows."""
    given, name = _contents(source, "a pct_merge.json")
    selection: Any = {}
    if isinstance(given, Mapping):
        selection, rows = given.get("selection") or {}, given.get("curve")
        chosen = selection.get("alpha") if isinstance(selection, Mapping) else None
        chosen = given.get("alpha") if chosen is None else chosen
    else:
        rows, chosen = given, None
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
    return MergeCurve(tuple(kept), chosen if _is_rate(chosen) else None, reason)


def read_chain(source: str | os.PathLike | Mapping[str, Any]) -> Chain:
    """A chain from JSON with `versions` (names in order) and `nfr` (a square matrix), or from such a mapping."""
    given, name = _contents(source, "a chain of versions")
    if not isinstance(given, Mapping) or "versions" not in given or "nfr" not in given:
        found = ", ".join(given) if isinstance(given, Mapping) else type(given).__name__
        raise ValueError(f'{name} is not a chain: expected an object with "versions" and "nfr", found {found}.')
    versions = [str(version) for version in given["versions"]]
    matrix, accuracy = given["nfr"], given.get("accuracy")
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


def _contents(source: Any, expected: str) -> tuple[Any, str]:
    if not isinstance(source, (str, os.PathLike)):
        return source, "What was given"
    path = Path(source)
    try:
        return json.loads(path.read_text(encoding="utf-8")), str(path)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist, expected {expected} (JSON).") from None
    except IsADirectoryError:
        raise ValueError(f"{path} is a folder, expected {expected} (JSON).") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a whole JSON file: {error}. Expected {expected}.") from error


def _is_rate(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and 0 <= value <= 1
