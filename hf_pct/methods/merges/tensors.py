"""What every merge rule shares: both ends untouched, the precision in which merging computes, means of members."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from ..base import MergeRule, TensorPair

if TYPE_CHECKING:
    from torch import Tensor


def working(tensor: Tensor) -> Tensor:
    """The tensor in the precision in which merging computes: float32, or float64 where it already is."""
    return tensor if tensor.dtype.itemsize == 8 else tensor.float()


def merge_pair(rule: MergeRule, pair: TensorPair, alpha: float) -> Tensor:
    """One tensor at share `alpha` of the old model, by any rule.

    Both ends are the given tensors themselves, so alpha = 0 and alpha = 1 are the new and the old weights bit for bit
    in every dtype. Numbers that are not floating point cannot be averaged: they come from the new model, except at
    alpha = 1, which is the old model whole.
    """
    if alpha == 1.0:
        return pair.old
    if alpha == 0.0 or not pair.new.is_floating_point():
        return pair.new
    old, new = working(pair.old), working(pair.new)
    fits = pair.out is not None and pair.out.dtype == new.dtype == pair.new.dtype
    return rule.rule(replace(pair, old=old, new=new, out=pair.out if fits else None), alpha).to(pair.new.dtype)


def mean_tensor(tensors: Iterable[Tensor]) -> Tensor:
    """The uniform mean as a running mean: exact where all members agree, and never more than one member in memory."""
    mean: Tensor | None = None
    first: Tensor | None = None
    for count, tensor in enumerate(tensors, start=1):
        if mean is None or first is None:
            first, mean = tensor, working(tensor)
        elif first.is_floating_point():
            mean = mean.lerp(working(tensor), 1.0 / count)
    if mean is None or first is None:
        raise ValueError("A soup needs at least one model, got none.")
    return mean.to(first.dtype) if first.is_floating_point() else first.clone()
