"""Distillation from the old model, with and without focus: `kd`, `fd-kl`, `fd-lm` and `fd-dynamic`.

The weight of a row is `every_row + right_rows * gate`. The gate is open where the old model is right (Yan et al.), or
where it gives the label more probability than the new model does at this step (Xie et al., whose own loss is
`every_row=0, right_rows=1`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..base import Batch
from ..old_versions import OldVersionsMethod
from ..papers import YAN_2021
from ..registry import register
from ..settings import setting

if TYPE_CHECKING:
    from torch import Tensor

XIE_2021 = """@inproceedings{xie2021regression,
  title     = {Regression Bugs Are In Your Model! Measuring, Reducing and Analyzing Regressions In {NLP} Model
               Updates},
  author    = {Xie, Yuqing and Lai, Yi-An and Xiong, Yuanjun and Zhang, Yi and Soatto, Stefano},
  booktitle = {Proceedings of the 59th Annual Meeting of the Association for Computational Linguistics (ACL)},
  year      = {2021}
}"""


def reference_is_surer(batch: Batch) -> Tensor:
    """The rows whose label has more probability in the reference than in the new model, each over all its classes."""
    from ..distances import label_log_probability

    old = label_log_probability(batch.all_reference, batch.reference_columns)
    new = label_log_probability(batch.all_logits, batch.all_labels.clamp_min(0))
    return old > new


def every_row_setting() -> Any:
    """The weight of all rows, as every method that distils declares it."""
    return setting(1.0, "Weight of the distance on every row.", at_least=0, paper=1, aliases=("alpha",))


def right_rows_setting() -> Any:
    """The weight added by the gate, as every focal method declares it."""
    help_text = "Weight added on rows where the gate is open: those that the old model gets right."
    return setting(5.0, help_text, at_least=0, paper=5, aliases=("beta",))


def temperature_setting() -> Any:
    """The temperature of softened outputs."""
    return setting(100.0, "Temperature of the softened outputs (KL distances).", above=0, paper=100)


@register("kd", paper="Hinton et al. 2015", bibtex=YAN_2021, tag="distillation", order=20)
@dataclass(frozen=True)
class Distillation(OldVersionsMethod):
    """KL divergence from the old model's softened outputs, the same on every row.

    KL(old || new) of the softmax at `temperature`, summed over the classes as a divergence is, times temperature
    squared so that its gradient keeps its size.
    """

    every_row: float = every_row_setting()
    temperature: float = temperature_setting()

    @property
    def term(self) -> str:
        return "distillation"

    def loss(self, batch: Batch) -> Tensor:
        from ..distances import soft_kl

        return self.row_weights(batch) * soft_kl(batch.logits, batch.reference, self.temperature)

    def row_weights(self, batch: Batch) -> Tensor | float:
        """The weight of each row, shape [rows]: with [rows, 1] it would broadcast, and no longer be focal."""
        return self.every_row

    def sentence(self) -> str:
        return "Trained with distillation from the old model."


@register("fd-kl", paper="Yan et al. 2021, eq. 7 and 8", bibtex=YAN_2021, tag="focal-distillation", order=30)
@dataclass(frozen=True)
class FocalDistillationKL(Distillation):
    """The KL divergence of `kd`, with more weight on rows that the old model gets right."""

    right_rows: float = right_rows_setting()

    strengths = (
        {"every_row": 0.05, "right_rows": 0.25},
        {"every_row": 0.2, "right_rows": 1.0},
        {"every_row": 1.0, "right_rows": 5.0},
    )

    def gate(self, batch: Batch) -> Tensor:
        """The rows that get the added weight."""
        return batch.right

    def row_weights(self, batch: Batch) -> Tensor | float:
        return self.every_row + self.right_rows * self.gate(batch).to(batch.logits.dtype)

    def sentence(self) -> str:
        return "Trained with focal distillation: near the old model where that one is right."


@register("fd-lm", paper="Yan et al. 2021, eq. 7 and 9", bibtex=YAN_2021, tag="focal-distillation", order=40)
@dataclass(frozen=True)
class FocalDistillation(OldVersionsMethod):
    """Half the squared difference to the old model's logits, with more weight on rows that it gets right.

    Averaged over the classes. The paper writes the sum, its code takes the mean without the half. The mean is the
    default because the sum grows with the number of classes and diverges at learning rates at which the mean trains.
    """

    every_row: float = every_row_setting()
    right_rows: float = right_rows_setting()
    class_reduction: str = setting(
        "mean", "Squared logit differences: their mean over the classes, or the paper's sum.", choices=("mean", "sum")
    )

    strengths = FocalDistillationKL.strengths

    @property
    def term(self) -> str:
        return "distillation"

    def gate(self, batch: Batch) -> Tensor:
        """The rows that get the added weight."""
        return batch.right

    def loss(self, batch: Batch) -> Tensor:
        from ..distances import half_squared

        weight = self.every_row + self.right_rows * self.gate(batch).to(batch.logits.dtype)
        return weight * half_squared(batch.logits - batch.reference, self.class_reduction)

    def sentence(self) -> str:
        return "Trained with focal distillation: near the old model where that one is right."


@register("fd-dynamic", paper="Xie et al. 2021", bibtex=XIE_2021, tag="focal-distillation", order=50)
@dataclass(frozen=True)
class DynamicFocalDistillation(FocalDistillationKL):
    """`fd-kl` with a gate that follows the new model: open where the old model is surer of the label.

    Each probability is over all classes of its model, so that what the new model gives to added classes counts.
    """

    strengths = (
        {"every_row": 0.0, "right_rows": 1.0, "temperature": 2.0},
        {"every_row": 0.0, "right_rows": 2.0, "temperature": 2.0},
        {"every_row": 0.0, "right_rows": 4.0, "temperature": 2.0},
    )

    def gate(self, batch: Batch) -> Tensor:
        return reference_is_surer(batch)

    def sentence(self) -> str:
        return "Trained with focal distillation: near the old model where that one is surer of the label."
