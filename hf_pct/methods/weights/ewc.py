"""`ewc`: elastic weight consolidation, a penalty on moving weights that mattered to the old model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..base import Needs, WeightMethod
from ..registry import register
from ..settings import setting

if TYPE_CHECKING:
    from torch import Tensor

KIRKPATRICK_2017 = """@article{kirkpatrick2017overcoming,
  title   = {Overcoming catastrophic forgetting in neural networks},
  author  = {Kirkpatrick, James and Pascanu, Razvan and Rabinowitz, Neil and Veness, Joel and Desjardins, Guillaume and
             Rusu, Andrei A. and Milan, Kieran and Quan, John and Ramalho, Tiago and Grabska-Barwinska, Agnieszka and
             others},
  journal = {Proceedings of the National Academy of Sciences},
  volume  = {114},
  number  = {13},
  pages   = {3521--3526},
  year    = {2017}
}"""


@register("ewc", paper="Kirkpatrick et al. 2017", bibtex=KIRKPATRICK_2017, order=10)
@dataclass(frozen=True)
class ElasticWeightConsolidation(WeightMethod):
    """Adds `ewc_weight * sum F (w - w_old)^2`, with the old model's diagonal Fisher scaled to a mean of 1.

    The Fisher is taken sample by sample with the old model's own answer as the label, as Schumann et al. (2024) do.
    """

    ewc_weight: float = setting(0.0, "EWC: weight of sum F (w - w_old)^2, F scaled to mean 1.", at_least=0)
    fisher_samples: int | None = setting(
        None, "EWC: rows of the training set that the Fisher is estimated on; all when unset.", at_least=1
    )

    needs = Needs(old_weights=True, fisher=True)
    strengths = tuple({"ewc_weight": 10.0**power} for power in range(-4, 3))

    def curvature(self, fisher: Tensor | None) -> Tensor | float:
        return 0.0 if fisher is None else fisher * (2 * self.ewc_weight)

    def sentence(self) -> str:
        return "Weights that mattered to the old model were held near their old values (EWC)."
