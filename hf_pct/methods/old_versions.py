"""A loss against the old model, or against several versions of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .base import TrainingMethod
from .settings import setting

TARGETS = ("chain", "radial", "full")


@dataclass(frozen=True)
class OldVersionsMethod(TrainingMethod):
    """Cross-entropy plus `reference_weight` times a term against old versions (Zhao et al., Table 5)."""

    reference_weight: float = setting(
        1.0,
        "Weight of the whole term against the old model, beside cross-entropy (the paper's lambda).",
        at_least=0,
        paper=1,
        aliases=("pc_weight",),
    )
    targets: str = setting(
        "chain",
        "With several old models: chain stays near the newest, radial near the oldest, full near all.",
        choices=TARGETS,
    )

    def weights(self, names: Sequence[str]) -> dict[str, float]:
        newest, *earlier = names
        targets = {"chain": [newest], "radial": [next(iter(earlier), newest)], "full": [newest, *earlier]}
        chosen = targets[self.targets]
        return dict.fromkeys(chosen, self.reference_weight / len(chosen))

    def advice(self) -> str:
        return f"Lower reference_weight, or the weights of rows (now {self.numbers()})."
