"""Further columns of the items of a pair: looked up on the old side first, in the order of the pair."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .pairing import TaskPair


def column_names(pair: TaskPair) -> list[str]:
    """The further columns of both sides."""
    old, new = pair.old.table.columns, pair.new.table.columns
    return [*old, *(name for name in new if name not in old)]


def arrow_column(pair: TaskPair, name: str, at: np.ndarray | None = None) -> pa.ChunkedArray:
    """A column at the pair's items, or at some of them. `label` is one of them."""
    for items, places in ((pair.old, pair.old_at), (pair.new, pair.new_at)):
        column = items.table.labels if name == "label" else items.table.columns.get(name)
        if column is not None:
            if at is None:
                return items.texts(column, places)
            return column.take(pa.array(items.first[places][at]))
    raise ValueError(
        f"There is no column {name!r} in the scores. The columns: {', '.join(column_names(pair)) or 'none'}."
    )


def task_column(pair: TaskPair, name: str) -> np.ndarray:
    """A column as codes of its values; missing values are one value of their own."""
    encoded = pc.dictionary_encode(arrow_column(pair, name), null_encoding="encode").unify_dictionaries()
    return encoded.combine_chunks().indices.to_numpy(zero_copy_only=False)
