"""One column of labels, whatever it came in as: a list, NumPy, torch, pandas, Arrow or a `datasets` column.

Comparing needs plain NumPy arrays of whole numbers or of text. What is neither (logits, probabilities, missing values,
tables) is refused here, once, with the name of the argument.
"""

from typing import Any

import numpy as np

_KINDS = {"i": "integers", "u": "integers", "b": "integers", "U": "text"}


def label_column(values: object, name: str) -> np.ndarray:
    """`values` as a one-dimensional NumPy array of integers or of text.

    Arrays of integers are returned as they are, without a copy. `name` is used in error messages.
    """
    array = _to_numpy(values, name)
    if array.ndim != 1:
        hint = f"; for logits pass {name}.argmax(-1)" if array.ndim == 2 else ""
        raise ValueError(f"{name} has shape {array.shape}, expected one label per row, shape (n,){hint}.")
    if array.dtype.kind == "O":
        array = _from_objects(array, name)
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8")
    if array.dtype.kind == "T":  # NumPy 2's variable-width strings
        array = array.astype(np.str_)
    if array.dtype.kind == "f":
        array = _whole_numbers(array, name)
    if array.dtype.kind not in _KINDS:
        raise ValueError(f"{name} has dtype {array.dtype}, expected integers or text (class indices or class names).")
    return array


def check_same_kind(columns: dict[str, np.ndarray]) -> None:
    """Refuse to compare class indices with class names: they never match, and every row would look like a change."""
    kinds = {name: _KINDS[array.dtype.kind] for name, array in columns.items()}
    if len(set(kinds.values())) > 1:
        described = ", ".join(f"{name}: {kind}" for name, kind in kinds.items())
        raise ValueError(f"Labels of different kinds cannot be compared ({described}). Map indices to names first.")


def check_same_length(columns: dict[str, np.ndarray]) -> int:
    """The common length; an error that names every length when they differ or when there is nothing to compare."""
    lengths = {name: len(array) for name, array in columns.items()}
    if len(set(lengths.values())) > 1:
        described = ", ".join(f"{name}: {length}" for name, length in lengths.items())
        raise ValueError(f"Every column must have one entry per row, but the lengths differ ({described}).")
    length = next(iter(lengths.values()))
    if length == 0:
        raise ValueError(f"There is nothing to compare: {', '.join(lengths)} are empty. Expected at least one row.")
    return length


def weight_column(values: object, length: int) -> np.ndarray:
    """Sample weights as float64: one per row, finite, not negative, not all zero."""
    array = _to_numpy(values, "sample_weight")
    try:
        if array.dtype.kind in "mM":
            raise TypeError("dates and durations are no weights, though NumPy would count their days")
        if array.dtype == object and any(isinstance(value, list | tuple | np.ndarray) for value in array):
            raise TypeError("a row holds a list, which some versions of NumPy would take for its only number")
        weights = np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight is not one number per row: {error}.") from error
    if weights.shape != (length,):
        raise ValueError(f"sample_weight has shape {weights.shape}, expected one weight per row, shape ({length},).")
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise ValueError("sample_weight must be finite, not negative, and not zero everywhere.")
    return weights


def _to_numpy(values: Any, name: str) -> np.ndarray:
    if isinstance(values, np.ndarray):
        return values
    if values is None:
        raise ValueError(f"{name} is None, expected one label per row.")
    if hasattr(values, "detach"):  # a torch tensor; torch itself is not imported here
        return values.detach().cpu().numpy()
    if hasattr(values, "null_count") and hasattr(values, "to_numpy"):  # an Arrow array or chunked array
        if values.null_count:
            raise ValueError(f"{name} has {values.null_count} missing values, expected a label in every row.")
        if hasattr(values, "dictionary_decode"):
            values = values.dictionary_decode()
        elif hasattr(values.type, "value_type") and hasattr(values.type, "index_type"):
            values = values.cast(values.type.value_type)
        return values.to_numpy() if hasattr(values, "chunks") else values.to_numpy(zero_copy_only=False)
    try:
        array = np.asarray(values[:] if hasattr(values, "features") else values)
        # NumPy makes text of a list in which numbers and text are mixed; as objects the mixture shows
        return np.asarray(values, dtype=object) if array.dtype.kind == "U" and isinstance(values, list) else array
    except ValueError as error:
        raise ValueError(f"{name} is not one label per row: {error}.") from error


def _from_objects(array: np.ndarray, name: str) -> np.ndarray:
    """Object arrays (from pandas, Arrow strings or mixed lists) become text or integers; anything else is refused."""
    kinds = set(map(type, array.tolist()))
    if kinds and all(issubclass(kind, str) for kind in kinds):
        return array.astype(np.str_)
    if kinds and all(issubclass(kind, (int, np.integer)) for kind in kinds):
        return array.astype(np.int64)
    names = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise ValueError(f"{name} mixes or holds values of type {names}, expected only integers or only text.")


def _whole_numbers(array: np.ndarray, name: str) -> np.ndarray:
    """Floats that are class indices (as pandas makes of integers) pass; NaN and fractions do not."""
    missing = int(np.isnan(array).sum())
    if missing:
        raise ValueError(f"{name} has {missing} missing values (NaN), expected a label in every row.")
    whole = array.astype(np.int64) if np.isfinite(array).all() else None
    if whole is None or not np.array_equal(whole, array):
        raise ValueError(
            f"{name} holds fractions, expected class indices or names. For scores or probabilities pass the argmax."
        )
    return whole
