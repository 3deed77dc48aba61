"""`ract`: regression-alleviating compatible training (Zhang et al., ICLR 2022), contrastive, on features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..base import IGNORED, OLD, Batch, Needs
from ..old_versions import OldVersionsMethod
from ..registry import register
from ..settings import setting

if TYPE_CHECKING:
    from torch import Tensor

ZHANG_2022 = """@inproceedings{zhang2022hot,
  title     = {Hot-Refresh Model Upgrades with Regression-Free Compatible Training in Image Retrieval},
  author    = {Zhang, Binjie and Ge, Yixiao and Shen, Yantao and Li, Yu and Yuan, Chun and Xu, Xuyuan and
               Wang, Yexin and Shan, Ying},
  booktitle = {International Conference on Learning Representations (ICLR)},
  year      = {2022}
}"""


@register("ract", paper="Zhang et al. 2022", bibtex=ZHANG_2022, tag="compatible-training", order=57)
@dataclass(frozen=True)
class RegressionAlleviatingTraining(OldVersionsMethod):
    """New features nearer to the old ones of the same row than to old and new features of other classes.

    Features have length 1. Negatives are the rows of other classes in the batch, the hardest ones of the old and of
    the new model, so a larger batch has harder ones, and a batch that is split into accumulated parts has fewer.
    Features of another width are cut, or filled up with zeros, where they meet the old model's.
    """

    contrast_temperature: float = setting(0.01, "Divides the cosine similarities of features.", above=0, paper=0.01)
    hard_negatives: int | None = setting(
        10, "The nearest rows of other classes, of each model, that count; none: all of them.", at_least=1, paper=10
    )

    needs = Needs(references=(OLD,), features=True)
    bounded = True

    def loss(self, batch: Batch) -> Tensor:
        import torch
        from torch.nn import functional

        from ..distances import fit_width

        if batch.features is None or batch.reference_features is None:
            raise ValueError("ract needs the features of the new and of the old model, and this batch has none.")
        old = functional.normalize(batch.reference_features.float(), dim=-1)
        new = functional.normalize(batch.features.float(), dim=-1)
        meeting = functional.normalize(fit_width(batch.features.float(), old.shape[-1]), dim=-1)
        against_old = meeting @ old.T / self.contrast_temperature
        against_new = new @ new.T / self.contrast_temperature
        labels = batch.all_labels
        other = (labels[:, None] != labels[None]) & (labels != IGNORED)[None]
        positive = against_old.diagonal().unsqueeze(-1)
        compared = torch.cat([positive, self._hardest(against_old, other), self._hardest(against_new, other)], dim=-1)
        return compared.logsumexp(-1) - positive.squeeze(-1)

    def _hardest(self, similarity: Tensor, other: Tensor) -> Tensor:
        masked = similarity.masked_fill(~other, float("-inf"))
        if self.hard_negatives is None or self.hard_negatives >= masked.shape[-1]:
            return masked
        return masked.topk(self.hard_negatives, dim=-1).values

    def advice(self) -> str:
        return f"Raise contrast_temperature or lower reference_weight (now {self.numbers()})."

    def sentence(self) -> str:
        return "Trained with features near the old model's and far from those of other classes (RACT)."
