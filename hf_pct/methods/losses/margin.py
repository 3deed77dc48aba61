"""`margin`: margins between old classes survive when classes are added (Ricci et al., AAAI 2026)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..base import OLD, Batch, Needs, RunSize
from ..old_versions import OldVersionsMethod
from ..registry import register
from ..settings import setting
from .focal import every_row_setting, right_rows_setting

if TYPE_CHECKING:
    from torch import Tensor

RICCI_2026 = """@inproceedings{ricci2026mitigating,
  title     = {Mitigating Negative Flips via Margin Preserving Training},
  author    = {Ricci, Simone and Biondi, Niccol{\\`o} and Pernici, Federico and Del Bimbo, Alberto},
  booktitle = {Proceedings of the AAAI Conference on Artificial Intelligence},
  year      = {2026}
}"""

INDEPENDENT = "independent"
"""The name of the reference that is a new model trained without any treatment."""

SQUARED_SCALE = 0.4
"""The paper's weight of the squared distance, which is larger than the divergence."""


@register("margin", paper="Ricci et al. 2026", bibtex=RICCI_2026, tag="margin-preserving", order=55)
@dataclass(frozen=True)
class MarginPreserving(OldVersionsMethod):
    """A bias on added classes in training, and focal distillation from the old model and from an independent new one.

    Cross-entropy sees the logits of added classes raised by `added_bias`, so that the model learns to keep them that
    much lower; at test time there is no bias. Distillation from the old model covers the old classes, that from the
    independent model all of them, so that added classes stay learnt. Without added classes the bias does nothing.
    """

    added_bias: float = setting(
        4.0, "Added to the logits of added classes in cross-entropy, in training only.", at_least=0, paper=4
    )
    independent_model: str | None = setting(
        None,
        "A new model trained without treatment on the same data, a folder or a Hub id, or the folder of an ensemble "
        "of such models; the trainer also takes references={'independent': model}.",
    )
    independent_weight: float = setting(
        1.0, "Weight of the term against the independent model; 0: there is none.", at_least=0, paper=1
    )
    every_row: float = every_row_setting()
    right_rows: float = right_rows_setting()
    distance: str = setting("kl", "Distance to both models: kl, or l2 on logits.", choices=("kl", "l2"))
    soft_temperature: float = setting(5.0, "Temperature of the softened outputs with kl.", above=0, paper=5)

    needs = Needs(references=(OLD, INDEPENDENT))
    strengths = ({"added_bias": 1.0}, {"added_bias": 2.0}, {"added_bias": 4.0})

    def references(self) -> Mapping[str, object]:
        return {INDEPENDENT: self.independent_model} if self.independent_model else {}

    def weights(self, names: Sequence[str]) -> dict[str, float]:
        held = super().weights(names)
        return held | ({INDEPENDENT: self.independent_weight} if self.independent_weight else {})

    def label_logits(self, logits: Tensor, added: Tensor) -> Tensor:
        return logits + self.added_bias * added.to(logits.dtype)

    def loss(self, batch: Batch) -> Tensor:
        from ..distances import half_squared, soft_kl

        weight = self.every_row + self.right_rows * batch.right.to(batch.logits.dtype)
        if self.distance == "l2":
            return weight * SQUARED_SCALE * half_squared(batch.logits - batch.reference)
        divergence = soft_kl(batch.logits, batch.reference, self.soft_temperature)
        return weight * divergence / self.soft_temperature**2  # the paper does not scale by the temperature

    def advice(self) -> str:
        return f"Lower reference_weight, independent_weight or added_bias (now {self.numbers()})."

    def reference_parameters(self, size: RunSize) -> int:
        return super().reference_parameters(size) + (size.parameters if self.independent_weight else 0)

    def table_width(self, classes: int) -> int:
        return classes * (2 if self.independent_weight else 1)

    def sentence(self) -> str:
        return (
            "Trained to keep the margins of old classes: added classes were biased in training, with distillation "
            "from the old model and from an independent new one."
        )
