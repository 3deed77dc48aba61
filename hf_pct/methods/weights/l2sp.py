"""`l2-sp`: a penalty on the squared distance to the old weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..base import WeightMethod
from ..registry import register
from ..settings import setting

if TYPE_CHECKING:
    from torch import Tensor

LI_2018 = """@inproceedings{li2018explicit,
  title     = {Explicit Inductive Bias for Transfer Learning with Convolutional Networks},
  author    = {Li, Xuhong and Grandvalet, Yves and Davoine, Franck},
  booktitle = {Proceedings of the 35th International Conference on Machine Learning (ICML)},
  year      = {2018}
}"""


@register("l2-sp", paper="Li et al. 2018", bibtex=LI_2018, order=20)
@dataclass(frozen=True)
class StartingPointPenalty(WeightMethod):
    """Adds `l2_sp_weight / 2 * sum (w - w_old)^2`."""

    l2_sp_weight: float = setting(0.0, "L2-SP: weight of half the sum of (w - w_old)^2.", at_least=0)

    strengths = tuple({"l2_sp_weight": 10.0**power} for power in range(-4, 2))

    def curvature(self, fisher: Tensor | None) -> Tensor | float:
        return self.l2_sp_weight

    def sentence(self) -> str:
        return "Its weights were held near the old model's by a penalty on their distance (L2-SP)."
