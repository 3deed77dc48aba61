"""`none`: cross-entropy alone. Flips against an old model are still counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..base import Batch, Needs, RunSize, TrainingMethod
from ..papers import YAN_2021
from ..registry import register

if TYPE_CHECKING:
    from torch import Tensor


@register("none", bibtex=YAN_2021, tag="", order=0)
@dataclass(frozen=True)
class Untreated(TrainingMethod):
    """Nothing beside cross-entropy; flips are still reported."""

    needs = Needs()

    def weights(self, names: Sequence[str]) -> dict[str, float]:
        return {}

    def loss(self, batch: Batch) -> Tensor:
        return batch.logits.sum(-1) * 0.0

    def reference_parameters(self, size: RunSize) -> int:
        return 0

    def table_width(self, classes: int) -> int:
        return 0

    def sentence(self) -> str:
        return "Trained without a loss against the old model."
