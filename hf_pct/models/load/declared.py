"""Code that makes the same inputs of the same row every time: known, or declared by whoever wrote it.

What a transform, a data collator or a dataset class does cannot be seen from outside. One that draws an augmentation
once in fifty rows looks fixed on the first eight. So none is taken for fixed unless it is a library's own that is
known to be, or its author says so with `fixed(...)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import datasets

from ..types import Collate, RowSource

T = TypeVar("T")
_MARK = "inputs_are_fixed"


def fixed(reads: T) -> T:
    """Declare that a transform, a data collator or a dataset gives the same inputs for the same row every time.

    What is declared may be cached. The cache is keyed by the inputs themselves, so an edited transform is noticed in
    the next run; that it draws no random numbers is your promise. An object is marked and returned; a function
    is returned wrapped.

    Example:
        >>> from hf_pct import fixed
        >>> from hf_pct.models.load.declared import is_declared
        >>> class Scale:
        ...     def __call__(self, rows):
        ...         return {"x": [value / 255 for value in rows["x"]]}
        >>> is_declared(fixed(Scale())), is_declared(Scale())
        (True, False)
    """
    try:
        setattr(reads, _MARK, True)
    except AttributeError:  # a bound method or a built-in function takes no attribute
        return FixedCall(reads)  # type: ignore[return-value, arg-type]
    return reads


class FixedCall:
    """A declared callable that could not carry the mark itself."""

    inputs_are_fixed = True

    def __init__(self, call: Callable[..., object]) -> None:
        self.call = call

    def __call__(self, *args: object, **kwargs: object) -> object:
        return self.call(*args, **kwargs)


def is_declared(reads: object) -> bool:
    """Whether somebody has declared it fixed."""
    return bool(getattr(reads, _MARK, False))


def transform_of(dataset: RowSource) -> Callable[..., object] | None:
    """The function that `with_transform` or `set_transform` gave a dataset, or None."""
    if not isinstance(dataset, datasets.Dataset) or dataset.format["type"] != "custom":
        return None
    return dataset.format["format_kwargs"].get("transform")


def rows_are_fixed(dataset: RowSource) -> bool:
    """Whether a row is the same each time it is fetched: stored rows are, computed ones only where declared."""
    if is_declared(dataset):
        return True
    if isinstance(dataset, list | tuple):
        return True
    transform = transform_of(dataset)
    return isinstance(dataset, datasets.Dataset) and (transform is None or is_declared(transform))


def is_plain(dataset: RowSource) -> bool:
    """A `datasets.Dataset` without a transform: its rows are what is stored, and can be hashed as they are stored."""
    return isinstance(dataset, datasets.Dataset) and transform_of(dataset) is None


def known_collator(collate: Collate) -> bool:
    """A collator of a library that is known to do nothing at random."""
    from torch.utils.data import default_collate
    from transformers import DataCollatorWithPadding, DefaultDataCollator, default_data_collator

    known_types = (DataCollatorWithPadding, DefaultDataCollator)
    return type(collate) in known_types or collate in (default_data_collator, default_collate)


def collator_is_fixed(collate: Collate) -> bool:
    """Whether the same rows always make the same batch."""
    return is_declared(collate) or known_collator(collate)
