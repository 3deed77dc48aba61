"""Columns as JSON can hold them, and as slices: dates, times, decimals and durations become text."""

import math

import pyarrow as pa
import pyarrow.compute as pc

_types = pa.types


def without_views(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The column in a layout that every function of Arrow takes: few of them know text and bytes as views."""
    if _types.is_string_view(column.type):
        return column.cast(pa.large_string())
    return column.cast(pa.large_binary()) if _types.is_binary_view(column.type) else column


def is_timelike(kind: pa.DataType) -> bool:
    """Dates, times, durations and decimals, which JSON has no word for."""
    return bool(_types.is_temporal(kind) or _types.is_decimal(kind))


def plain_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column with dates, times, durations and decimals as ISO text and NaN as missing; others as they are."""
    if _types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if _types.is_floating(column.type):
        return pc.if_else(pc.is_finite(column), column, pa.scalar(None, column.type))
    if not is_timelike(column.type) and not _types.is_nested(column.type):
        return column
    values = [_plain_value(value) for value in column.to_pylist()]
    return pa.chunked_array([pa.array(values, None if _types.is_nested(column.type) else pa.string())])


def _plain_value(value: object) -> object:
    if isinstance(value, dict):
        return {name: _plain_value(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain_value(entry) for entry in value]
    if value is None or isinstance(value, (str, int, bool)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    if hasattr(value, "total_seconds"):
        return f"PT{value.total_seconds():.9f}".rstrip("0").rstrip(".") + "S"
    return str(value)  # a decimal


def may_be_slice(kind: pa.DataType) -> bool:
    """Every type whose values name things: text, whole numbers, flags, categories, in any of Arrow's layouts."""
    if _types.is_dictionary(kind):
        return may_be_slice(kind.value_type)
    text = _types.is_string(kind) or _types.is_large_string(kind) or _types.is_string_view(kind)
    return bool(text or _types.is_integer(kind) or _types.is_boolean(kind) or _types.is_null(kind))


def holds_bytes(kind: pa.DataType) -> bool:
    """Images and other bytes do not belong in a JSON report."""
    if _types.is_struct(kind):
        return any(holds_bytes(field.type) for field in kind)
    if hasattr(kind, "value_type"):  # lists and dictionaries
        return holds_bytes(kind.value_type)
    views = _types.is_binary_view(kind) or _types.is_fixed_size_binary(kind)
    return bool(views or _types.is_binary(kind) or _types.is_large_binary(kind))


def slice_codes(column: pa.ChunkedArray) -> tuple[pa.Array, list[str]]:
    """For every row the number of its value, and the values as text; a missing value is `(none)`."""
    if _types.is_nested(column.type):
        raise ValueError(f"A column of type {column.type} cannot be a slice, expected one value in every row.")
    encoded = pc.dictionary_encode(plain_column(column), null_encoding="encode").unify_dictionaries().combine_chunks()
    values = ["(none)" if value is None else str(value) for value in encoded.dictionary.to_pylist()]
    return encoded.indices, values
