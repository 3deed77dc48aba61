"""Re-base a new model onto an old one: renumber its units to lie closest to the old ones (Ainsworth et al., 2022).

Weight matching by coordinate descent: each group in turn gets the numbering that maximises the inner product with the
old weights, a linear assignment problem, given the numbering of all others; until nothing moves. The new model's
function does not change, only where its weights are.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn

from ..interpolate import mismatches, raise_all
from .symmetries import Group, Place, find_groups

Numbering = dict[str, np.ndarray]  # unit i of the result is unit numbering[i] of the model that is re-based


def align_model(old: nn.Module, new: nn.Module, *, max_rounds: int = 100, seed: int = 0) -> nn.Module:
    """A copy of `new` that computes the same and lies as near to `old` as renumbering brings it.

    Example:
        >>> from transformers import BertConfig, BertForSequenceClassification
        >>> sizes = dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2)
        >>> config = BertConfig(vocab_size=9, **sizes)
        >>> from hf_pct.merging import align_model
        >>> old, new = BertForSequenceClassification(config), BertForSequenceClassification(config)
        >>> type(align_model(old, new)).__name__
        'BertForSequenceClassification'
    """
    heads = getattr(getattr(new, "config", None), "num_attention_heads", None)
    aligned = copy.deepcopy(new)
    aligned.load_state_dict(align_state(old.state_dict(), new.state_dict(), heads, max_rounds=max_rounds, seed=seed))
    return aligned


def align_state(
    old: Mapping[str, Tensor],
    new: Mapping[str, Tensor],
    heads: int | None = None,
    *,
    max_rounds: int = 100,
    seed: int = 0,
) -> dict[str, Tensor]:
    """The new weights renumbered. Heads with other classes are fine: their rows are classes, not units."""
    groups = find_groups(new, heads)
    placed = {name for group in groups for name, _ in (*group.places, *group.value_places)}
    shared = {name for name in placed if name in old and old[name].shape == new[name].shape}
    body = sorted(name for name in placed if "classifier" not in name and "fc." not in name)
    old_body, new_body = ({name: side[name] for name in body if name in side} for side in (old, new))
    raise_all(mismatches(old_body, new_body), "These models cannot be aligned")
    numbering = match_weights(groups, old, new, shared, max_rounds, seed)
    return renumber(groups, new, numbering)


def match_weights(
    groups: list[Group],
    old: Mapping[str, Tensor],
    new: Mapping[str, Tensor],
    shared: set[str],
    max_rounds: int = 100,
    seed: int = 0,
) -> Numbering:
    """Coordinate descent over the groups, in random order, from the identity."""
    numbering: Numbering = {}
    for group in groups:
        numbering[group.name] = np.arange(_size(new, group.places))
        if group.heads:
            numbering[f"{group.name} values"] = np.arange(_size(new, group.value_places))
    order = np.random.default_rng(seed)
    for _ in range(max_rounds):
        moved = False
        for i in order.permutation(len(groups)):
            moved |= _improve(groups, groups[i], old, new, shared, numbering)
        if not moved:
            break
    return numbering


def _improve(
    groups: list[Group],
    group: Group,
    old: Mapping[str, Tensor],
    new: Mapping[str, Tensor],
    shared: set[str],
    numbering: Numbering,
) -> bool:
    """Give one group its best numbering; returns whether the fit got better by more than rounding."""
    others = {name: value for name, value in numbering.items() if name not in (group.name, f"{group.name} values")}
    fit = _fit(groups, group.places, old, new, shared, others)
    names = [group.name]
    if group.heads:
        value_fit = _fit(groups, group.value_places, old, new, shared, others)
        best = _match_heads(fit, value_fit, group.heads)
        names.append(f"{group.name} values")
        fits = [fit, value_fit]
    else:
        best, fits = [linear_sum_assignment(fit, maximize=True)[1]], [fit]
    rows = [np.arange(len(scores)) for scores in fits]
    before = sum(scores[r, numbering[name]].sum() for scores, r, name in zip(fits, rows, names, strict=True))
    after = sum(scores[r, order].sum() for scores, r, order in zip(fits, rows, best, strict=True))
    if after <= before + 1e-6 * abs(before) + 1e-9:
        return False
    numbering.update(zip(names, best, strict=True))
    return True


def _match_heads(fit: np.ndarray, value_fit: np.ndarray, heads: int) -> list[np.ndarray]:
    """Heads to heads, each pair with its best inner numbering of query-key and of value-output dimensions."""
    size, value_size = len(fit) // heads, len(value_fit) // heads
    score = np.empty((heads, heads))
    inner: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}
    for i in range(heads):
        for j in range(heads):
            block = fit[i * size : (i + 1) * size, j * size : (j + 1) * size]
            values = value_fit[i * value_size : (i + 1) * value_size, j * value_size : (j + 1) * value_size]
            a, b = linear_sum_assignment(block, maximize=True), linear_sum_assignment(values, maximize=True)
            score[i, j] = block[a].sum() + values[b].sum()
            inner[i, j] = (a[1], b[1])
    chosen = linear_sum_assignment(score, maximize=True)[1]
    outer = [np.concatenate([inner[i, j][0] + j * size for i, j in enumerate(chosen)])]
    return [*outer, np.concatenate([inner[i, j][1] + j * value_size for i, j in enumerate(chosen)])]


def _fit(
    groups: list[Group],
    places: tuple[Place, ...],
    old: Mapping[str, Tensor],
    new: Mapping[str, Tensor],
    shared: set[str],
    others: Numbering,
) -> np.ndarray:
    """fit[i, j]: inner product of old unit i with new unit j over all places, the other groups renumbered."""
    total: Tensor | None = None
    for name, axis in places:
        if name not in shared:
            continue
        moved = _renumbered(groups, name, new[name].detach().float(), others)
        product = _by_unit(old[name].detach().float(), axis) @ _by_unit(moved, axis).T
        total = product if total is None else total + product
    if total is None:
        return np.zeros((_size(new, places),) * 2)
    return total.double().cpu().numpy()


def _by_unit(value: Tensor, axis: int) -> Tensor:
    return value.movedim(axis, 0).reshape(value.shape[axis], -1)


def renumber(groups: list[Group], state: Mapping[str, Tensor], numbering: Numbering) -> dict[str, Tensor]:
    """Apply a numbering to every entry."""
    return {name: _renumbered(groups, name, value, numbering) for name, value in state.items()}


def _renumbered(groups: list[Group], name: str, value: Tensor, numbering: Numbering) -> Tensor:
    for group in groups:
        for key, places in ((group.name, group.places), (f"{group.name} values", group.value_places)):
            for place, axis in places:
                if place == name and key in numbering:
                    index = torch.from_numpy(np.ascontiguousarray(numbering[key])).to(value.device)
                    value = value.index_select(axis, index)
    return value


def _size(state: Mapping[str, Tensor], places: tuple[Place, ...]) -> int:
    name, axis = places[0]
    return state[name].shape[axis]
