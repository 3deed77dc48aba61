"""The rows of a pair with their further columns, and the ones among them that flipped."""

from typing import Any

import numpy as np
import pyarrow as pa

from .pairing import Pair


class AlignedRows:
    """Further columns of the counted rows of a pair, looked up on the old side first and in the order of the pair."""

    def __init__(self, pair: Pair, counted: np.ndarray) -> None:
        self.pair = pair
        self.positions = np.flatnonzero(counted)
        self.names = [*pair.old.columns, *(name for name in pair.new.columns if name not in pair.old.columns)]

    def source(self, old_side: bool, at: np.ndarray | None = None) -> np.ndarray:
        """The row numbers, in one side's own table, of the counted rows (or of those at positions `at`)."""
        rows = self.pair.old_rows if old_side else self.pair.new_rows
        numbers = self.positions if at is None else self.positions[at]
        return numbers if isinstance(rows, slice) else rows[numbers]

    def arrow(self, name: str, at: np.ndarray | None = None) -> pa.ChunkedArray:
        """A column of the counted rows, or of those among them at the positions `at`."""
        if name not in self.names:
            raise ValueError(
                f"There is no column {name!r} in the predictions. Found: {', '.join(self.names) or 'none'}. "
                "Keep it when predicting: keep_columns (--keep_columns)."
            )
        old_side = name in self.pair.old.columns
        table = self.pair.old if old_side else self.pair.new
        return table.columns[name].take(pa.array(self.source(old_side, at)))

    def column(self, name: str | None) -> np.ndarray | None:
        """A column as NumPy; None for no name."""
        return None if name is None else self.arrow(name).to_numpy()


def flipped_rows(
    rows: AlignedRows,
    labels: np.ndarray,
    old_answers: np.ndarray,
    new_answers: np.ndarray,
    old_right: np.ndarray,
    new_right: np.ndarray,
) -> pa.Table:
    """The rows whose correctness changed, broken ones first, with what each model said and how sure it was."""
    at = np.concatenate([np.flatnonzero(old_right & ~new_right), np.flatnonzero(new_right & ~old_right)])
    names = pa.array(rows.pair.names, pa.string())
    kinds = pa.array(["positive", "negative"]).take(pa.array(old_right[at].astype(np.int32)))
    sources = {"old": rows.source(True, at), "new": rows.source(False, at)}
    table: dict[str, Any] = {"id": rows.pair.old.ids.take(pa.array(sources["old"])), "kind": kinds}
    for name, codes in (("label", labels), ("old_answer", old_answers), ("new_answer", new_answers)):
        table[name] = names.take(pa.array(codes[at]))
    for name, side in (("old", rows.pair.old), ("new", rows.pair.new)):
        sure = side.confidence(sources[name])
        table[f"{name}_confidence"] = pa.nulls(len(at), pa.float64()) if sure is None else pa.array(sure.round(6))
    for name in rows.names:
        if name in table or name == "confidence":
            continue
        column = rows.arrow(name, at)
        if not _holds_bytes(column.type):
            table[name] = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
    return pa.table(table)


def _holds_bytes(kind: pa.DataType) -> bool:
    """Images and other bytes do not belong in a JSON report."""
    inner = [field.type for field in kind] if pa.types.is_struct(kind) else [kind]
    return any(pa.types.is_binary(each) or pa.types.is_large_binary(each) for each in inner)
