"""Two tables of scores side by side, task by task: items joined by id, runs of an item in columns.

What cannot be compared stops here: tasks or items that one side lacks, an id that stands on several rows without a run
number, a right answer that changed. A prompt that changed is counted and reported.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...core.errors import NotComparableError, first_five
from ..pairing import Coverage, unmatched_message
from ..tables.metric import Metric
from ..tables.scores import Scores

Rows = np.ndarray | slice


@dataclass(frozen=True)
class Items:
    """The items of one task in one table: their ids, the row of each one's first run, and all runs in columns."""

    table: Scores
    ids: pa.Array
    first: np.ndarray
    runs: np.ndarray  # rows of the table, one line per item and one column per run; -1 where a run was not made

    def scores(self, metric: str, at: Rows) -> np.ndarray:
        """The scores of these items, NaN where a run was not made."""
        rows = self.runs[at]
        if rows.shape[1] == 1:
            return self.table.scores[metric][rows]
        return np.where(rows < 0, np.nan, self.table.scores[metric][rows])

    def texts(self, column: pa.ChunkedArray | None, at: Rows) -> pa.ChunkedArray | None:
        """A column of the table at the first run of these items."""
        if column is None or (isinstance(at, slice) and len(self.first) == len(column) and self.in_order):
            return column
        return column.take(pa.array(self.first[at]))

    @property
    def in_order(self) -> bool:
        return bool((self.first == np.arange(len(self.first))).all())


@dataclass(frozen=True)
class TaskPair:
    """The items of one task that both tables have, in the old one's order."""

    task: str
    metric: Metric
    old: Items
    new: Items
    old_at: Rows
    new_at: Rows
    coverage: Coverage
    changed_prompts: int

    @property
    def ids(self) -> pa.Array:
        return self.old.ids if isinstance(self.old_at, slice) else self.old.ids.take(pa.array(self.old_at))

    def oriented(self) -> tuple[np.ndarray, np.ndarray]:
        """Old and new scores with more being better, one line per item and one column per run."""
        old, new = self.old.scores(self.metric.name, self.old_at), self.new.scores(self.metric.name, self.new_at)
        return (old, new) if self.metric.higher_is_better else (-old, -new)

    def answers(self) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Codes of the two sides' answers that are equal where the answers are; None when one side has none."""
        old, new = self.old.table.predictions, self.new.table.predictions
        if old is None or new is None:
            return None, None
        if self.old.runs.shape[1] == self.new.runs.shape[1] == 1:  # only whether they differ is asked
            differ = _answers_differ(self.old.texts(old, self.old_at), self.new.texts(new, self.new_at))
            return np.zeros((len(differ), 1), bool), differ[:, None]
        together = pc.utf8_trim_whitespace(pa.chunked_array([*old.chunks, *new.chunks]))
        together = pc.dictionary_encode(together).unify_dictionaries()
        codes = together.combine_chunks().indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return codes[: len(old)][self.old.runs[self.old_at]], codes[len(old) :][self.new.runs[self.new_at]]


def _differ(old: pa.ChunkedArray, new: pa.ChunkedArray) -> np.ndarray:
    """Where two columns of text differ; a missing text differs from any other."""
    apart = pc.fill_null(pc.not_equal(old, new), False)
    lone = pc.xor(pc.is_null(old), pc.is_null(new))
    return pc.or_(apart, lone).to_numpy()


def _answers_differ(old: pa.ChunkedArray, new: pa.ChunkedArray) -> np.ndarray:
    """The same for answers, of which spaces around them are no part: tools add and drop one before a choice."""
    differ = _differ(old, new)
    rows = np.flatnonzero(differ)
    if len(rows):
        differ = differ.copy()
        differ[rows] = _differ(*(pc.utf8_trim_whitespace(side.take(pa.array(rows))) for side in (old, new)))
    return differ


def task_items(table: Scores, task: str, side: str) -> Items:
    """The items of a task; an id on several rows needs a run number on each."""
    if len(table.task_names) == 1:
        rows, ids = np.arange(len(table)), table.ids
    else:
        rows = np.flatnonzero(table.task_codes == table.task_names.index(task))
        ids = table.ids.take(pa.array(rows))
    if table.repeats is None:
        _check_unique(ids, task, side)
        return Items(table, ids, rows, rows[:, None])
    encoded = pc.dictionary_encode(ids)
    codes, repeats = encoded.indices.to_numpy(zero_copy_only=False), table.repeats[rows]
    order = np.lexsort((repeats, codes))
    codes, repeats = codes[order], repeats[order]
    doubled = (codes[1:] == codes[:-1]) & (repeats[1:] == repeats[:-1])
    if doubled.any():
        examples = encoded.dictionary.take(pa.array(codes[1:][doubled][:6])).to_pylist()
        raise NotComparableError(
            f"{int(doubled.sum())} runs of task {task} stand twice in the {side} scores (same id, same repeat): "
            f"{first_five(examples)}. Number the runs of each id."
        )
    starts = np.flatnonzero(np.r_[True, codes[1:] != codes[:-1]])
    place = np.arange(len(codes)) - np.repeat(starts, np.diff(np.r_[starts, len(codes)]))
    runs = np.full((len(starts), int(place.max()) + 1), -1)
    runs[codes, place] = rows[order]
    return Items(table, encoded.dictionary, runs[:, 0], runs)


def _check_unique(ids: pa.Array, task: str, side: str) -> None:
    if len(ids) < 2 or pc.all(pc.less(ids[:-1], ids[1:])).as_py() or pc.count_distinct(ids).as_py() == len(ids):
        return
    counted = pc.value_counts(ids)
    repeated = pc.filter(counted.field("values"), pc.greater(counted.field("counts"), 1)).to_pylist()
    raise NotComparableError(
        f"{len(repeated)} ids stand on more than one row of task {task} in the {side} scores: {first_five(repeated)}. "
        "If these are runs of the same item, name the column that numbers them: repeat (--columns repeat=COLUMN); "
        "otherwise make each id unique."
    )


def pair_task(old: Scores, new: Scores, task: str, metric: Metric, allow_partial: bool) -> TaskPair:
    """The items of one task in both tables."""
    one, two = task_items(old, task, "old"), task_items(new, task, "new")
    old_at, new_at, coverage = _join(one.ids, two.ids, task, allow_partial)
    pair = TaskPair(task, metric, one, two, old_at, new_at, coverage, 0)
    _check_labels(pair)
    prompts = one.texts(old.texts, old_at), two.texts(new.texts, new_at)
    changed = 0 if prompts[0] is None or prompts[1] is None else int(_differ(*prompts).sum())
    return TaskPair(task, metric, one, two, old_at, new_at, coverage, changed)


def _join(old_ids: pa.Array, new_ids: pa.Array, task: str, allow_partial: bool) -> tuple[Rows, Rows, Coverage]:
    if old_ids.type != new_ids.type:  # one file has 7 and the other '7'
        old_ids, new_ids = old_ids.cast(pa.string()), new_ids.cast(pa.string())
    if old_ids.equals(new_ids):
        return slice(None), slice(None), Coverage(len(old_ids), 0, 0)
    matches = pc.index_in(old_ids, value_set=new_ids)
    matched = pc.is_valid(matches).to_numpy(zero_copy_only=False)
    new_rows = matches.drop_null().to_numpy(zero_copy_only=False)
    only_new = np.ones(len(new_ids), bool)
    only_new[new_rows] = False
    coverage = Coverage(len(new_rows), int((~matched).sum()), int(only_new.sum()))
    if coverage.partial and not (allow_partial and len(new_rows)):
        message = unmatched_message(old_ids, new_ids, ~matched, only_new, len(new_rows))
        raise NotComparableError(f"Task {task}: {message}")
    return np.flatnonzero(matched), new_rows, coverage


def _check_labels(pair: TaskPair) -> None:
    old, new = pair.old.table.labels, pair.new.table.labels
    if old is None or new is None:
        return
    before, after = pair.old.texts(old, pair.old_at), pair.new.texts(new, pair.new_at)
    differ = np.flatnonzero(_answers_differ(before, after))
    if len(differ):
        ids = pair.ids
        examples = [
            f"{ids[row].as_py()!r} (old: {before[row].as_py()!r}, new: {after[row].as_py()!r})"  # type: ignore[index]
            for row in differ[:3].tolist()
        ]
        raise NotComparableError(
            f"Task {pair.task}: the right answer of {len(differ)} of {len(ids)} items changed: {', '.join(examples)}"
            f"{', ...' if len(differ) > 3 else ''}. Score both versions against the same answers."
        )
