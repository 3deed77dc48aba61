"""`FocalDistillTrainer`: cross-entropy plus the loss of any method that is held near the old model."""

from __future__ import annotations

from .arguments import FocalDistillArguments
from .trainer import PCTrainer


class FocalDistillTrainer(PCTrainer):
    """`Trainer` with a loss against the old model: positive-congruent training and its relatives, see `args.method`.

    Example:
        >>> from hf_pct import FocalDistillArguments, FocalDistillTrainer
        >>> trainer = FocalDistillTrainer(
        ...     model, FocalDistillArguments("v2"), old_model="org/model-v1",
        ...     train_dataset=train, eval_dataset=test, processing_class=tokenizer,
        ... )  # doctest: +SKIP
        >>> trainer.train()  # doctest: +SKIP
    """

    args: FocalDistillArguments
    arguments_class = FocalDistillArguments
