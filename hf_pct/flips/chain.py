"""More than two versions: the NFR between every two of them, and the rows that flip back and forth.

Comparing each version with the one before it hides two things: what a user who skips a version sees, and rows that are
broken, fixed and broken again (Zhao et al. 2022, Table 5).
"""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..core.decode import JsonObject
from ..core.files import write_text
from .counts import count_flips
from .pairing import Pair, pair_predictions
from .render.report import escape, percent, table
from .studies.member_tables import table_names
from .tables.predictions import Predictions
from .tables.spelling import check_spelling


@dataclass(frozen=True)
class ChainRow:
    """A row whose correctness changed at least twice; `right` says for each version whether it was right."""

    id: Any
    label: str
    right: tuple[bool, ...]


@dataclass(frozen=True)
class ChainReport:
    """A chain of versions on the same rows, in the order in which they were shipped.

    `nfr[i][j]` is the NFR when version i is replaced by version j, on the rows whose label version i knows.
    `cumulative_nfr[j]` is the share of rows that some earlier version got right and version j gets wrong: everything
    that a user may remember as having worked. `back_and_forth` counts the rows that changed at least twice.
    """

    versions: tuple[str, ...]
    rows: int
    accuracy: tuple[float, ...]
    nfr: tuple[tuple[float, ...], ...]
    cumulative_nfr: tuple[float, ...]
    back_and_forth: int
    examples: tuple[ChainRow, ...]

    def to_dict(self) -> JsonObject:
        return {"format": "hf_pct.chain", "format_version": 1, **asdict(self)}

    def save(self, path: str | os.PathLike, overwrite: bool = False) -> Path:
        """Write JSON, as `hf-pct page --chain` reads it."""
        return write_text(path, json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n", overwrite)

    def to_markdown(self) -> str:
        """The matrix for people, and the rows that went back and forth."""
        names = [escape(version) for version in self.versions]
        matrix = [
            (f"**{name}**", *("" if i == j else percent(rate) for j, rate in enumerate(self.nfr[i])))
            for i, name in enumerate(names)
        ]
        parts = [
            f"# A chain of {len(names)} versions on {self.rows:,} rows",
            "NFR when the version of the row is replaced by that of the column:",
            table(["from \\ to", *names], matrix),
            table(
                ["version", "accuracy", "worked once, wrong now"],
                [
                    (name, percent(accuracy), percent(cumulative))
                    for name, accuracy, cumulative in zip(names, self.accuracy, self.cumulative_nfr, strict=True)
                ],
            ),
            f"{self.back_and_forth:,} rows changed at least twice ({percent(self.back_and_forth / self.rows)}).",
        ]
        if self.examples:
            rows = [(escape(row.id), escape(row.label), *("✓" if right else "✗" for right in row.right))
                    for row in self.examples]  # fmt: skip
            parts.append(table(["id", "label", *names], rows))
        return "\n\n".join(parts) + "\n"


def compare_chain(
    versions: Sequence[Predictions],
    names: Sequence[str] | None = None,
    *,
    allow_partial: bool = False,
    max_examples: int = 50,
) -> ChainReport:
    """Compare every version with every other, oldest first.

    Args:
        versions: the predictions of at least two versions on the same rows.
        names: what to call them; by default what their provenance says, else v1, v2, ...
        allow_partial: compare the rows that all have instead of refusing.
        max_examples: how many of the rows that went back and forth to keep.

    Example:
        >>> from hf_pct import Predictions, compare_chain
        >>> ids, labels = [1, 2, 3, 4], ["yes", "no", "yes", "no"]
        >>> v1 = Predictions(ids, labels, ["yes", "no", "yes", "yes"])
        >>> v2 = Predictions(ids, labels, ["yes", "yes", "yes", "no"])
        >>> chain = compare_chain([v1, v2], names=["v1", "v2"])
        >>> chain.versions, chain.accuracy
        (('v1', 'v2'), (0.75, 0.75))
    """
    if len(versions) < 2:
        raise ValueError(f"Got {len(versions)} versions, expected at least two, the oldest first.")
    labels = table_names(versions, names, "version", "v")
    known = {name for version in versions for name in version.label_names or version.vocabulary}
    pairs = [[pair_predictions(old, new, allow_partial, known) for new in versions] for old in versions]
    for pair in pairs[0]:
        check_spelling(pair.old, pair.new)
    common, right = _common_rows(pairs[0])
    changes = (right[1:] != right[:-1]).sum(0)
    worked = np.logical_or.accumulate(right, axis=0)
    restless = np.flatnonzero(changes >= 2)
    first = versions[0]
    examples = [
        ChainRow(first.ids[int(common[at])].as_py(), str(first.vocabulary[first.label_codes[common[at]]]),
                 tuple(right[:, at].tolist()))
        for at in restless[:max_examples]
    ]  # fmt: skip
    return ChainReport(
        versions=labels,
        rows=len(common),
        accuracy=tuple(right.mean(1).tolist()),
        nfr=tuple(tuple(0.0 if i == j else _nfr(pair) for j, pair in enumerate(row)) for i, row in enumerate(pairs)),
        cumulative_nfr=tuple((worked & ~right).mean(1).tolist()),
        back_and_forth=len(restless),
        examples=tuple(examples),
    )


def _nfr(pair: Pair) -> float:
    counted = pair.old_classes_mask()
    return count_flips(pair.old_answers[counted], pair.new_answers[counted], pair.labels[counted]).nfr


def _common_rows(pairs: Sequence[Pair]) -> tuple[np.ndarray, np.ndarray]:
    """The rows of the first version that all have, and for each version whether it is right on them."""
    size = len(pairs[0].old)
    right = np.zeros((len(pairs), size), dtype=bool)
    present = np.ones(size, dtype=bool)
    for number, pair in enumerate(pairs):
        here = np.zeros(size, dtype=bool)
        here[pair.old_rows] = True
        present &= here
        right[number, pair.old_rows] = pair.new_answers == pair.labels
    return np.flatnonzero(present), right[:, present]
