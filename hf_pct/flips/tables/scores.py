"""Scores: what one model version scored on each row, whatever tool and metric scored it.

A row has an `id`, one or more scores and, where they are known, the right `label`, the model's `prediction` (any
text), the `text` that it was asked, the `task` it belongs to and the `repeat` when it was asked several times. Further
columns are slices. Two of these tables are compared as two `Predictions` are.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ...core.errors import first_five
from ...core.files import write_whole
from .metric import Metric, named_metric
from .numbers import score_column, whole_numbers
from .plain_columns import without_views
from .predictions import METADATA_KEY, Predictions, Provenance, as_ids

if TYPE_CHECKING:
    from .readers.options import ReadOptions

KIND = "scores"
FORMAT_VERSION = 1
RESERVED = ("id", "task", "repeat", "label", "prediction", "text")
ONE_TASK = "all"


class Scores:
    """One model version's scores on the rows of one or several tasks. Rows keep the order in which they were given.

    Example:
        >>> from hf_pct import Scores
        >>> scores = Scores(ids=["q1", "q2"], scores={"exact_match": [1, 0], "f1": [1.0, 0.4]}, tasks=["qa", "qa"])
        >>> len(scores), scores.default_metric
        (2, None)
    """

    def __init__(
        self,
        ids: object,
        scores: object,
        *,
        labels: object = None,
        predictions: object = None,
        texts: object = None,
        tasks: object = None,
        repeats: object = None,
        metrics: Sequence[Metric] = (),
        default_metric: str | None = None,
        columns: Mapping[str, object] | None = None,
        provenance: Provenance | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        """
        Args:
            ids: one id per row, text or integers; unique within a task, unless there are `repeats`.
            scores: numbers per row, or a mapping from the name of each metric to its numbers. Rows of a task that a
                metric does not score are None; NaN is refused.
            labels: the right answers, as text or numbers.
            predictions: the model's answers, likewise; with them, changed answers that are still right are counted.
            texts: what the model was asked.
            tasks: the name of each row's task.
            repeats: the number of the run, when every id was asked several times.
            metrics: the direction of metrics whose name does not say it.
            default_metric: the metric to compare by when nobody names one.
            columns: further columns by name: slices, clusters.
            provenance: where this comes from.
            notes: what a reader of the scores must know, for the report.
        """
        self.ids = as_ids(ids)
        self.provenance = provenance or Provenance()
        self.path: Path | None = None
        self.notes = tuple(notes)
        named = scores if isinstance(scores, Mapping) else {"score": scores}
        if not named:
            raise ValueError("There are no scores. Expected at least one column of numbers.")
        self.scores = {name: score_column(values, name, self.ids) for name, values in named.items()}
        directions = {metric.name: metric for metric in metrics}
        self.metrics = {name: directions.get(name) or named_metric(name) for name in self.scores}
        self.default_metric = default_metric if default_metric is not None else _only(self.metrics)
        self.labels, self.predictions, self.texts = (_texts(values) for values in (labels, predictions, texts))
        self.task_codes, self.task_names = _tasks(tasks, len(self.ids))
        self.repeats = None if repeats is None else whole_numbers(repeats, "repeat")
        self.columns = {name: _chunked(column) for name, column in (columns or {}).items()}
        self._check()

    def _check(self) -> None:
        parts: dict[str, Any] = {"label": self.labels, "prediction": self.predictions, "text": self.texts}
        parts |= {"task": self.task_codes, "repeat": self.repeats, **self.scores, **self.columns}
        lengths = {"id": len(self.ids)} | {name: len(part) for name, part in parts.items() if part is not None}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"Every column must have one entry per row, but the lengths differ: {lengths}.")
        if not len(self):
            raise ValueError("There are no rows. Expected at least one score.")
        if self.ids.null_count:
            raise ValueError(f"{self.ids.null_count} of {len(self)} rows have no id. Rows are joined by id.")
        doubled = sorted(({*self.scores} & {*self.columns}) | ({*self.scores, *self.columns} & {*RESERVED}))
        if doubled:
            raise ValueError(f"Scores and further columns cannot be named {', '.join(doubled)}: the name is taken.")
        if self.default_metric is not None and self.default_metric not in self.scores:
            raise ValueError(f"default_metric is {self.default_metric!r}, expected one of {', '.join(self.scores)}.")
        self._check_gaps()

    def _check_gaps(self) -> None:
        """A metric scores all rows of a task or none: a gap in between is a row that nobody may drop unseen."""
        problems = []
        for name, values in self.scores.items():
            missing = np.isnan(values)
            if not missing.any():
                continue
            rows = np.bincount(self.task_codes, minlength=len(self.task_names))
            gaps = np.bincount(self.task_codes[missing], minlength=len(self.task_names))
            problems += [
                f"{gaps[code]} of {rows[code]} rows of task {self.task_names[code]} have no {name}"
                for code in np.flatnonzero((gaps > 0) & (gaps < rows)).tolist()
            ]
        if problems:
            raise ValueError(
                f"Scores are missing: {'; '.join(problems)}. Score these rows, or leave them out of the file (then "
                "they are counted as missing)."
            )

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        tasks = f"{len(self.task_names)} task{'s' if len(self.task_names) > 1 else ''}"
        model = self.provenance.model or "unknown model"
        return f"Scores({len(self)} rows of {model}, {tasks}, metrics: {', '.join(self.scores)})"

    def metrics_of(self, task: str) -> list[str]:
        """The metrics that score this task."""
        first = int(np.argmax(self.task_codes == self.task_names.index(task)))
        return [name for name, values in self.scores.items() if not np.isnan(values[first])]

    def to_arrow(self) -> pa.Table:
        """The table that `save` writes, with the metadata in its schema."""
        table: dict[str, object] = {"id": self.ids}
        if self.task_names != (ONE_TASK,):
            table["task"] = pa.DictionaryArray.from_arrays(pa.array(self.task_codes), pa.array(self.task_names))
        if self.repeats is not None:
            table["repeat"] = self.repeats
        table |= {name: pa.array(values, from_pandas=True) for name, values in self.scores.items()}  # NaN is null
        texts = {"label": self.labels, "prediction": self.predictions, "text": self.texts}
        table |= {name: column for name, column in texts.items() if column is not None}
        metadata = {
            "kind": KIND,
            "format_version": FORMAT_VERSION,
            "metrics": [asdict(metric) for metric in self.metrics.values()],
            "default_metric": self.default_metric,
            "provenance": asdict(self.provenance),
            "notes": list(self.notes),
        }
        return pa.table({**table, **self.columns}).replace_schema_metadata({METADATA_KEY: json.dumps(metadata)})

    def save(self, path: str | os.PathLike, overwrite: bool = False) -> Path:
        """Write a parquet file, whole or not at all. An existing file is kept unless `overwrite` is set."""
        if Path(path).suffix != ".parquet":
            raise ValueError(f"{path} does not end in .parquet, the one format that keeps metrics and provenance.")
        with write_whole(path, overwrite) as partial:
            pq.write_table(self.to_arrow(), partial, compression="zstd")
        return Path(path)

    @classmethod
    def load(cls, path: str | os.PathLike, options: "ReadOptions | None" = None) -> "Scores":
        """Read scores from a file or folder of any known format; `options` name columns, metric, filter, provider."""
        from .readers import read_scores

        return read_scores(Path(path), options)

    @classmethod
    def from_predictions(cls, predictions: Predictions) -> "Scores":
        """A table of answers as scores: 1 where the answer is the label, 0 elsewhere."""
        right = predictions.prediction_codes == predictions.label_codes
        names = pa.array(predictions.vocabulary, pa.string())
        columns = dict(predictions.columns)
        texts = columns.pop("text", None)
        return cls(
            predictions.ids,
            {"exact_match": right.astype(np.float64)},
            labels=names.take(pa.array(predictions.label_codes)),
            predictions=names.take(pa.array(predictions.prediction_codes)),
            texts=texts,
            columns={name: column for name, column in columns.items() if name not in (*RESERVED, "exact_match")},
            provenance=predictions.provenance,
        )


def _only(metrics: Mapping[str, Metric]) -> str | None:
    return next(iter(metrics)) if len(metrics) == 1 else None


def _chunked(column: object) -> pa.ChunkedArray:
    if isinstance(column, pa.ChunkedArray):
        return without_views(column)
    return pa.chunked_array([without_views(column if isinstance(column, pa.Array) else pa.array(column))])


def _texts(values: Any) -> pa.ChunkedArray | None:
    """Labels, answers and prompts as text, whatever they came as; a column without any value is none."""
    if values is None:
        return None
    try:
        column = _chunked(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # numbers and text mixed
        column = _chunked([None if value is None else str(value) for value in values])
    if column.null_count == len(column):
        return None
    return column if pa.types.is_string(column.type) else column.cast(pa.string())


def _tasks(tasks: object, rows: int) -> tuple[np.ndarray, tuple[str, ...]]:
    """One code per row and the names of the tasks; a table without tasks has one."""
    if tasks is None:
        return np.zeros(rows, np.int32), (ONE_TASK,)
    column = _chunked(tasks)
    if not pa.types.is_dictionary(column.type):
        column = pc.dictionary_encode(column.cast(pa.string()))
    encoded = column.unify_dictionaries().combine_chunks()
    if encoded.null_count:
        raise ValueError(f"{encoded.null_count} of {rows} rows have no task. Name the task of every row, or of none.")
    names = encoded.dictionary.cast(pa.string()).to_pylist()
    if len(set(names)) < len(names):
        raise ValueError(f"Tasks are named twice: {first_five(names)}.")
    present = np.flatnonzero(np.bincount(encoded.indices.to_numpy(zero_copy_only=False), minlength=len(names)))
    places = np.zeros(len(names), np.int32)
    places[present] = np.arange(len(present))
    return places[encoded.indices.to_numpy(zero_copy_only=False)], tuple(names[code] for code in present.tolist())
