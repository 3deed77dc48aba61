"""Greedy soup: of several new models, average those that help on development data (Wortsman et al., 2022)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from hf_pct.merging.interpolate import uniform_soup


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
