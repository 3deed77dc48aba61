"""`prior-weight-decay`: weight decay toward the old weights instead of toward zero."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ..base import WeightMethod
from ..papers import SCHUMANN_2023
from ..registry import register
from ..settings import setting


@register("prior-weight-decay", paper="Schumann et al. 2024, baselines", bibtex=SCHUMANN_2023, order=30)
@dataclass(frozen=True)
class PriorWeightDecay(WeightMethod):
    """After each step `w -= lr * prior_weight_decay * (w - w_old)`; needs `weight_decay=0`."""

    prior_weight_decay: float = setting(
        0.0, "Decay toward the old weights after each step: w -= lr * this * (w - w_old).", at_least=0
    )

    replaces: ClassVar[Mapping[str, float]] = {"weight_decay": 0.0}
    strengths = tuple({"prior_weight_decay": 10.0**power} for power in range(0, 5))

    @classmethod
    def conflicts(cls, args: Any) -> list[str]:
        decay = getattr(args, "weight_decay", 0)
        if not (args.prior_weight_decay and decay):
            return []
        return [
            f"prior_weight_decay={args.prior_weight_decay} with weight_decay={decay}: one pulls to the old weights, "
            "the other to zero; set weight_decay=0"
        ]

    def pull(self, rate: float) -> float:
        return min(rate * self.prior_weight_decay, 1.0)  # never past the old weights

    def sentence(self) -> str:
        return "Its weights decayed toward the old model's at every step."
