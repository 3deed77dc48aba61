"""Settings of a merge: everything of `TrainingArguments`, and what BCWI adds."""

from __future__ import annotations

from dataclasses import dataclass, field

from transformers import TrainingArguments

from ..flips.choice.contract import DEFAULT_RISK
from ..flips.metric_names import lower_is_better
from ..methods.base import MergeRule
from ..methods.settings import settings_of
from ..models.fisher.diagonal import LABELS
from .interpolate import as_rule, merge_rules
from .selection import Contract


def _with_rule_settings(cls: type) -> type:
    """A field for each setting that a merge rule declares."""
    for rule in merge_rules().values():
        for entry in settings_of(rule):
            cls.__annotations__[entry.name] = entry.type
            setattr(cls, entry.name, field(default=entry.default, metadata={"help": entry.help}))
    return cls


@dataclass
@_with_rule_settings
class BCWIArguments(TrainingArguments):
    """`TrainingArguments` plus how to merge, which alphas to try, and the contract that chooses among them.

    Example:
        >>> from hf_pct import BCWIArguments
        >>> args = BCWIArguments("merged", method="linear", alphas=[0.0, 0.25, 0.5, 1.0], max_nfr=0.01)
        >>> args.max_nfr, args.num_train_epochs
        (0.01, 3.0)
    """

    method: str = field(
        default="linear",
        metadata={"help": " ".join(f"{name}: {rule.summary()}" for name, rule in merge_rules().items())},
    )
    alphas: list[float] | None = field(
        default=None, metadata={"help": "Shares of the old model to try; the paper's grid by default."}
    )
    greedy_soup: bool = field(
        default=False, metadata={"help": "Of several new models, average only those that help on development data."}
    )
    fisher_label: str = field(
        default="argmax", metadata={"help": "Label of the Fisher: argmax (the paper), true or expectation."}
    )
    fisher_samples: int | None = field(default=None, metadata={"help": "Rows for the Fisher; all when unset."})
    recalibrate: bool | None = field(
        default=None,
        metadata={"help": "Re-estimate BatchNorm statistics after a merge; by default when the model has them."},
    )
    recalibration_samples: int = field(default=2048, metadata={"help": "Training rows for that."})
    align: str | None = field(
        default=None, metadata={"help": "permutation: re-base the new models onto the old one before merging."}
    )
    keep_old_head: bool = field(
        default=False, metadata={"help": "In train(): keep the old classes' rows of the classifier fixed."}
    )
    barrier_limit: float = field(
        default=0.03, metadata={"help": "Warn when accuracy midway falls this far below the line between both ends."}
    )
    margin: float | None = field(
        default=None,
        metadata={"help": "Accuracy that may be lost against the new model; 0 unless max_nfr is the only condition."},
    )
    target_accuracy: float | None = field(
        default=None, metadata={"help": "Lower end of a target model's accuracy interval: the yardstick instead."}
    )
    test_confidence: float | None = field(
        default=None, metadata={"help": "Ask for a paired test at this level instead of the measured accuracy."}
    )
    risk: float | None = field(
        default=DEFAULT_RISK,
        metadata={
            "help": "Chance of losing more than the margin that the choice may take, by a curve fitted to the rows; "
            "the default means 0.2 with margins, as in a sweep; none: compare what was measured, noise and all."
        },
    )
    max_nfr: float | None = field(default=None, metadata={"help": "Flips allowed; the most accurate alpha is taken."})
    certify: bool = field(default=False, metadata={"help": "Search on half of the rows, prove on the other half."})
    delta: float = field(default=0.05, metadata={"help": "Risk that the certificate is wrong."})

    def __post_init__(self) -> None:
        problems = []
        try:
            self.rule  # noqa: B018, built to have its settings checked
        except ValueError as error:
            problems.append(str(error))
        if self.fisher_label not in LABELS:
            problems.append(f"fisher_label is {self.fisher_label!r}, expected one of {', '.join(LABELS)}")
        if self.align not in (None, "permutation"):
            problems.append(f"align is {self.align!r}, expected nothing or 'permutation'")
        problems += [f"alphas hold {a}, expected numbers from 0 to 1" for a in self.alphas or () if not 0 <= a <= 1]
        if self.recalibration_samples < 1 or (self.fisher_samples is not None and self.fisher_samples < 1):
            problems.append("recalibration_samples and fisher_samples must be at least 1")
        try:
            self.contract()
        except ValueError as error:
            problems.append(str(error))
        if problems:
            raise ValueError("These merging arguments cannot be used:\n  " + "\n  ".join(problems))
        if getattr(self, "greater_is_better", None) is None and lower_is_better(self.metric_for_best_model):
            self.greater_is_better = False  # Trainer would take the most negative flips for the best
        super().__post_init__()

    @property
    def rule(self) -> MergeRule:
        """The merge rule with its settings."""
        return as_rule(self.method, self)

    @property
    def grid(self) -> tuple[float, ...]:
        """The alphas of a sweep, with both ends, which every report needs."""
        chosen = self.alphas or self.rule.alphas
        return tuple(sorted({0.0, 1.0, *map(float, chosen)}))

    def contract(self) -> Contract:
        return Contract(
            margin=self.margin,
            target_accuracy=self.target_accuracy,
            confidence=self.test_confidence,
            risk=self.risk,
            max_nfr=self.max_nfr,
            certify=self.certify,
            delta=self.delta,
        )
