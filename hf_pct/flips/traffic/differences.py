"""Two models' answers to the same unlabelled rows: how many differ, what changed into what, and where."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...core.errors import NotComparableError, first_five
from ..stats import Interval, check_confidence, clopper_pearson
from ..tables.plain_columns import may_be_slice, slice_codes
from ..tables.spelling import check_unlabelled
from .answers import Answers, rows_of

MAX_SLICE_VALUES = 100
_NOT_SLICES = ("text", "image")
Pair = tuple[str, str]


@dataclass(frozen=True)
class SliceChurn:
    """How many answers changed among the rows with one value of a column."""

    column: str
    value: str
    rows: int
    differ: int
    interval: Interval

    @property
    def churn(self) -> float:
        return self.differ / self.rows


@dataclass(frozen=True)
class Traffic:
    """The rows that both models answered. `differing` has one row for each that they answer differently."""

    rows: int
    differing: pa.Table
    slices: tuple[SliceChurn, ...] = ()
    old_model: str | None = None
    new_model: str | None = None
    left_out: int = 0

    @property
    def differ(self) -> int:
        return len(self.differing)

    @property
    def churn(self) -> float:
        return self.differ / self.rows

    def churn_interval(self, confidence: float = 0.95) -> Interval:
        """Between what and what the churn of future traffic lies; that of this traffic is known exactly."""
        return clopper_pearson(self.differ, self.rows, confidence)

    def pairs(self) -> list[tuple[Pair, int]]:
        """What changed into what, the most frequent first."""
        return sorted(Counter(self._answers()).items(), key=lambda entry: (-entry[1], entry[0]))

    def _answers(self) -> list[Pair]:
        return list(zip(*(self.differing[name].to_pylist() for name in ("old_answer", "new_answer")), strict=True))

    def telling(self, most: int = 5) -> list[dict]:
        """The most telling rows: those where both models are surest of their different answers.

        Without confidences: one row of every change, the most frequent first, then the second of each.
        """
        table = self.differing
        if not {"old_confidence", "new_confidence"} <= set(table.column_names):
            place, seen = {pair: number for number, (pair, _) in enumerate(self.pairs())}, Counter[Pair]()
            turns = []
            for row, pair in enumerate(self._answers()):
                turns.append((seen[pair], place[pair], row))
                seen[pair] += 1
            return table.take(pa.array([row for *_, row in sorted(turns)[:most]], pa.int64())).to_pylist()
        surest = np.minimum(table["old_confidence"].to_numpy(), table["new_confidence"].to_numpy())
        return table.take(pa.array(np.argsort(-surest, kind="stable")[:most])).to_pylist()


def compare_traffic(
    old: Answers,
    new: Answers,
    *,
    slices: Sequence[str] | None = None,
    allow_partial: bool = False,
    confidence: float = 0.95,
) -> Traffic:
    """Join two models' answers by id and keep the rows that differ, with the columns of both sides."""
    check_confidence(confidence)
    at_new = pc.index_in(old.ids, value_set=new.ids)
    both = np.flatnonzero(at_new.is_valid().to_numpy(zero_copy_only=False))
    only_old, only_new = len(old.ids) - len(both), len(new.ids) - len(both)
    if not len(both):
        raise NotComparableError(
            f"No id is on both sides; the old side has {first_five(old.ids[:6].to_pylist())} and the new side "
            f"{first_five(new.ids[:6].to_pylist())}. Answer the same rows with both models."
        )
    if (only_old or only_new) and not allow_partial:
        raise NotComparableError(
            f"{only_old} of {len(old.ids)} ids are only on the old side and {only_new} of {len(new.ids)} only on the "
            "new one. Answer the same rows with both models, or compare the rows both have: --allow_partial."
        )
    from_new = pc.take(at_new, pa.array(both)).to_numpy()
    old_answers, new_answers = old.answers.take(pa.array(both)), new.answers.take(pa.array(from_new))
    check_unlabelled(rows_of(old_answers), rows_of(new_answers))
    differs = pc.not_equal(old_answers, new_answers).to_numpy(zero_copy_only=False)
    here = np.flatnonzero(differs)
    table = {
        "id": old.ids.take(pa.array(both[here])),
        "old_answer": old_answers.take(pa.array(here)),
        "new_answer": new_answers.take(pa.array(here)),
    }
    for name, side, rows in (("old", old, both), ("new", new, from_new)):
        if side.confidence is not None:
            table[f"{name}_confidence"] = pa.array(side.confidence[rows[here]].round(6))
    columns = {name: column.take(pa.array(both)) for name, column in old.columns.items()}
    columns |= {name: col.take(pa.array(from_new)) for name, col in new.columns.items() if name not in columns}
    table |= {name: column.take(pa.array(here)) for name, column in columns.items() if name not in table}
    return Traffic(
        rows=len(both),
        differing=pa.table(table),
        slices=tuple(_slices(columns, differs, slices, confidence)),
        old_model=old.provenance.model,
        new_model=new.provenance.model,
        left_out=only_old + only_new,
    )


def _slices(
    columns: dict[str, pa.ChunkedArray], differs: np.ndarray, wanted: Sequence[str] | None, confidence: float
) -> list[SliceChurn]:
    unknown = [name for name in wanted or () if name not in columns]
    if unknown:
        raise ValueError(f"There is no column {first_five(unknown)}. Found: {', '.join(columns) or 'none'}.")
    churn = []
    for name in columns if wanted is None else wanted:
        if wanted is None and (name in _NOT_SLICES or not may_be_slice(columns[name].type)):
            continue
        indices, values = slice_codes(columns[name])
        if wanted is None and len(values) > MAX_SLICE_VALUES:
            continue
        codes = indices.to_numpy(zero_copy_only=False)
        rows = np.bincount(codes, minlength=len(values))
        changed = np.bincount(codes, weights=differs, minlength=len(values)).astype(int)
        churn += [
            SliceChurn(name, value, int(total), int(differ), clopper_pearson(int(differ), int(total), confidence))
            for value, total, differ in zip(values, rows, changed, strict=True)
        ]
    return sorted(churn, key=lambda entry: (-entry.churn, -entry.rows, entry.column, entry.value))
