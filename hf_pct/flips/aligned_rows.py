"""The rows of a pair with their further columns, and the ones among them that flipped."""

import numpy as np
import pyarrow as pa

from .pairing import Pair
from .tables.logits import FileColumns
from .tables.plain_columns import holds_bytes, plain_column


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

    def type_of(self, name: str) -> pa.DataType:
        """A column's type; where it lies in a file it is not read for this."""
        columns = (self.pair.old if name in self.pair.old.columns else self.pair.new).columns
        return columns.type_of(name) if isinstance(columns, FileColumns) else columns[name].type

    def arrow(self, name: str, at: np.ndarray | None = None) -> pa.ChunkedArray:
        """A column of the counted rows, or of those among them at the positions `at`."""
        if name not in self.names:
            raise ValueError(
                f"There is no column {name!r} in the predictions. Found: {', '.join(self.names) or 'none'}. "
                "Keep it when predicting: keep_columns (--keep_columns)."
            )
        old_side = name in self.pair.old.columns
        table = self.pair.old if old_side else self.pair.new
        column = table.columns[name]
        in_place = isinstance(self.pair.old_rows if old_side else self.pair.new_rows, slice)
        if at is None and in_place and len(self.positions) == len(column):
            return column
        return column.take(pa.array(self.source(old_side, at)))

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
    table: dict[str, object] = {"id": rows.pair.old.ids.take(pa.array(sources["old"])), "kind": kinds}
    for name, codes in (("label", labels), ("old_answer", old_answers), ("new_answer", new_answers)):
        table[name] = names.take(pa.array(codes[at]))
    for name, side in (("old", rows.pair.old), ("new", rows.pair.new)):
        sure = side.confidence(sources[name])
        table[f"{name}_confidence"] = pa.nulls(len(at), pa.float64()) if sure is None else pa.array(sure.round(6))
    for name in rows.names:
        if name in table or name == "confidence":
            continue
        if not holds_bytes(rows.type_of(name)):
            table[name] = plain_column(rows.arrow(name, at))
    return pa.table(table)
