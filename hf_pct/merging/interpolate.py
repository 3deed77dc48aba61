"""State dicts in, state dict out: merges of an old and new models by the rules of `methods/merges/`. Pure torch.

`alpha` is the share of the OLD model (Schumann et al., 2023); alpha = 0 and alpha = 1 are the new and the old weights
bit for bit in every dtype. The rule for one tensor is the same here, in place and in a stream from disk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from ..methods.base import MergeRule, TensorPair
from ..methods.merges.fisher import FLOOR as FISHER_FLOOR
from ..methods.merges.fisher import FisherMerge
from ..methods.merges.linear import LinearMerge
from ..methods.merges.soup import uniform_soup as uniform_soup
from ..methods.merges.states import each_storage_once, mismatches, raise_all
from ..methods.merges.states import find_nonfinite as find_nonfinite
from ..methods.merges.states import not_mergeable as not_mergeable
from ..methods.merges.tensors import mean_tensor as mean_tensor
from ..methods.merges.tensors import merge_pair
from ..methods.merges.tensors import working as working
from ..methods.registry import build, methods_of
from ..models.fisher.files import scale_fisher as scale_fisher
from .groups import Alpha, alpha_of, check_alpha


def merge_rules() -> dict[str, type[MergeRule]]:
    """Every merge rule by its name."""
    return methods_of(MergeRule)


def as_rule(method: str | MergeRule, settings: object = None) -> MergeRule:
    """A merge rule by its name, with its settings taken from a mapping or from attributes; or a rule as it is."""
    if isinstance(method, MergeRule):
        return method
    rules = merge_rules()
    if method not in rules:
        raise ValueError(f"method is {method!r}, expected one of {', '.join(rules)}")
    return build(rules[method], settings)


def check_members(rule: MergeRule, members: int) -> None:
    """Refuse several new models where a rule takes one, and none at all."""
    if members == 0:
        raise ValueError("no new model was given, expected at least one")
    if members > 1 and not rule.several:
        raise ValueError(f"method {rule.name!r} takes one new model, got {members}; average them with method 'soup'")


def merge_tensor(
    old: Tensor,
    new: Tensor,
    alpha: float,
    old_fisher: Tensor | None = None,
    new_fisher: Tensor | None = None,
    *,
    floor: float = FISHER_FLOOR,
) -> Tensor:
    """One entry at share `alpha` of the old model; with a Fisher, each weight gets its own share. Always a copy."""
    rule = _rule_for(old_fisher, new_fisher, floor)
    return _copied(merge_pair(rule, TensorPair(old, new, old_fisher, new_fisher), alpha), old, new)


def _copied(merged: Tensor, old: Tensor, new: Tensor) -> Tensor:
    return merged.clone() if merged is old or merged is new else merged


def interpolate(
    old: Mapping[str, Tensor],
    new: Mapping[str, Tensor],
    alpha: Alpha,
    *,
    old_fisher: Mapping[str, Tensor] | None = None,
    new_fisher: Mapping[str, Tensor] | None = None,
    floor: float = FISHER_FLOOR,
    rule: MergeRule | None = None,
) -> dict[str, Tensor]:
    """Merge two state dicts. `alpha` is one share, or shares by group: {"embeddings": 0.2, "head": 0.6, "default": 0}.

    Without a `rule` it is linear, or by Fisher where one is given. An entry without a Fisher (a buffer, a frozen
    weight) is merged linearly. Names that share storage in both models share it in the result.
    """
    check_alpha(alpha)
    raise_all(mismatches(old, new), "These models cannot be merged")
    rule = rule or _rule_for(old_fisher, new_fisher, floor)
    pair_of = _pairs(old, new, old_fisher, new_fisher)

    def merge(name: str) -> Tensor:
        return _copied(merge_pair(rule, pair_of(name, None), alpha_of(name, alpha)), old[name], new[name])

    return each_storage_once((old, new), merge)


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
    rule: MergeRule | None = None,
) -> None:
    """The same, written into the tensors of a live model: what a sweep over alphas uses, one tensor of extra memory.

    The inputs are not checked again: call `mismatches` once before the sweep.
    """
    check_alpha(alpha)
    rule = rule or _rule_for(old_fisher, new_fisher, floor)
    pair_of = _pairs(old, new, old_fisher, new_fisher)
    for name, place in target.items():
        merged = merge_pair(rule, pair_of(name, place), alpha_of(name, alpha))
        if merged is not place:
            place.copy_(merged)


def _rule_for(old_fisher: object, new_fisher: object, floor: float) -> MergeRule:
    """What to merge by when nothing is said."""
    return LinearMerge() if old_fisher is None and new_fisher is None else FisherMerge(fisher_floor=floor)


def _pairs(
    old: Mapping[str, Tensor],
    new: Mapping[str, Tensor],
    old_fisher: Mapping[str, Tensor] | None,
    new_fisher: Mapping[str, Tensor] | None,
) -> Callable[[str, Tensor | None], TensorPair]:
    """What a rule is asked about each entry."""
    matters, matters_new = old_fisher or {}, new_fisher or {}

    def pair_of(name: str, out: Tensor | None = None) -> TensorPair:
        return TensorPair(old[name], new[name], matters.get(name), matters_new.get(name), out)

    return pair_of
