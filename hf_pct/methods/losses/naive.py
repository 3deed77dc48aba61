"""`naive`: rows that the old model gets right count more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..base import Batch
from ..old_versions import OldVersionsMethod
from ..papers import YAN_2021
from ..registry import register

if TYPE_CHECKING:
    from torch import Tensor


@register("naive", paper="Yan et al. 2021, eq. 6", bibtex=YAN_2021, tag="reweighting", order=10)
@dataclass(frozen=True)
class NaiveReweighting(OldVersionsMethod):
    """Cross-entropy once more on the rows that the old model gets right.

    Their weight becomes 1 + `reference_weight`. The sum runs over the right rows and is divided by all rows, as in the
    paper, and the softmax over all classes of the new model: a row that is lost to an added class is lost too.
    """

    def loss(self, batch: Batch) -> Tensor:
        from torch.nn import functional

        labels = batch.all_labels.clamp_min(0)
        return functional.cross_entropy(batch.all_logits, labels, reduction="none") * batch.right

    def sentence(self) -> str:
        return "Trained with more weight on the rows that the old model gets right."
