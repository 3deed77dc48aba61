"""FisherBCWI: every weight has its own share, by how much it matters to what the old model answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..base import MergeRule, Needs, TensorPair
from ..papers import SCHUMANN_2023
from ..registry import register
from ..settings import setting

if TYPE_CHECKING:
    from torch import Tensor

# Matena and Raffel (2021): no weight is worth nothing, so that no denominator is zero
FLOOR = 1e-6


@register("fisher", paper="Schumann et al. 2023, FisherBCWI", bibtex=SCHUMANN_2023, tag="bcwi", order=220)
@dataclass(frozen=True)
class FisherMerge(MergeRule):
    """The mean weighted by the Fisher: (alpha F old + (1 - alpha) G new) / (alpha F + (1 - alpha) G).

    G is 1 when only the old model's Fisher F is there. A tensor without any Fisher (a buffer, a frozen weight) is
    merged linearly.
    """

    needs = Needs(fisher=True)
    several = True
    # the paper's grid: a Fisher with mean 1 leaves most weights below 1, so most of the change happens near alpha = 1
    alphas = (*(step / 10 for step in range(9)), 0.85, 0.9, 0.92, 0.94, 0.96, 0.98, 1.0)

    fisher_floor: float = setting(FLOOR, "Least value of the Fisher: no weight is worth nothing.", above=0)

    def rule(self, pair: TensorPair, alpha: float) -> Tensor:
        import torch

        if pair.fisher is None and pair.new_fisher is None:
            return torch.lerp(pair.new, pair.old, alpha, out=pair.out)
        one = torch.ones((), dtype=pair.new.dtype, device=pair.new.device)
        old_side = alpha * self._weight(pair.fisher, pair.new, one)
        new_side = (1 - alpha) * self._weight(pair.new_fisher, pair.new, one)
        return torch.lerp(pair.new, pair.old, old_side / (old_side + new_side), out=pair.out)

    def sentence(self) -> str:
        return "The weights are those of the old and of the new model, interpolated by how much each mattered (Fisher)"

    def _weight(self, fisher: Tensor | None, like: Tensor, otherwise: Tensor) -> Tensor:
        return otherwise if fisher is None else fisher.to(like).clamp_min(self.fisher_floor)
