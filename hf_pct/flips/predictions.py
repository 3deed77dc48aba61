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

from ..files import write_whole
from ..labels import check_label_names
from .encoding import encode_labels, logits_array, logits_column
from .errors import first_five

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
    settings: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Provenance":
        known = {name: values[name] for name in cls.__dataclass_fields__ if name in values}
        return cls(**known)


class Predictions:
    """One model's answers to the rows of a dataset. Rows keep the order in which they were given."""

    def __init__(
        self,
        ids: Any,
        labels: Any,
        predictions: Any = None,
        *,
        logits: Any = None,
        label_names: Sequence[str] | None = None,
        columns: Mapping[str, Any] | None = None,
        provenance: Provenance | None = None,
    ) -> None:
        """
        Args:
            ids: one id a row, text or integers; rows of two models are joined by it.
            labels: the right answers, as class names, or as indices into `label_names`.
            predictions: the model's answers, likewise; the argmax of `logits` when left out.
            logits: the model's outputs, one row a sample, one column a class in the order of `label_names`.
            label_names: the model's classes. When they are not known, the classes that occur are taken.
            columns: further columns by name, one entry a row.
            provenance: where this comes from.
        """
        self.provenance = provenance or Provenance()
        self.path: Path | None = None  # the file it was loaded from
        self.label_names = None if label_names is None else check_label_names(label_names, "label_names")
        self.ids = _as_ids(ids)
        self.logits = None if logits is None else logits_array(logits, len(self.ids), self.label_names)
        if self.logits is not None and self.label_names is None:
            raise ValueError(
                f"There are logits with {self.logits.shape[1]} columns but no label names to say which class each "
                "column is. Pass label_names, the model's classes in order."
            )
        if predictions is None:
            if self.logits is None:
                raise ValueError("Neither predictions nor logits were given; one of them is needed.")
            predictions = self.logits.argmax(-1)
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
        self.label_codes = encode_labels(labels, vocabulary, self.label_names, "label")
        self.vocabulary = tuple(vocabulary)
        self.columns = {
            name: pa.chunked_array([column]) if isinstance(column, pa.Array) else column
            for name, column in _as_columns(columns or {}).items()
        }
        self._check_lengths()

    def _check_lengths(self) -> None:
        lengths = {"id": len(self.ids), "label": len(self.label_codes), "prediction": len(self.prediction_codes)}
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
        if self.logits is not None:
            logits = self.logits[rows].astype(np.float64)
            exponentials = np.exp(logits - logits.max(-1, keepdims=True))
            answers = self.prediction_codes[rows]
            return exponentials[np.arange(len(logits)), answers] / exponentials.sum(-1)
        if "confidence" in self.columns:
            return self.columns["confidence"].to_numpy()[rows].astype(np.float64)
        return None

    def duplicate_ids(self) -> list[Any]:
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
        if self.logits is not None:
            table["logits"] = logits_column(self.logits)
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
            pq.write_table(self.to_arrow(), partial, compression="zstd")
        return Path(path)

    @classmethod
    def load(cls, path: str | os.PathLike, label_names: Sequence[str] | None = None) -> "Predictions":
        """Read a parquet, JSONL or CSV file with the columns `id`, `label` and `prediction` (or `logits`).

        `label_names` are needed only where the file does not say which classes the model has.
        """
        from .prediction_files import read_predictions

        return read_predictions(Path(path), label_names)


def _as_ids(ids: Any) -> pa.Array:
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
    if pa.types.is_integer(array.type):
        return array.cast(pa.int64())
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        return array
    if pa.types.is_null(array.type):
        return array.cast(pa.string())
    raise ValueError(f"The ids are of type {array.type}, expected text or integers.")


def _as_columns(columns: Mapping[str, Any]) -> dict[str, pa.Array | pa.ChunkedArray]:
    reserved = sorted(set(columns) & set(RESERVED))
    if reserved:
        raise ValueError(f"Further columns cannot be named {', '.join(reserved)}: those names have a meaning already.")
    arrow = (pa.Array, pa.ChunkedArray)
    return {name: column if isinstance(column, arrow) else pa.array(column) for name, column in columns.items()}
