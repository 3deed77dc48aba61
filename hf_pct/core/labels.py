"""Two label spaces, aligned by name.

Class indices mean nothing across two models: one may sort its classes differently, or have more of them. Everything
here that sets two models side by side does it through the names.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class LabelAlignment:
    """Which classes an old and a new model share, and where each model has them.

    `old_index` and `new_index` are the positions of the shared classes in each model's outputs, in the same order, so
    that `old_logits[:, old_index]` and `new_logits[:, new_index]` have the same classes column by column.
    """

    shared: tuple[str, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    old_index: np.ndarray
    new_index: np.ndarray

    @property
    def identical(self) -> bool:
        """The same classes in the same order: logits need no rearranging."""
        in_order = np.array_equal(self.old_index, np.arange(len(self.shared)))
        return not self.added and not self.removed and in_order and np.array_equal(self.old_index, self.new_index)


def align_labels(old_names: Sequence[str], new_names: Sequence[str]) -> LabelAlignment:
    """Align two models' classes by name; shared and added classes are in the new model's order.

    >>> align_labels(["no", "yes"], ["yes", "maybe", "no"]).added
    ('maybe',)
    """
    old_at = _positions(old_names, "old")
    new_at = _positions(new_names, "new")
    shared = tuple(name for name in new_at if name in old_at)
    return LabelAlignment(
        shared=shared,
        added=tuple(name for name in new_at if name not in old_at),
        removed=tuple(name for name in old_at if name not in new_at),
        old_index=np.array([old_at[name] for name in shared], dtype=np.int64),
        new_index=np.array([new_at[name] for name in shared], dtype=np.int64),
    )


def _positions(names: Sequence[str], side: str) -> dict[str, int]:
    check_label_names(names, f"the {side} model's label names")
    return {name: position for position, name in enumerate(names)}


def check_label_names(names: Sequence[str], what: str) -> tuple[str, ...]:
    """The names as a tuple; an error when one is not text or comes twice."""
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{what} are {names!r}, expected a list of class names (text) in the order of the logits.")
    repeated = sorted({name for name in names if list(names).count(name) > 1}) if len(set(names)) < len(names) else []
    if repeated:
        raise ValueError(f"{what} name {', '.join(map(repr, repeated[:5]))} more than once; each class needs its own.")
    return tuple(names)


def recode(codes: np.ndarray, table: np.ndarray) -> np.ndarray:
    """`table[codes]`, without the copy where the table changes nothing, as between two runs of one recipe."""
    if np.array_equal(table, np.arange(len(table))):
        return codes
    return table[codes]


def code_table(names: Iterable[str], vocabulary: dict[str, int]) -> np.ndarray:
    """For each name its code in `vocabulary`, which grows by the names that it lacks."""
    return np.array([vocabulary.setdefault(name, len(vocabulary)) for name in names], dtype=np.int32)
