"""Columns of a prediction table: labels by name as integer codes, logits as one matrix."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...core.errors import first_five
from ...core.labels import code_table, recode
from .columns import label_column
from .plain_columns import without_views

CLASS_INDEX = re.compile(r"(?:LABEL_)?(\d+)(?:\.0)?")  # 2; 2.0, as pandas may write it; transformers' LABEL_2


def encode_labels(
    column: object, vocabulary: dict[str, int], label_names: Sequence[str] | None, what: str
) -> np.ndarray:
    """One code a row into `vocabulary`, which grows by names that it lacks. Only the distinct values are looked at.

    Integers are indices into `label_names`; without names they are taken as the names themselves.
    """
    encoded = _dictionary_encode(column, what)
    if encoded.null_count:
        raise ValueError(f"{encoded.null_count} of {len(encoded)} rows have no {what}. Every row needs one.")
    # a table that was saved lists every class for both columns; only those that some row has are names of this one
    used = np.sort(pc.unique(encoded.indices).to_numpy(zero_copy_only=False))
    names = _names(encoded.dictionary.take(pa.array(used)), label_names, what)
    _check_not_empty(names, used, encoded.indices, what)
    codes = np.zeros(len(encoded.dictionary), dtype=np.int32)
    codes[used] = code_table(names, vocabulary)
    return recode(encoded.indices.to_numpy(zero_copy_only=False), codes).astype(np.int32, copy=False)


def _check_not_empty(names: Sequence[str], codes: np.ndarray, indices: pa.Array, what: str) -> None:
    """An empty cell is a missing value, in every format: CSV has no other way to say it."""
    empty = [code for code, name in zip(codes.tolist(), names, strict=True) if not is_seen(name)]
    if empty:
        rows = int(pc.sum(pc.is_in(indices, value_set=pa.array(empty, indices.type))).as_py())
        raise ValueError(f"{rows} of {len(indices)} rows have an empty {what}. Every row needs one.")


def is_seen(name: str) -> bool:
    """Whether there is anything in a name that a person could see."""
    return any(char.isprintable() and not char.isspace() for char in name)


def _dictionary_encode(column: Any, what: str) -> pa.DictionaryArray:
    if not isinstance(column, (pa.Array, pa.ChunkedArray)):
        column = pa.array(label_column(column, what))
    column = without_views(column)
    if pa.types.is_nested(column.type):
        raise ValueError(f"The column {what} is of type {column.type}, expected one class name or index in every row.")
    if not pa.types.is_dictionary(column.type):
        column = pc.dictionary_encode(column)
    if isinstance(column, pa.ChunkedArray):
        column = column.unify_dictionaries().combine_chunks()
    return column


def _names(values: pa.Array, label_names: Sequence[str] | None, what: str) -> list[str]:
    """The distinct values of a column as class names."""
    distinct = values.to_pylist()
    if pa.types.is_floating(values.type) and all(float(value).is_integer() for value in distinct):
        distinct = [int(value) for value in distinct]
    if all(isinstance(value, str) for value in distinct):
        indices = [match for value in distinct if (match := CLASS_INDEX.fullmatch(value))]
        if not label_names or set(distinct) & set(label_names) or len(indices) < len(distinct):
            return distinct
        distinct = [int(match[1]) for match in indices]  # a CSV file has only text: these are indices
    if not all(isinstance(value, int) for value in distinct):
        raise ValueError(
            f"The column {what} is of type {values.type}, expected class names or class indices, got for example "
            f"{first_five(distinct)}."
        )
    if label_names is None:
        return [str(int(value)) for value in distinct]
    outside = sorted(value for value in distinct if not 0 <= value < len(label_names))
    if outside:
        raise ValueError(
            f"The column {what} holds indices without a label name: {first_five(outside)}; there are "
            f"{len(label_names)} names, so expected 0 to {len(label_names) - 1}."
        )
    return [label_names[value] for value in distinct]


def logits_array(logits: object, rows: int, label_names: Sequence[str] | None) -> np.ndarray:
    """Logits as a float32 matrix; refused when they are ragged, of the wrong width, or not numbers."""
    if isinstance(logits, (pa.Array, pa.ChunkedArray)):
        matrix = _from_arrow(logits)
    else:
        tensor = logits.detach().cpu() if hasattr(logits, "detach") else logits
        matrix = np.asarray(tensor, dtype=np.float32)
    width = "one column per class" if label_names is None else f"{len(label_names)} columns, one per label name"
    if matrix.ndim != 2 or len(matrix) != rows or (label_names is not None and matrix.shape[1] != len(label_names)):
        raise ValueError(f"The logits have shape {matrix.shape}, expected {rows} rows and {width}.")
    bad = np.isnan(matrix) | np.isposinf(matrix)
    if bad.any():
        broken = np.flatnonzero(bad.any(-1))
        raise ValueError(
            f"The logits of {len(broken)} of {rows} rows are NaN or infinite (first rows: "
            f"{first_five(broken.tolist())})."
            " The model that made them has diverged or overflowed; predict again in float32 or with other weights."
        )
    return matrix


def _from_arrow(column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if array.null_count:
        raise ValueError(f"{array.null_count} of {len(array)} rows have no logits. Give all rows logits, or none.")
    if not (
        pa.types.is_list(array.type) or pa.types.is_fixed_size_list(array.type) or pa.types.is_large_list(array.type)
    ):
        raise ValueError(f"The column logits is of type {array.type}, expected a list of numbers in every row.")
    widths = set() if not len(array) else set(pc.unique(pc.list_value_length(array)).to_pylist())
    if len(widths) > 1:
        raise ValueError(
            f"The logits have between {min(widths)} and {max(widths)} columns, expected the same in all rows."
        )
    flat = array.flatten().to_numpy(zero_copy_only=False).astype(np.float32, copy=False)
    return flat.reshape(len(array), -1)


def logits_column(logits: np.ndarray) -> pa.Array:
    """A logits matrix as an Arrow column of lists of fixed width."""
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(logits).ravel()), logits.shape[1])
