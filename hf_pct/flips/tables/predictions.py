"""Predictions: what one model answered to each row of a dataset, as a file.

Comparing, gating and writing a card need neither a GPU nor the model, only two of these. A row has an `id`, the right
`label`, the model's `prediction`, if wanted its `logits`, and any further columns: slices (`channel`, `locale`), the
text itself, a `confidence`. Labels are kept by name, because indices mean nothing across two models.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ...core.decode import JsonObject
from ...core.errors import first_five
from ...core.files import write_whole
from ...core.labels import check_label_names
from .encoding import encode_labels, logits_array, logits_column
from .logits import FileColumns, FileLogits, Logits, answers_and_confidence, softmax_at
from .plain_columns import without_views

FORMAT_VERSION = 1
METADATA_KEY = b"hf_pct"
RESERVED = ("id", "label", "prediction", "logits")


@dataclass(frozen=True)
class Provenance:
    """Which model answered, on which data, under which versions. Nothing here is needed to compare; all of it to
    trust.

    `weights` and `fingerprint` are content hashes of the model's weights and of the dataset's ids, inputs and labels.
    """

    model: str | None = None
    revision: str | None = None
    weights: str | None = None
    dataset: str | None = None
    split: str | None = None
    fingerprint: str | None = None
    created: str | None = None
    versions: dict[str, str] = field(default_factory=dict)
    settings: JsonObject = field(default_factory=dict)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Provenance":
        known = {name: values[name] for name in cls.__dataclass_fields__ if name in values}
        return cls(**known)


class Predictions:
    """One model's answers to the rows of a dataset. Rows keep the order in which they were given.

    Example:
        >>> from hf_pct import Predictions
        >>> logits = [[0.1, 2.0], [0.3, 0.9]]
        >>> table = Predictions(ids=["a", "b"], labels=["yes", "no"], logits=logits, label_names=["no", "yes"])
        >>> table.accuracy, table.to_arrow()["prediction"].to_pylist()
        (0.5, ['yes', 'yes'])
    """

    def __init__(
        self,
        ids: object,
        labels: object,
        predictions: object = None,
        *,
        logits: object = None,
        label_names: Sequence[str] | None = None,
        columns: Mapping[str, object] | None = None,
        provenance: Provenance | None = None,
    ) -> None:
        """
        Args:
            ids: one id a row, text or integers; rows of two models are joined by it.
            labels: the right answers, as class names, or as indices into `label_names`.
            predictions: the model's answers, likewise; the argmax of `logits` when left out.
            logits: the model's outputs, one row per sample, one column per class in the order of `label_names`.
            label_names: the model's classes. When they are not known, the classes that occur are taken.
            columns: further columns by name, one entry a row.
            provenance: where this comes from.
        """
        self.provenance = provenance or Provenance()
        self.path: Path | None = None  # the file it was loaded from
        self.label_names = None if label_names is None else check_label_names(label_names, "label_names")
        self.ids = as_ids(ids)
        self.logit_source: Logits | None = logits if isinstance(logits, FileLogits) else None
        if logits is not None and self.logit_source is None:
            self.logit_source = logits_array(logits, len(self.ids), self.label_names)
        if self.logit_source is not None and self.label_names is None:
            raise ValueError(
                f"There are logits with {self._width} columns but no label names to say which class each "
                "column is. Pass label_names, the model's classes in order."
            )
        if predictions is None and self.logit_source is None:
            raise ValueError("Neither predictions nor logits were given; one of them is needed.")
        if isinstance(self.logit_source, np.ndarray) and predictions is None:
            predictions = self.logit_source.argmax(-1)
        self._confidence: np.ndarray | None = None
        if isinstance(self.logit_source, FileLogits) and predictions is None:
            predictions, self._confidence = answers_and_confidence(self.logit_source, None)
        # All names that occur, by code: the model's classes first, then labels of the data that the model lacks.
        vocabulary = {name: code for code, name in enumerate(self.label_names or ())}
        self.prediction_codes = encode_labels(predictions, vocabulary, self.label_names, "prediction")
        if self.label_names is not None and len(vocabulary) > len(self.label_names):
            unknown = list(vocabulary)[len(self.label_names) :]
            raise ValueError(
                f"{len(unknown)} predicted classes are not among the model's {len(self.label_names)} label names: "
                f"{first_five(unknown)}. Expected: {first_five(self.label_names)}. Pass the label names of the model "
                "that made these predictions."
            )
        if isinstance(self.logit_source, FileLogits) and self._confidence is None:
            _, self._confidence = answers_and_confidence(self.logit_source, self.prediction_codes)
        self.label_codes = encode_labels(labels, vocabulary, self.label_names, "label")
        self.vocabulary = tuple(vocabulary)
        self.columns: Mapping[str, pa.ChunkedArray] = (
            columns
            if isinstance(columns, FileColumns)
            else {
                name: pa.chunked_array([column]) if isinstance(column, pa.Array) else column
                for name, column in _as_columns(columns or {}).items()
            }
        )
        self._check_lengths()

    @property
    def logits(self) -> np.ndarray | None:
        """The model's outputs, all of them in memory; `logit_source` has them where they are."""
        return self.logit_source.whole() if isinstance(self.logit_source, FileLogits) else self.logit_source

    @property
    def _width(self) -> int:
        source = self.logit_source
        return source.width if isinstance(source, FileLogits) else 0 if source is None else source.shape[1]

    def _check_lengths(self) -> None:
        lengths = {"id": len(self.ids), "label": len(self.label_codes), "prediction": len(self.prediction_codes)}
        if isinstance(self.columns, FileColumns):
            lengths["further columns"] = self.columns.rows
        else:
            lengths |= {name: len(column) for name, column in self.columns.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"Every column must have one entry per row, but the lengths differ: {lengths}.")
        if not len(self):
            raise ValueError("There are no rows. Expected at least one prediction.")
        if self.ids.null_count:
            missing = self.ids.null_count
            raise ValueError(
                f"{missing} of {len(self)} rows have no id. Rows are joined by id; give each row its own."
            )

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        classes = "unknown" if self.label_names is None else len(self.label_names)
        model = self.provenance.model or "unknown model"
        return f"Predictions({len(self)} rows of {model}, classes: {classes}, accuracy {self.accuracy:.4f})"

    @property
    def labels(self) -> np.ndarray:
        """The right answers by name."""
        return np.array(self.vocabulary)[self.label_codes]

    @property
    def predictions(self) -> np.ndarray:
        """The model's answers by name."""
        return np.array(self.vocabulary)[self.prediction_codes]

    @property
    def accuracy(self) -> float:
        return float(np.mean(self.label_codes == self.prediction_codes))

    def confidence(self, rows: np.ndarray | slice = slice(None)) -> np.ndarray | None:
        """The model's probability of its own answer on these rows: from the logits, or from a column `confidence`."""
        if self._confidence is not None:
            return self._confidence[rows]
        if isinstance(self.logit_source, np.ndarray):
            return softmax_at(self.logit_source[rows], self.prediction_codes[rows])
        if "confidence" in self.columns:
            return self.columns["confidence"].to_numpy()[rows].astype(np.float64)
        return None

    def duplicate_ids(self) -> list[object]:
        """The ids that stand on more than one row. Sorted ids, the common case, are checked without hashing them."""
        if len(self) < 2 or pc.all(pc.less(self.ids[:-1], self.ids[1:])).as_py():
            return []
        if pc.count_distinct(self.ids).as_py() == len(self):
            return []
        counted = pc.value_counts(self.ids)
        repeated = pc.filter(counted.field("values"), pc.greater(counted.field("counts"), 1))
        return repeated.to_pylist()

    def to_arrow(self) -> pa.Table:
        """The table that `save` writes, with the metadata in its schema."""
        names = pa.array(self.vocabulary, pa.string())
        table = {
            "id": self.ids,
            "label": pa.DictionaryArray.from_arrays(pa.array(self.label_codes), names),
            "prediction": pa.DictionaryArray.from_arrays(pa.array(self.prediction_codes), names),
        }
        logits = self.logits
        if logits is not None:
            table["logits"] = logits_column(logits)
        metadata = {
            "format_version": FORMAT_VERSION,
            "label_names": self.label_names,
            "provenance": asdict(self.provenance),
        }
        return pa.table({**table, **self.columns}).replace_schema_metadata({METADATA_KEY: json.dumps(metadata)})

    def save(self, path: str | os.PathLike, overwrite: bool = False) -> Path:
        """Write a parquet file, whole or not at all. An existing file is kept unless `overwrite` is set."""
        if Path(path).suffix != ".parquet":
            raise ValueError(f"{path} does not end in .parquet, the one format that keeps logits and metadata.")
        with write_whole(path, overwrite) as partial:
            group = min(1 << 20, max(1 << 12, (1 << 26) // (4 * max(self._width, 1))))  # 64 MB of logits each
            table = self.to_arrow()
            pq.write_table(table, partial, compression="zstd", write_page_checksum=True, row_group_size=group)
        return Path(path)

    @classmethod
    def load(cls, path: str | os.PathLike, label_names: Sequence[str] | None = None) -> "Predictions":
        """Read a parquet, JSONL or CSV file with the columns `id`, `label` and `prediction` (or `logits`).

        `label_names` are needed only where the file does not say which classes the model has.
        """
        from .readers import read_predictions

        return read_predictions(Path(path), label_names)


def as_ids(ids: object) -> pa.Array:
    """Ids as one Arrow array of text or of whole numbers."""
    if isinstance(ids, pa.ChunkedArray):
        array = ids.combine_chunks()
    else:
        try:
            array = ids if isinstance(ids, pa.Array) else pa.array(ids)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise ValueError(
                f"The ids are not all of one kind, expected only text or only integers: {error}"
            ) from error
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    array = without_views(array)
    if pa.types.is_integer(array.type):
        return array.cast(pa.int64())
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        return array
    if pa.types.is_null(array.type):
        return array.cast(pa.string())
    raise ValueError(f"The ids are of type {array.type}, expected text or integers.")


def _as_columns(columns: Mapping[str, object]) -> dict[str, pa.Array | pa.ChunkedArray]:
    reserved = sorted(set(columns) & set(RESERVED))
    if reserved:
        raise ValueError(f"Further columns cannot be named {', '.join(reserved)}: those names have a meaning already.")
    arrow = (pa.Array, pa.ChunkedArray)
    arrays = {name: column if isinstance(column, arrow) else pa.array(column) for name, column in columns.items()}
    return {name: without_views(column) for name, column in arrays.items()}
