"""`FocalDistillTrainer`: cross-entropy plus a distance to the old model, heavier where the old model is right."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from torch import nn

from .args import FocalDistillArguments
from .base import PCTrainer
from .losses import FocalDistillationLoss, NaiveReweightingLoss, ReferenceLoss


class FocalDistillTrainer(PCTrainer):
    """`Trainer` with positive-congruent training (Yan et al., CVPR 2021): `CE + pc_weight * term`, see `args.method`.

    >>> trainer = FocalDistillTrainer(
    ...     model, FocalDistillArguments("out"), train_dataset=train, eval_dataset=test, processing_class=tokenizer,
    ...     old_model="org/model-v1",
    ... )  # doctest: +SKIP
    """

    args: FocalDistillArguments

    def __init__(
        self,
        model: nn.Module | None = None,
        args: FocalDistillArguments | None = None,
        *positional: Any,
        **kwargs: Any,
    ) -> None:
        if not isinstance(args, FocalDistillArguments):
            raise TypeError(f"args is {type(args).__name__}, expected FocalDistillArguments.")
        super().__init__(model, args, *positional, **kwargs)

    def build_reference_loss(self) -> ReferenceLoss | None:
        return build_loss(self.args, self.args.method)

    def weigh_references(self, names: Collection[str]) -> dict[str, float]:
        """Which versions of a chain the new one is held near (Zhao et al., Table 5); the weight is shared by them."""
        newest, *earlier = names
        targets = {"chain": [newest], "radial": [next(iter(earlier), newest)], "full": [newest, *earlier]}
        chosen = targets[self.args.targets]
        return dict.fromkeys(chosen, self.args.pc_weight / len(chosen))

    def advice(self, term: str) -> str:
        if self.reference_loss is None or not term.startswith(self.reference_loss.name):
            return super().advice(term)
        now = f"pc_weight={self.args.pc_weight:g}, alpha={self.args.alpha:g}, beta={self.args.beta:g}"
        return f"Lower pc_weight, or alpha and beta (now {now}). {super().advice(term)}"


def build_loss(args: FocalDistillArguments, method: str) -> ReferenceLoss | None:
    """The loss that `method` names. Plain distillation is focal distillation without its focus."""
    if method == "none":
        return None
    if method == "naive":
        return NaiveReweightingLoss()
    return FocalDistillationLoss(
        alpha=args.alpha,
        beta=0.0 if method == "kd" else args.beta,
        distance="lm" if method == "fd-lm" else "kl",
        temperature=args.temperature,
        dynamic=method == "fd-dynamic",
    )
