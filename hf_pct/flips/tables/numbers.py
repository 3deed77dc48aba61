"""Columns of numbers, whatever they came in as: scores as float64, run numbers as integers."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...core.errors import first_five


def score_column(values: object, name: str, ids: pa.Array) -> np.ndarray:
    """Scores as float64; None becomes NaN (not scored). NaN, infinity and text are refused, with the rows' ids."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiub" and values.ndim == 1:
        numbers, scored = values.astype(np.float64, copy=False), np.ones(len(values), bool)
    else:
        column = _arrow(values, name)
        scored = pc.is_valid(column).to_numpy()
        numbers = _cast(column, name, ids).to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
    broken = scored & ~np.isfinite(numbers)
    if broken.any():
        rows = np.flatnonzero(broken)
        raise ValueError(
            f"The score {name} is NaN or infinite in {len(rows)} of {len(numbers)} rows (ids {_ids(ids, rows)}), "
            "expected a number. Score these rows again, or leave them out of the file (then they count as missing)."
        )
    return numbers


def whole_numbers(values: object, name: str) -> np.ndarray:
    """A column of whole numbers, without a gap."""
    column = _arrow(values, name)
    if column.null_count:
        raise ValueError(f"{column.null_count} of {len(column)} rows have no {name}, expected a whole number.")
    try:
        return column.cast(pa.int64()).to_numpy()
    except pa.ArrowInvalid as error:
        raise ValueError(f"The column {name} is of type {column.type}, expected whole numbers: {error}") from error


def _arrow(values: Any, name: str) -> pa.ChunkedArray:
    if isinstance(values, pa.ChunkedArray):
        return values
    try:
        return pa.chunked_array([values if isinstance(values, pa.Array) else pa.array(values)])
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        mixed = [value for value in values if value is not None and not isinstance(value, (int, float))]
        raise ValueError(f"The column {name} holds {first_five(mixed)}, expected numbers.") from None
    except OverflowError:
        raise ValueError(f"The column {name} holds whole numbers of more than 64 bits.") from None


def _cast(column: pa.ChunkedArray, name: str, ids: pa.Array) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_nested(kind):
        raise ValueError(f"The score {name} is of type {kind}, expected one number per row.")
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
    try:
        return column.cast(pa.float64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        rows = np.array([row for row, value in enumerate(column.to_pylist()) if not _is_number(value)])
        values = [column[int(row)].as_py() for row in rows[:6]]
        raise ValueError(
            f"The score {name} holds text in {len(rows)} of {len(column)} rows (ids {_ids(ids, rows)}): "
            f"{first_five(values)}, expected numbers."
        ) from None


def _is_number(value: object) -> bool:
    try:
        float(str(value))
    except ValueError:
        return value is None
    return True


def _ids(ids: pa.Array, rows: np.ndarray) -> str:
    return first_five(ids.take(pa.array(rows[:6])).to_pylist())
