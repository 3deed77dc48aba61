"""Settings of a merge: everything of `TrainingArguments`, and what BCWI adds."""

from __future__ import annotations

from dataclasses import dataclass, field

from transformers import TrainingArguments

from hf_pct.merging.fisher import LABELS
from hf_pct.merging.selection import Contract

METHODS = ("linear", "soup", "fisher")
LINEAR_ALPHAS = tuple(i / 10 for i in range(11))
# the paper's grid: a Fisher with mean 1 leaves most weights below 1, so that what happens, happens near alpha = 1
FISHER_ALPHAS = (*(i / 10 for i in range(9)), 0.85, 0.9, 0.92, 0.94, 0.96, 0.98, 1.0)


@dataclass
class BCWIArguments(TrainingArguments):
    """`TrainingArguments` plus how to merge, which alphas to try, and the contract that chooses among them."""

    method: str = field(
        default="linear",
        metadata={"help": "linear: one new model. soup: the mean of several. fisher: weights kept as they matter."},
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
    margin: float = field(default=0.0, metadata={"help": "Accuracy that may be lost against the new model."})
    target_accuracy: float | None = field(
        default=None, metadata={"help": "Lower end of a target model's accuracy interval: the yardstick instead."}
    )
    test_confidence: float | None = field(
        default=None, metadata={"help": "Ask for a paired test at this level instead of the measured accuracy."}
    )
    max_nfr: float | None = field(default=None, metadata={"help": "Flips allowed; the most accurate alpha is taken."})
    certify: bool = field(default=False, metadata={"help": "Search on half of the rows, prove on the other half."})
    delta: float = field(default=0.05, metadata={"help": "Risk that the certificate is wrong."})

    def __post_init__(self) -> None:
        problems = []
        if self.method not in METHODS:
            problems.append(f"method is {self.method!r}, expected one of {', '.join(METHODS)}")
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
        super().__post_init__()

    @property
    def grid(self) -> tuple[float, ...]:
        """The alphas of a sweep, with both ends, which every report needs."""
        chosen = self.alphas or (FISHER_ALPHAS if self.method == "fisher" else LINEAR_ALPHAS)
        return tuple(sorted({0.0, 1.0, *map(float, chosen)}))

    def contract(self) -> Contract:
        return Contract(
            margin=self.margin,
            target_accuracy=self.target_accuracy,
            confidence=self.test_confidence,
            max_nfr=self.max_nfr,
            certify=self.certify,
            delta=self.delta,
        )
