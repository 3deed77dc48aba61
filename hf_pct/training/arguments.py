"""Settings of the trainers: everything of `TrainingArguments`, and what an update adds. All problems come at once.

The settings of methods are fields that are generated from what the methods declare, see `hf_pct/methods/`.
"""

from __future__ import annotations

from dataclasses import field
from importlib import import_module
from typing import Any

from transformers import TrainingArguments

from ..flips.metric_names import lower_is_better
from ..methods.argument_fields import MethodArguments, arguments_for
from ..methods.base import TrainingMethod, WeightMethod
from ..methods.registry import build, find_method, methods_of

REFERENCES = ("auto", "live", "cached")


@arguments_for(methods_of(WeightMethod).values())
class PCTArguments(MethodArguments, TrainingArguments):
    """`TrainingArguments` plus the old model, where its logits come from, and weights held near its own.

    What holds weights (EWC, L2-SP, prior weight decay, Mixout) is off at 0; each works alone or beside a distillation
    loss, and all of them need an old model of the new model's architecture.

    Example:
        >>> from hf_pct import PCTArguments
        >>> args = PCTArguments("v2", old_model="v1", learning_rate=2e-5)
        >>> args.old_model, args.reference
        ('v1', 'auto')
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
    contract_margin: float = field(
        default=0.0,
        metadata={
            "help": "With metric_for_best_model contract: accuracy that a checkpoint may lose against the most "
            "accurate one of the run and still be the best for its fewer flips."
        },
    )
    divergence_limit: float = field(
        default=20.0,
        metadata={
            "help": "Stop when a loss term stays above this many times what an all-zero output costs; 0: never."
        },
    )

    def __post_init__(self) -> None:
        self.check()
        if getattr(self, "greater_is_better", None) is None and lower_is_better(self.metric_for_best_model):
            self.greater_is_better = False  # Trainer would take the model with the most negative flips for the best
        super().__post_init__()

    def check(self) -> None:
        """Raise with everything that is wrong with these settings."""
        problems = self.problems()
        if problems:
            raise ValueError("These training arguments cannot be used:\n  " + "\n  ".join(problems))

    def problems(self) -> list[str]:
        """What is wrong with these settings, one line each; subclasses add theirs."""
        problems = [
            f"{name}={getattr(self, name)!r}: expected a finite number >= 0"
            for name in ("divergence_limit", "cached_views", "contract_margin")
            if not 0 <= getattr(self, name) < float("inf")
        ]
        if self.reference not in REFERENCES:
            problems.append(f"reference={self.reference!r}: expected one of {', '.join(REFERENCES)}")
        if self.reference == "live" and self.cached_views:
            problems.append(f"reference='live' with cached_views={self.cached_views}: choose one of the two")
        return problems + self.setting_problems()

    # ---- what these settings ask for

    def training_method(self) -> TrainingMethod:
        """The loss beside cross-entropy, with its settings."""
        return build(find_method(getattr(self, "method", "none"), TrainingMethod), self)

    def weight_methods(self) -> list[WeightMethod]:
        """What holds weights near the old model's; those that are off are left out."""
        built = [build(method, self) for method in methods_of(WeightMethod).values()]
        return [method for method in built if method.active]

    @property
    def anchored(self) -> bool:
        """Whether any setting holds the weights near the old model's."""
        return bool(self.weight_methods())


def methods_run_by(trainer: str) -> dict[str, type[TrainingMethod]]:
    """The methods that a trainer runs, by name."""
    return {name: method for name, method in methods_of(TrainingMethod).items() if method.trainer == trainer}


def method_field(default: str, methods: dict[str, type[TrainingMethod]]) -> Any:
    """The setting that chooses among methods, with a line of help on each."""
    lines = " ".join(f"{name}: {method.summary()}" for name, method in methods.items())
    return field(default=default, metadata={"help": lines, "choices": tuple(methods)})


_FOCAL = methods_run_by("FocalDistillTrainer")


@arguments_for(_FOCAL.values())
class FocalDistillArguments(PCTArguments):
    """Settings of `FocalDistillTrainer`, which runs every loss against the old model; the defaults are the papers'.

    Example:
        >>> from hf_pct import FocalDistillArguments
        >>> args = FocalDistillArguments("v2", old_model="v1", method="fd-kl")
        >>> args.method, args.every_row, args.right_rows
        ('fd-kl', 1.0, 5.0)
    """

    methods = tuple(_FOCAL)  # no setting, and so without a type
    method: str = method_field("fd-lm", _FOCAL)

    def problems(self) -> list[str]:
        problems = super().problems()
        if self.method not in self.methods:
            problems.append(f"method={self.method!r}: expected one of {', '.join(self.methods)}")
        return problems


def __getattr__(name: str) -> Any:
    """Argument classes of trainers that have a module of their own, under the name of this one."""
    package = import_module(__package__)
    if name in package.__all__ and name.endswith("Arguments"):
        return getattr(package, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
