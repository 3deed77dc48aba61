"""`bct`: backward-compatible training (Shen et al., CVPR 2020): the old head must understand the new features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..base import OLD, Batch, Needs
from ..old_versions import OldVersionsMethod
from ..registry import register
from ..settings import setting

if TYPE_CHECKING:
    from torch import Tensor

SHEN_2020 = """@inproceedings{shen2020towards,
  title     = {Towards Backward-Compatible Representation Learning},
  author    = {Shen, Yantao and Xiong, Yuanjun and Xia, Wei and Soatto, Stefano},
  booktitle = {Proceedings of the IEEE/CVF Conference on Computer Vision and Pattern Recognition (CVPR)},
  year      = {2020}
}"""


@register("bct", paper="Shen et al. 2020", bibtex=SHEN_2020, tag="backward-compatible-training", order=56)
@dataclass(frozen=True)
class BackwardCompatibleTraining(OldVersionsMethod):
    """Cross-entropy of the old model's frozen head on the new model's features, over the classes that both know.

    The head is the old model's as it was trained (the public code freezes a random one). Features of another width
    are cut, or filled up with zeros, or mapped by a linear layer that is trained with the model and saved beside it.
    The features then search a gallery of the old model's, see docs/retrieval.md.
    """

    feature_map: str = setting(
        "fit",
        "How features of another width meet the old head: fit cuts them or fills up with zeros, linear trains a layer "
        "between them, which is saved as feature_map.safetensors.",
        choices=("fit", "linear"),
        paper="fit",
    )

    needs = Needs(references=(OLD,), features=True, head=True)

    @property
    def learns_map(self) -> bool:
        return self.feature_map == "linear"

    def loss(self, batch: Batch) -> Tensor:
        from torch.nn import functional

        if batch.features is None or batch.reference_head is None:
            raise ValueError("bct needs the new model's features and the old model's head, and this batch has none.")
        seen = batch.shared_part(batch.reference_head(batch.features))
        return functional.cross_entropy(seen, batch.labels, reduction="none")

    def sentence(self) -> str:
        return "Trained so that the old model's head understands its features (backward-compatible training)."
