"""State dicts that are to be merged: whether they fit each other, and tied weights that stay tied."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ...core.errors import NotComparableError

if TYPE_CHECKING:
    from torch import Tensor


def mismatches(
    a: Mapping[str, Tensor], b: Mapping[str, Tensor], a_name: str = "old model", b_name: str = "new model"
) -> list[str]:
    """Everything that keeps two state dicts from being merged: names, shapes, dtypes."""
    problems = [f"{name}: only in the {a_name}" for name in a if name not in b]
    problems += [f"{name}: only in the {b_name}" for name in b if name not in a]
    for name in a:
        if name not in b:
            continue
        if a[name].shape != b[name].shape:
            problems.append(
                f"{name}: shape {tuple(a[name].shape)} in the {a_name}, {tuple(b[name].shape)} in the {b_name}"
            )
        elif a[name].dtype != b[name].dtype:
            problems.append(f"{name}: {a[name].dtype} in the {a_name}, {b[name].dtype} in the {b_name}")
        elif a[name].is_complex():
            problems.append(f"{name}: complex numbers are not merged")
    return problems


def find_nonfinite(state: Mapping[str, Tensor], label: str) -> list[str]:
    """One line for each entry with NaN or infinite weights: merging would spread them silently."""
    problems = []
    for name, value in state.items():
        if value.is_floating_point() and not bool(value.isfinite().all()):
            count = int((~value.isfinite()).sum())
            problems.append(f"{name}: {count} NaN or infinite values in the {label}")
    return problems


def not_mergeable(problems: Sequence[str], heading: str) -> NotComparableError:
    """Every problem in one error, the first 40 spelled out."""
    shown = list(problems[:40]) + ([f"... and {len(problems) - 40} more"] if len(problems) > 40 else [])
    return NotComparableError(f"{heading}:\n  " + "\n  ".join(shown))


def raise_all(problems: Sequence[str], heading: str) -> None:
    """Raise that error if there is any problem."""
    if problems:
        raise not_mergeable(problems, heading)


def each_storage_once(states: Sequence[Mapping[str, Tensor]], merge: Callable[[str], Tensor]) -> dict[str, Tensor]:
    """Apply `merge` by name, once for names that are the same tensor in every input: tied weights stay tied."""
    merged: dict[str, Tensor] = {}
    seen: dict[tuple[object, ...], str] = {}
    for name in states[-1]:
        key = tuple(_storage_of(state[name]) for state in states)
        first = seen.setdefault(key, name)
        merged[name] = merged[first] if first != name else merge(name)
    return merged


def _storage_of(tensor: Tensor) -> tuple[object, ...]:
    if tensor.numel() == 0 or tensor.device.type == "meta":
        return (id(tensor),)
    return (tensor.device, tensor.data_ptr(), tuple(tensor.shape), tensor.stride())
