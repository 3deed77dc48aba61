"""`mixout`: in training each weight is the old one with probability p (Lee et al., 2020), in place of dropout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..base import HeldWeights, WeightMethod
from ..registry import register
from ..settings import setting

if TYPE_CHECKING:
    from torch import nn

LEE_2020 = """@inproceedings{lee2020mixout,
  title     = {Mixout: Effective Regularization to Finetune Large-scale Pretrained Language Models},
  author    = {Lee, Cheolhyoung and Cho, Kyunghyun and Kang, Wanmo},
  booktitle = {International Conference on Learning Representations (ICLR)},
  year      = {2020}
}"""


@register("mixout", paper="Lee et al. 2020", bibtex=LEE_2020, order=40)
@dataclass(frozen=True)
class MixedWeights(WeightMethod):
    """In training each weight is the old one with this probability, in place of dropout.

    A mixed weight is `w_old + keep / (1 - p) * (w - w_old)`, so its expectation is `w`.
    """

    mixout: float = setting(
        0.0, "Mixout: probability that a weight is the old one in a training step; dropout off.", at_least=0, below=1
    )

    strengths = tuple({"mixout": share} for share in (0.3, 0.6, 0.9))

    def attach(self, model: nn.Module, old: HeldWeights) -> Callable[[], None]:
        from ..mixed_layers import Mixout

        return Mixout(model, old, self.mixout).remove

    def sentence(self) -> str:
        return "In training its weights were mixed with the old model's at random (Mixout)."
