"""Settings of the trainers: everything of `TrainingArguments`, and what an update adds. All problems come at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from transformers import TrainingArguments

LOWER_IS_BETTER = ("nfr", "relative_nfr")
METHODS = ("none", "naive", "kd", "fd-kl", "fd-lm", "fd-dynamic")
REFERENCES = ("auto", "live", "cached")
TARGETS = ("chain", "radial", "full")


@dataclass
class PCTArguments(TrainingArguments):
    """`TrainingArguments` plus the old model, where its logits come from, and weights held near its own.

    The four anchors (EWC, L2-SP, prior weight decay, Mixout) are off at 0; each works alone or beside a distillation
    loss, and all of them need an old model of the new model's architecture.
    """

    old_model: str | None = field(
        default=None, metadata={"help": "The model in service: a Hub id or a folder with safetensors weights."}
    )
    old_revision: str | None = field(default=None, metadata={"help": "Branch, tag or commit of the old model."})
    old_adapter: str | None = field(
        default=None,
        metadata={"help": "Name of a PEFT adapter loaded beside the one in training: base plus it is the old model."},
    )
    earlier_models: list[str] | None = field(
        default=None,
        metadata={"help": "Versions before old_model, the oldest first: flips are counted against them as well."},
    )
    reference: str = field(
        default="auto",
        metadata={
            "help": "live: the old model runs beside the new one. cached: its logits are computed once and kept. "
            "auto: cached for text, live for images unless cached_views is set.",
            "choices": REFERENCES,
        },
    )
    cached_views: int = field(
        default=0,
        metadata={"help": "Images: cache the logits of this many fixed augmented views of each sample; epochs cycle."},
    )
    old_logits_column: str = field(
        default="old_logits",
        metadata={"help": "Column with the old model's logits; where a dataset has it, the old model is not run."},
    )
    reference_columns: list[str] | None = field(
        default=None,
        metadata={"help": "Raw columns (text or image) for the old model's own tokenizer or image processor."},
    )
    reference_cache_dir: str | None = field(
        default=None, metadata={"help": "Where cached logits are kept; beside the datasets cache when unset."}
    )
    divergence_limit: float = field(
        default=20.0,
        metadata={
            "help": "Stop when a loss term stays above this many times what an all-zero output costs; 0: never."
        },
    )
    ewc_weight: float = field(
        default=0.0, metadata={"help": "EWC: weight of sum F (w - w_old)^2, F scaled to mean 1."}
    )
    fisher_samples: int | None = field(
        default=None,
        metadata={"help": "EWC: rows of the training set that the Fisher is estimated on; all when unset."},
    )
    l2_sp_weight: float = field(default=0.0, metadata={"help": "L2-SP: weight of half the sum of (w - w_old)^2."})
    prior_weight_decay: float = field(
        default=0.0, metadata={"help": "Decay toward the old weights after each step: w -= lr * this * (w - w_old)."}
    )
    mixout: float = field(
        default=0.0,
        metadata={"help": "Mixout: probability that a weight is the old one in a training step; dropout off."},
    )

    def __post_init__(self) -> None:
        problems = self.problems()
        if problems:
            raise ValueError("These training arguments cannot be used:\n  " + "\n  ".join(problems))
        metric = (self.metric_for_best_model or "").removeprefix("eval_")
        if getattr(self, "greater_is_better", None) is None and metric in LOWER_IS_BETTER:
            self.greater_is_better = False  # Trainer would take the model with the most negative flips for the best
        super().__post_init__()

    @property
    def anchored(self) -> bool:
        """Whether any setting holds the weights near the old model's."""
        return any((self.ewc_weight, self.l2_sp_weight, self.prior_weight_decay, self.mixout))

    def one_of(self, name: str, choices: Sequence[str]) -> list[str]:
        """A problem, if a setting is none of its choices."""
        value = getattr(self, name)
        return [] if value in choices else [f"{name}={value!r}: expected one of {', '.join(choices)}"]

    def problems(self) -> list[str]:
        """What is wrong with these settings, one line each; subclasses add theirs."""
        problems = [
            f"{name}={getattr(self, name)!r}: expected a finite number >= 0"
            for name in ("ewc_weight", "l2_sp_weight", "prior_weight_decay", "divergence_limit", "cached_views")
            if not 0 <= getattr(self, name) < float("inf")
        ]
        if not 0 <= self.mixout < 1:
            problems.append(f"mixout={self.mixout!r}: expected a probability in [0, 1), at 1 nothing would be trained")
        problems += self.one_of("reference", REFERENCES)
        if self.reference == "live" and self.cached_views:
            problems.append(f"reference='live' with cached_views={self.cached_views}: choose one of the two")
        if self.prior_weight_decay and self.weight_decay:
            problems.append(
                f"prior_weight_decay={self.prior_weight_decay} with weight_decay={self.weight_decay}: one pulls to "
                "the old weights, the other to zero; set weight_decay=0"
            )
        if self.fisher_samples is not None and self.fisher_samples < 1:
            problems.append(f"fisher_samples={self.fisher_samples}: expected at least 1, or none for every row")
        return problems


@dataclass
class FocalDistillArguments(PCTArguments):
    """Settings of `FocalDistillTrainer`; the defaults are the paper's (Yan et al., CVPR 2021: alpha 1, beta 5)."""

    method: str = field(
        default="fd-lm",
        metadata={
            "help": "none: cross-entropy only. naive: rows that the old model gets right count more. kd: plain "
            "distillation. fd-lm, fd-kl: focal distillation on logits or on softened outputs. fd-dynamic: its gate "
            "follows the new model.",
            "choices": METHODS,
        },
    )
    alpha: float = field(default=1.0, metadata={"help": "Weight of the distance to the old model on every row."})
    beta: float = field(
        default=5.0, metadata={"help": "Weight added on rows where the gate is open (old model right)."}
    )
    temperature: float = field(default=100.0, metadata={"help": "Temperature of the softened outputs (KL distances)."})
    pc_weight: float = field(default=1.0, metadata={"help": "Weight of the whole term beside cross-entropy (lambda)."})
    targets: str = field(
        default="chain",
        metadata={
            "help": "With several old models: chain is held near the newest, radial near the oldest, full near all.",
            "choices": TARGETS,
        },
    )

    def problems(self) -> list[str]:
        problems = super().problems()
        problems += self.one_of("method", METHODS) + self.one_of("targets", TARGETS)
        problems += [
            f"{name}={getattr(self, name)!r}: a weight is a finite number >= 0, the paper's is {paper}"
            for name, paper in (("alpha", 1), ("beta", 5), ("pc_weight", 1))
            if not 0 <= getattr(self, name) < float("inf")
        ]
        if not 0 < self.temperature < float("inf"):
            problems.append(f"temperature={self.temperature!r}: expected a finite number > 0, the paper's is 100")
        return problems
