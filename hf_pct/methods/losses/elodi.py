"""`elodi`: train an ensemble, then one student whose logits stay near the mean of its members' (Zhao et al.)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..base import OLD, Batch, Needs, RunSize, TrainingMethod
from ..registry import build, find_method, register
from ..settings import setting
from .focal import every_row_setting, right_rows_setting, temperature_setting

if TYPE_CHECKING:
    from torch import Tensor

ZHAO_2022 = """@article{zhao2022elodi,
  title   = {ELODI: Ensemble Logit Difference Inhibition for Positive-Congruent Training},
  author  = {Zhao, Yue and Shen, Yantao and Xiong, Yuanjun and Yang, Shuo and Xia, Wei and Tu, Zhuowen and
             Schiele, Bernt and Soatto, Stefano},
  journal = {arXiv preprint arXiv:2205.06265},
  year    = {2022}
}"""

ENSEMBLE = "ensemble"
"""The name of the reference that the members are together."""


@register("elodi", paper="Zhao et al. 2022", bibtex=ZHAO_2022, order=60)
@dataclass(frozen=True)
class EnsembleLogitDifferenceInhibition(TrainingMethod):
    """Train members from different seeds, then a student whose logits stay near the mean of theirs.

    The loss is `(1 - w) CE + w LDI`. LDI is the p-th power of logit differences, averaged over the `top_k` classes of
    each row; the paper writes a sum, its code takes the mean, and its weight of 0.8 belongs to that mean. The K
    classes are gathered, so a small K is cheap whatever the number of classes. `top_k=None` takes every class. That is
    the default where the paper has 10: its released code has no working K, and with one that works students had more
    errors in every table of ours.
    """

    ldi_weight: float = setting(
        0.8, "Weight w of the loss against the ensemble; cross-entropy has 1 - w.", at_least=0, at_most=1, paper=0.8
    )
    ensemble_share: float = setting(
        0.5,
        "With an old model: the ensemble's share of w, the old model has the rest (eq. 9). 1: the old model has none.",
        at_least=0,
        at_most=1,
        aliases=("lambda_ensemble",),
    )
    ensemble_loss: str = setting("ldi", "The loss against the ensemble.", choices=("ldi", "kd", "fd-kl", "fd-lm"))
    top_k: int | None = setting(
        None,
        "LDI over the classes with the K largest logits of each row. None (YAML: null): all of them, which was better "
        "wherever we measured.",
        at_least=1,
        paper=10,
    )
    top_k_from: str = setting("reference", "Whose logits are the largest.", choices=("reference", "new"))
    p: float = setting(2.0, "LDI: power of the logit differences.", at_least=1, paper=2)
    free_difference: float = setting(
        0.0, "LDI: logit differences up to this are free.", at_least=0, paper=0, aliases=("margin",)
    )
    exclude_label: bool = setting(False, "LDI: leave the true class out, as the paper's released runs do.")
    every_row: float = every_row_setting()
    right_rows: float = right_rows_setting()
    temperature: float = temperature_setting()
    num_members: int = setting(8, "Members that are trained from different seeds.", at_least=2, paper=8)
    members: list[str] | None = setting(
        None, "Members that are trained already: folders or Hub ids; none is then trained."
    )
    student_start: str = setting(
        "new",
        "new: the student starts from model_init, as members do. member: it goes on from the first of them, which "
        "short fine-tuning needs.",
        choices=("new", "member"),
    )
    homogeneous: bool = setting(True, "Refuse given members that differ in architecture or classes.")
    member_kind: str = setting(
        "seeds",
        "seeds: independent members. Cheaper: cycles are the ends of the cycles of one run with a cyclic learning "
        "rate; lora are adapters on one backbone.",
        choices=("seeds", "cycles", "lora"),
    )
    combine: str = setting(
        "mean",
        "mean of the members' logits, or soup: one model with the mean of their weights.",
        choices=("mean", "soup"),
    )
    member_epochs: float | None = setting(
        None,
        "Epochs of a member; as many as the student's when unset, with cycles the student's divided among them.",
        above=0,
    )
    member_learning_rate: float | None = setting(
        None, "Learning rate of the members; the student's when unset. LoRA needs a larger one.", above=0
    )
    member_lora_rank: int = setting(8, "Rank of the adapters, with member_kind lora.", at_least=1)
    spread_members: bool = setting(
        False, "Each process trains some of the members by itself, instead of all together."
    )

    needs = Needs(references=(ENSEMBLE,), members=True)
    trainer = "ELODITrainer"

    @classmethod
    def conflicts(cls, args: Any) -> list[str]:
        problems = []
        if args.combine == "soup" and args.member_kind == "lora":
            problems.append("combine='soup' with member_kind='lora': take the mean, the backbone is shared already")
        if args.student_start == "member" and args.member_kind == "lora":
            problems.append("student_start='member' with member_kind='lora': an adapter is no model to go on from")
        if args.spread_members and args.member_kind == "cycles":
            problems.append("spread_members with member_kind='cycles': a member starts where the one before it ended")
        return problems

    # ---- the loss

    @cached_property
    def _distillation(self) -> TrainingMethod | None:
        return None if self.ensemble_loss == "ldi" else build(find_method(self.ensemble_loss, TrainingMethod), self)

    @property
    def term(self) -> str:
        return "ldi" if self._distillation is None else self._distillation.term

    @property
    def label_weight(self) -> float:
        return 1.0 - self.ldi_weight

    def weights(self, names: Sequence[str]) -> dict[str, float]:
        """`w (share LDI(ensemble) + (1 - share) LDI(old))`, eq. 9; without an old model all is the ensemble's."""
        if not self.ldi_weight:
            return {}
        if self.ensemble_share == 1 or OLD not in names:
            return {ENSEMBLE: self.ldi_weight}
        share = self.ensemble_share
        return {ENSEMBLE: self.ldi_weight * share, OLD: self.ldi_weight * (1 - share)}

    def loss(self, batch: Batch) -> Tensor:
        if self._distillation is not None:
            return self._distillation.loss(batch)
        from ..distances import largest_columns, power_of_difference

        new, reference = batch.logits, batch.reference
        classes = new.shape[-1]
        available = classes - self.exclude_label
        if available < 1:
            return new.sum(-1) * 0.0
        count = available if self.top_k is None else min(self.top_k, available)
        if count < classes:
            source = (reference if self.top_k_from == "reference" else new).detach()
            if self.exclude_label:
                source = source.scatter(-1, batch.labels.unsqueeze(-1), float("-inf"))
            kept = largest_columns(source, count)
            new, reference = new.gather(-1, kept), reference.gather(-1, kept)
        return power_of_difference(new - reference, self.p, self.free_difference).mean(-1)

    def largest_logits(self) -> int | None:
        if self.ensemble_loss != "ldi" or self.top_k is None or self.top_k_from != "reference":
            return None
        return self.top_k + self.exclude_label  # the true class may be among them, and is then left out

    # ---- what it says of itself

    def advice(self) -> str:
        return f"Lower ldi_weight (now {self.ldi_weight:g})."

    def sentence(self) -> str:
        return "Trained to have logits near those of an ensemble (ELODI)."

    def reference_parameters(self, size: RunSize) -> int:
        if self.combine == "soup" or self.member_kind == "lora":
            return size.parameters
        return size.parameters * (len(self.members) if self.members else self.num_members)

    def table_width(self, classes: int) -> int:
        return classes if self.largest_logits() is None else min(2 * (self.top_k or 0), classes)
