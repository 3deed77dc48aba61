"""`FocalDistillTrainer`: cross-entropy plus the loss of any method that is held near the old model."""

from __future__ import annotations

from .arguments import FocalDistillArguments
from .trainer import PCTrainer


class FocalDistillTrainer(PCTrainer):
    """`Trainer` with a loss against the old model: positive-congruent training and its relatives, see `args.method`.

    Example:
        >>> from hf_pct import FocalDistillArguments, FocalDistillTrainer
        >>> args = FocalDistillArguments("next", max_steps=2, report_to="none")
        >>> trainer = FocalDistillTrainer(
        ...     model, args, train_dataset=train, eval_dataset=test, processing_class=tokenizer, old_model="v1"
        ... )
        >>> result, metrics = trainer.train(), trainer.evaluate()  # doctest: +ELLIPSIS
        {...}
        >>> result.global_step, sorted(set(metrics) & {"eval_accuracy", "eval_nfr", "eval_pfr"})
        (2, ['eval_accuracy', 'eval_nfr', 'eval_pfr'])
    """

    args: FocalDistillArguments
    arguments_class = FocalDistillArguments
