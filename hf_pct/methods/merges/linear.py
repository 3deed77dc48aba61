"""BCWI: a straight line between the weights of the old and of the new model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..base import MergeRule, TensorPair
from ..papers import SCHUMANN_2023
from ..registry import register

if TYPE_CHECKING:
    from torch import Tensor


@register("linear", paper="Schumann et al. 2023, BCWI", bibtex=SCHUMANN_2023, tag="bcwi", order=200)
@dataclass(frozen=True)
class LinearMerge(MergeRule):
    """The weighted mean of the old and one new model: alpha * old + (1 - alpha) * new."""

    def rule(self, pair: TensorPair, alpha: float) -> Tensor:
        """As `new + alpha * (old - new)`, which leaves a weight alone where both models agree."""
        import torch

        return torch.lerp(pair.new, pair.old, alpha, out=pair.out)

    def sentence(self) -> str:
        return "The weights are those of the old and of the new model, interpolated"
