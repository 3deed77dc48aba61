"""Embeddings: rows with an id, a label and a vector, from predictions that keep features or from plain arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ...core.errors import NotComparableError, first_five
from ..tables.predictions import Predictions

FEATURES = "features"
"""The column that `predict(..., features=True)` writes."""


@dataclass(frozen=True)
class Embeddings:
    """What a search knows of its rows; ids are compared as text."""

    ids: np.ndarray
    labels: np.ndarray
    vectors: np.ndarray
    name: str = "these rows"

    @classmethod
    def of(cls, rows: Predictions | Embeddings, name: str) -> Embeddings:
        """From a table of predictions with a column `features`, or embeddings as they are, under this name."""
        if isinstance(rows, Embeddings):
            return cls.from_arrays(rows.ids, rows.labels, rows.vectors, name)
        if FEATURES not in rows.columns:
            raise ValueError(
                f"{name} has no column {FEATURES!r}, only {first_five(rows.columns)}. Predict it again with "
                "features=True (hf-pct predict --features)."
            )
        return cls.from_arrays(rows.ids.to_pylist(), rows.labels, _vectors(rows.columns[FEATURES], name), name)

    @classmethod
    def from_arrays(
        cls, ids: Sequence[object] | np.ndarray, labels: Sequence[object] | np.ndarray, vectors: np.ndarray, name: str
    ) -> Embeddings:
        """From plain arrays, one entry per row."""
        texts = np.array([str(value) for value in ids], dtype=str)
        classes = np.array([str(value) for value in labels], dtype=str)
        numbers = np.asarray(vectors, dtype=np.float32)
        problems = []
        if numbers.ndim != 2 or not numbers.size:
            problems.append(f"its vectors have the shape {numbers.shape}, expected [rows, width]")
        elif not len(texts) == len(classes) == len(numbers):
            problems.append(f"it has {len(texts)} ids, {len(classes)} labels and {len(numbers)} vectors")
        elif not np.isfinite(numbers).all():
            problems.append(f"{int((~np.isfinite(numbers)).any(1).sum())} of its vectors hold NaN or infinity")
        if len(np.unique(texts)) < len(texts):
            values, counts = np.unique(texts, return_counts=True)
            problems.append(f"these ids occur more than once: {first_five(values[counts > 1].tolist())}")
        if problems:
            raise ValueError(f"{name} cannot be searched: {'; '.join(problems)}.")
        return cls(texts, classes, numbers, name)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def width(self) -> int:
        return self.vectors.shape[1]

    def in_order_of(self, other: Embeddings) -> Embeddings:
        """The same rows in another table's order; refused when ids or labels differ."""
        order, wanted = np.argsort(self.ids), np.argsort(other.ids)
        if len(self) != len(other) or (self.ids[order] != other.ids[wanted]).any():
            differing = np.setxor1d(self.ids, other.ids)
            raise NotComparableError(
                f"{self.name} and {other.name} are not the same rows: {len(differing)} ids are in one of them only, "
                f"such as {first_five(differing[:6].tolist())}. Both versions must embed the same rows."
            )
        places = np.empty(len(self), dtype=np.int64)
        places[wanted] = order
        relabelled = self.labels[places] != other.labels
        if relabelled.any():
            raise NotComparableError(
                f"{self.name} and {other.name} give {int(relabelled.sum())} rows different labels, such as "
                f"{first_five(other.ids[relabelled][:6].tolist())}."
            )
        return Embeddings(other.ids, other.labels, self.vectors[places], self.name)

    def mapped(self, matrix: np.ndarray, width: int) -> Embeddings:
        """The vectors through a matrix [width, own width]; refused when it has another shape."""
        if matrix.shape != (width, self.width):
            raise NotComparableError(
                f"The map of features has the shape {matrix.shape}, expected ({width}, {self.width}): {self.name} "
                "to the old gallery. Take the map that was trained with this new model against this old one."
            )
        return Embeddings(self.ids, self.labels, self.vectors @ matrix.T.astype(np.float32), self.name)

    def fitted_to(self, width: int) -> np.ndarray:
        """The vectors cut to a width, or filled up with zeros, as backward-compatible training does it."""
        if self.width >= width:
            return self.vectors[:, :width]
        return np.pad(self.vectors, ((0, 0), (0, width - self.width)))


def _vectors(column: pa.ChunkedArray, name: str) -> np.ndarray:
    values = column.combine_chunks()
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks)
    lengths = {len(row) if row is not None else 0 for row in values} if not _fixed(values) else {values.type.list_size}
    if len(lengths) != 1 or values.null_count:
        raise ValueError(f"{name} has features of different widths ({sorted(lengths)[:5]}), expected one width.")
    return np.asarray(values.flatten(), dtype=np.float32).reshape(len(values), -1)


def _fixed(values: pa.Array) -> bool:
    return pa.types.is_fixed_size_list(values.type)
