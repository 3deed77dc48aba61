"""The items that changed, as a table: what was asked, both answers and both scores, broken ones first."""

import numpy as np
import pyarrow as pa

from ..tables.plain_columns import holds_bytes
from .columns import arrow_column, column_names
from .measures.means import item_means
from .measures.outcomes import BETTER, BROKEN, CHANGED, FIXED, OUTCOMES, WORSE, Shares
from .pairing import TaskPair

_ORDER = (BROKEN, WORSE, CHANGED, FIXED, BETTER)


def changed_rows(pair: TaskPair, shares: Shares, old: np.ndarray, new: np.ndarray, most: int) -> tuple[pa.Table, int]:
    """At most `most` changed items, and how many more there are.

    An item that was run several times is listed under the outcome that most of its pairs of runs had.
    """
    main = shares.main()
    chosen: list[np.ndarray] = []
    left_out, room = 0, most
    for code in _ORDER:
        rows = np.flatnonzero(main == code)
        chosen.append(_largest(rows, old, new, room))
        room -= len(chosen[-1])
        left_out += len(rows) - len(chosen[-1])
    at = np.concatenate(chosen)
    table: dict[str, object] = {
        "task": pa.array([pair.task] * len(at), pa.string()),
        "id": pair.ids.take(pa.array(at)).cast(pa.string()),
        "kind": pa.array([OUTCOMES[code] for code in main[at].tolist()], pa.string()),
    }
    table |= _texts(pair, at)
    sign = pair.metric.sign
    table["old_score"] = pa.array((sign * item_means(old[at])).round(6))
    table["new_score"] = pa.array((sign * item_means(new[at])).round(6))
    for name in column_names(pair):
        if name in table:
            continue
        column = arrow_column(pair, name, at)
        if not holds_bytes(column.type):
            table[name] = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
    return pa.table(table), left_out


def _largest(rows: np.ndarray, old: np.ndarray, new: np.ndarray, most: int) -> np.ndarray:
    """At most `most` of the rows, those that moved furthest first."""
    size = np.abs(item_means(new[rows]) - item_means(old[rows]))
    if len(rows) > most:  # the smallest size that still has a place; ties go to the first rows
        least = -np.partition(-size, most - 1)[most - 1] if most else np.inf
        kept = np.flatnonzero(size >= least)
        rows, size = rows[kept], size[kept]
    return rows[np.argsort(-size, kind="stable")][:most]


def _texts(pair: TaskPair, at: np.ndarray) -> dict[str, pa.ChunkedArray]:
    """What was asked and answered; of repeated runs the first one's answer."""
    sources = {
        "label": (pair.old, pair.old_at, pair.old.table.labels),
        "text": (pair.old, pair.old_at, pair.old.table.texts),
        "old_answer": (pair.old, pair.old_at, pair.old.table.predictions),
        "new_answer": (pair.new, pair.new_at, pair.new.table.predictions),
    }
    if pair.old.table.labels is None:
        sources["label"] = (pair.new, pair.new_at, pair.new.table.labels)
    if pair.old.table.texts is None or pair.changed_prompts:
        name = "new_text" if pair.changed_prompts else "text"
        sources[name] = (pair.new, pair.new_at, pair.new.table.texts)
    return {
        name: column.take(pa.array(items.first[places][at]))
        for name, (items, places, column) in sources.items()
        if column is not None
    }
