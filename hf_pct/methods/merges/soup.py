"""SoupBCWI: a straight line between the old model and the mean of several new ones.

`uniform_soup` averages all of them; `greedy_soup` those that help on development data (Wortsman et al., 2022).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..papers import SCHUMANN_2023
from ..registry import register
from .linear import LinearMerge
from .states import each_storage_once, mismatches, raise_all
from .tensors import mean_tensor

if TYPE_CHECKING:
    from torch import Tensor


@register("soup", paper="Schumann et al. 2023, SoupBCWI", bibtex=SCHUMANN_2023, tag="bcwi", order=210)
@dataclass(frozen=True)
class SoupMerge(LinearMerge):
    """The weighted mean of the old model and the mean of several new ones."""

    several = True

    def sentence(self) -> str:
        return "The weights are those of the old model and of the mean of several new ones, interpolated"


def uniform_soup(models: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """SoupBCWI's new side: the mean of several new models; integer entries come from the first.

    Example:
        >>> import torch
        >>> from hf_pct.merging import uniform_soup
        >>> uniform_soup([{"weight": torch.tensor([1.0, 2.0])}, {"weight": torch.tensor([3.0, 4.0])}])
        {'weight': tensor([2., 3.])}
    """
    if not models:
        raise ValueError("A soup needs at least one model, got none.")
    problems = [p for member in models[1:] for p in mismatches(models[0], member, "first model", "another member")]
    raise_all(problems, "These models cannot be averaged")
    return each_storage_once(models, lambda name: mean_tensor(member[name] for member in models))


@dataclass(frozen=True)
class GreedySoup:
    """The averaged weights, the members that stayed (by position, best first) and the soup's development score."""

    state: dict[str, Tensor]
    kept: tuple[int, ...]
    score: float


def greedy_soup(models: Sequence[Mapping[str, Tensor]], score: Callable[[Mapping[str, Tensor]], float]) -> GreedySoup:
    """Start from the best single model and add the others, best first, each only if the soup's score does not fall.

    `score` is measured on development data and higher is better. The result is never worse on that data than the best
    single model; a uniform soup gives no such promise.
    """
    if not models:
        raise ValueError("A soup needs at least one model, got none.")
    alone = [score(member) for member in models]
    order = sorted(range(len(models)), key=lambda i: (-alone[i], i))
    kept, best = [order[0]], alone[order[0]]
    for candidate in order[1:]:
        value = score(uniform_soup([models[i] for i in [*kept, candidate]]))
        if value >= best:
            kept, best = [*kept, candidate], value
    return GreedySoup(uniform_soup([models[i] for i in kept]), tuple(kept), best)
