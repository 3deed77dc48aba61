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

from ..core.decode import JsonObject, check_format, convert, load_json
from ..core.files import write_text
from .counts import FlipCounts, count_flips
from .pairing import Pair, pair_predictions
from .render.report import escape, percent, table
from .report_files import seal
from .studies.member_tables import table_names
from .tables.predictions import Predictions
from .tables.spelling import check_spelling

FORMAT = "hf_pct.chain"
FORMAT_VERSION = 1


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
    that a user may remember as having worked. `back_and_forth` counts the rows that changed at least twice. `replaced`
    has what becomes of the rows when an earlier version is replaced by the newest one: a gate judges these counts.
    `left_out` is how many rows of the largest table some version lacks.
    """

    versions: tuple[str, ...]
    rows: int
    accuracy: tuple[float, ...]
    nfr: tuple[tuple[float, ...], ...]
    cumulative_nfr: tuple[float, ...]
    back_and_forth: int
    examples: tuple[ChainRow, ...]
    replaced: tuple[FlipCounts, ...] = ()
    left_out: int = 0
    edited: str = ""

    def to_dict(self) -> JsonObject:
        data = {"format": FORMAT, "format_version": FORMAT_VERSION, **asdict(self)}
        del data["edited"]
        return {**data, "seal": seal(data)}

    @classmethod
    def load(cls, path: str | os.PathLike) -> "ChainReport":
        """Read what `save` or `hf-pct compare` wrote."""
        data = load_json(path, "chain.json as `hf-pct compare V1 V2 V3` writes it")
        check_format(data, FORMAT, FORMAT_VERSION, "a chain of versions", str(path))
        values = {name: data[name] for name in cls.__dataclass_fields__ if name in data}
        edited = "" if data.get("seal") == seal(data) else (
            "The chain was changed since it was written, or by an earlier hf_pct. Make it again with hf-pct compare."
        )  # fmt: skip
        return convert({**values, "edited": edited}, cls, str(path))

    def sentence(self) -> str:
        """The chain in one sentence."""
        worst = max(range(len(self.versions) - 1), key=lambda at: self.nfr[at][-1])
        return (
            f"{self.versions[-1]} after {len(self.versions) - 1} earlier versions on {self.rows:,} rows: accuracy "
            f"{percent(self.accuracy[-1])}; NFR at most {percent(self.nfr[worst][-1])}, against {self.versions[worst]}"
            f"; {percent(self.cumulative_nfr[-1])} of the rows worked in some earlier version and do not now."
        )

    def remarks(self) -> list[str]:
        """What a reader must know before trusting the numbers."""
        partial = f"PARTIAL: {self.left_out:,} rows that not every version answered were left out."
        return [*([self.edited] if self.edited else []), *([partial] if self.left_out else [])]

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
        nfr=tuple(
            tuple(0.0 if i == j else _counts(pair).nfr for j, pair in enumerate(row)) for i, row in enumerate(pairs)
        ),
        cumulative_nfr=tuple((worked & ~right).mean(1).tolist()),
        back_and_forth=len(restless),
        examples=tuple(examples),
        replaced=tuple(_counts(row[-1]) for row in pairs[:-1]),
        left_out=max(map(len, versions)) - len(common),
    )


def _counts(pair: Pair) -> FlipCounts:
    counted = pair.old_classes_mask()
    return count_flips(pair.old_answers[counted], pair.new_answers[counted], pair.labels[counted])


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
