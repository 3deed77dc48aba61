"""State dicts in, state dict out: linear, soup and Fisher interpolation between an old and new models. Pure torch.

`alpha` is the share of the OLD model (Schumann et al., 2023): theta = alpha * old + (1 - alpha) * new. Everything is
written as `new + share * (old - new)`, because that form returns an entry unchanged where both models agree, and both
ends are returned untouched, so alpha = 0 and alpha = 1 are the new and the old weights bit for bit in every dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch import Tensor

from hf_pct.flips.errors import NotComparableError
from hf_pct.merging.groups import Alpha, alpha_of, check_alpha

FISHER_FLOOR = 1e-6  # Matena and Raffel (2021): no parameter is worth nothing, so that no denominator is zero


def working(tensor: Tensor) -> Tensor:
    """The tensor in the precision in which merging computes: float32, or float64 where it already is."""
    return tensor if tensor.dtype == torch.float64 else tensor.to(torch.float32)


def merge_tensor(
    old: Tensor,
    new: Tensor,
    alpha: float,
    old_fisher: Tensor | None = None,
    new_fisher: Tensor | None = None,
    *,
    floor: float = FISHER_FLOOR,
) -> Tensor:
    """One entry at share `alpha` of the old model; with a Fisher, each weight gets its own share.

    FisherBCWI: (alpha F old + (1 - alpha) G new) / (alpha F + (1 - alpha) G), with G = 1 when only the old model's
    Fisher is given. Entries that are not floating point cannot be averaged: they come from the new model, except at
    alpha = 1, which is the old model whole.
    """
    if alpha == 1.0:
        return old.clone()
    if alpha == 0.0 or not new.is_floating_point():
        return new.clone()
    start, end = working(new), working(old)
    if old_fisher is None and new_fisher is None:
        return torch.lerp(start, end, alpha).to(new.dtype)
    one = torch.ones((), dtype=start.dtype, device=start.device)
    old_side = alpha * (one if old_fisher is None else old_fisher.to(start).clamp_min(floor))
    new_side = (1 - alpha) * (one if new_fisher is None else new_fisher.to(start).clamp_min(floor))
    return torch.lerp(start, end, old_side / (old_side + new_side)).to(new.dtype)


def mean_tensor(tensors: Iterable[Tensor]) -> Tensor:
    """The uniform mean as a running mean: exact where all members agree, and never more than one member in memory."""
    mean: Tensor | None = None
    first: Tensor | None = None
    for count, tensor in enumerate(tensors, start=1):
        if mean is None or first is None:
            first, mean = tensor, working(tensor)
        elif first.is_floating_point():
            mean = torch.lerp(mean, working(tensor), 1.0 / count)
    if mean is None or first is None:
        raise ValueError("A soup needs at least one model, got none.")
    return mean.to(first.dtype) if first.is_floating_point() else first.clone()


def uniform_soup(models: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """SoupBCWI's new side: the mean of several new models; integer entries come from the first."""
    if not models:
        raise ValueError("A soup needs at least one model, got none.")
    problems = [p for member in models[1:] for p in mismatches(models[0], member, "first model", "another member")]
    raise_all(problems, "These models cannot be averaged")
    return _each_storage_once(models, lambda name: mean_tensor(member[name] for member in models))


def interpolate(
    old: Mapping[str, Tensor],
    new: Mapping[str, Tensor],
    alpha: Alpha,
    *,
    old_fisher: Mapping[str, Tensor] | None = None,
    new_fisher: Mapping[str, Tensor] | None = None,
    floor: float = FISHER_FLOOR,
) -> dict[str, Tensor]:
    """Merge two state dicts. `alpha` is one share, or shares by group: {"embeddings": 0.2, "head": 0.6, "default": 0}.

    An entry without a Fisher (a buffer, a frozen weight) is merged linearly. Names that share storage in both models
    share it in the result.
    """
    check_alpha(alpha)
    raise_all(mismatches(old, new), "These models cannot be merged")
    old_fisher, new_fisher = old_fisher or {}, new_fisher or {}

    def merge(name: str) -> Tensor:
        share = alpha_of(name, alpha)
        return merge_tensor(old[name], new[name], share, old_fisher.get(name), new_fisher.get(name), floor=floor)

    return _each_storage_once((old, new), merge)


@torch.no_grad()
def interpolate_into(
    target: Mapping[str, Tensor],
    old: Mapping[str, Tensor],
    new: Mapping[str, Tensor],
    alpha: Alpha,
    *,
    old_fisher: Mapping[str, Tensor] | None = None,
    new_fisher: Mapping[str, Tensor] | None = None,
    floor: float = FISHER_FLOOR,
) -> None:
    """The same, written into the tensors of a live model: what a sweep over alphas uses, one tensor of extra memory.

    The inputs are not checked again: call `mismatches` once before the sweep.
    """
    check_alpha(alpha)
    old_fisher, new_fisher = old_fisher or {}, new_fisher or {}
    for name, place in target.items():
        share, plain = alpha_of(name, alpha), name not in old_fisher and name not in new_fisher
        if share in (0.0, 1.0) or not place.is_floating_point():
            place.copy_(old[name] if share == 1.0 else new[name])
        elif plain and place.dtype == torch.float32 and place.is_contiguous():
            torch.lerp(new[name], old[name], share, out=place)
        else:
            place.copy_(
                merge_tensor(old[name], new[name], share, old_fisher.get(name), new_fisher.get(name), floor=floor)
            )


def scale_fisher(fisher: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Divide by the mean over all entries together: what matters is how important a weight is beside the others."""
    total = sum(float(value.double().sum()) for value in fisher.values())
    count = sum(value.numel() for value in fisher.values())
    if not total > 0:
        raise ValueError(
            f"The Fisher information sums to {total} over {count} weights, expected a positive number: "
            "was it computed on at least one example, with gradients enabled?"
        )
    return {name: value * (count / total) for name, value in fisher.items()}


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
        if value.is_floating_point() and not bool(torch.isfinite(value).all()):
            count = int((~torch.isfinite(value)).sum())
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


def _each_storage_once(states: Sequence[Mapping[str, Tensor]], merge: Callable[[str], Tensor]) -> dict[str, Tensor]:
    """Apply `merge` by name, once for names that are the same tensor in every input: tied weights stay tied."""
    merged: dict[str, Tensor] = {}
    seen: dict[tuple, str] = {}
    for name in states[-1]:
        key = tuple(_storage_of(state[name]) for state in states)
        first = seen.setdefault(key, name)
        merged[name] = merged[first] if first != name else merge(name)
    return merged


def _storage_of(tensor: Tensor) -> tuple:
    if tensor.numel() == 0 or tensor.device.type == "meta":
        return (id(tensor),)
    return (tensor.device, tensor.data_ptr(), tuple(tensor.shape), tensor.stride())
