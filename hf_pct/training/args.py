"""Settings of the trainers: everything of `TrainingArguments`, and what an update adds. All problems come at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from transformers import TrainingArguments

LOWER_IS_BETTER = ("nfr", "relative_nfr")
METHODS: tuple[str, ...] = ("none", "naive", "kd", "fd-kl", "fd-lm", "fd-dynamic")
REFERENCES = ("auto", "live", "cached")
TARGETS = ("chain", "radial", "full")
ENSEMBLE_LOSSES = ("ldi", "kd", "fd-kl", "fd-lm")
MEMBER_KINDS = ("seeds", "cycles", "lora")
STUDENT_STARTS = ("new", "member")


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
    methods = METHODS  # no setting, and so without a type

    targets: str = field(
        default="chain",
        metadata={
            "help": "With several old models: chain is held near the newest, radial near the oldest, full near all.",
            "choices": TARGETS,
        },
    )

    def problems(self) -> list[str]:
        problems = super().problems()
        problems += self.one_of("method", self.methods) + self.one_of("targets", TARGETS)
        problems += [
            f"{name}={getattr(self, name)!r}: a weight is a finite number >= 0, the paper's is {paper}"
            for name, paper in (("alpha", 1), ("beta", 5), ("pc_weight", 1))
            if not 0 <= getattr(self, name) < float("inf")
        ]
        if not 0 < self.temperature < float("inf"):
            problems.append(f"temperature={self.temperature!r}: expected a finite number > 0, the paper's is 100")
        return problems


@dataclass
class ELODIArguments(FocalDistillArguments):
    """Settings of `ELODITrainer`; the defaults are the paper's (Zhao et al.: m 8, weight 0.8, p 2), but for `top_k`.

    `alpha`, `beta` and `temperature` are those of the losses of focal distillation, for `ensemble_loss`. All trainers
    of the kit take this class, so that a script has one set of flags.
    """

    methods = (*METHODS, "elodi")

    method: str = field(
        default="elodi",
        metadata={
            "help": "elodi: members, then a student held near their mean. The others are those of focal distillation.",
            "choices": (*METHODS, "elodi"),
        },
    )
    num_members: int = field(default=8, metadata={"help": "Members that are trained from different seeds."})
    members: list[str] | None = field(
        default=None, metadata={"help": "Members that are trained already: folders or Hub ids; none is then trained."}
    )
    student_start: str = field(
        default="new",
        metadata={
            "help": "new: the student starts from model_init, as members do. member: it goes on from the first of "
            "them, which a short fine-tuning wants.",
            "choices": STUDENT_STARTS,
        },
    )
    ldi_weight: float = field(
        default=0.8, metadata={"help": "Weight w of the loss against the ensemble; cross-entropy has 1 - w."}
    )
    lambda_ensemble: float = field(
        default=0.5,
        metadata={
            "help": "With an old model: the ensemble's share of w, the old model has the rest (eq. 9). 1: none."
        },
    )
    ensemble_loss: str = field(
        default="ldi",
        metadata={"help": "The loss against the ensemble: ldi, kd, fd-kl or fd-lm.", "choices": ENSEMBLE_LOSSES},
    )
    top_k: int | None = field(
        default=None,
        metadata={
            "help": "LDI over the classes with the K largest logits of each row; 10 in the paper. None (YAML: null): "
            "all of them, which was better wherever we measured."
        },
    )
    top_k_from: str = field(
        default="reference",
        metadata={"help": "Whose logits are the largest: reference or new.", "choices": ("reference", "new")},
    )
    p: float = field(default=2.0, metadata={"help": "LDI: power of the logit differences."})
    margin: float = field(default=0.0, metadata={"help": "LDI: differences up to this are free."})
    exclude_label: bool = field(default=False, metadata={"help": "LDI: leave the true class out."})
    homogeneous: bool = field(
        default=True, metadata={"help": "Refuse given members that differ in architecture or classes."}
    )
    member_kind: str = field(
        default="seeds",
        metadata={
            "help": "seeds: independent members. Cheaper: cycles are the ends of the cycles of one run with a cyclic "
            "learning rate; lora are adapters on one backbone.",
            "choices": MEMBER_KINDS,
        },
    )
    combine: str = field(
        default="mean",
        metadata={
            "help": "mean of the members' logits, or soup: one model with the mean of their weights.",
            "choices": ("mean", "soup"),
        },
    )
    member_epochs: float | None = field(
        default=None,
        metadata={"help": "Epochs of a member; as the student, and with cycles the student's divided among them."},
    )
    member_learning_rate: float | None = field(
        default=None, metadata={"help": "Learning rate of the members; the student's when unset. LoRA wants more."}
    )
    member_lora_rank: int = field(default=8, metadata={"help": "Rank of the adapters, with member_kind lora."})
    spread_members: bool = field(
        default=False, metadata={"help": "Each process trains some of the members by itself, instead of all together."}
    )

    @property
    def epochs_of_members(self) -> float:
        """How long one member is trained."""
        if self.member_epochs is not None:
            return self.member_epochs
        return self.num_train_epochs / (self.num_members if self.member_kind == "cycles" else 1)

    @property
    def same_start(self) -> bool:
        """Whether members start from the same weights: only then can weights be averaged, or a backbone shared."""
        return self.combine == "soup" or self.member_kind in ("lora", "cycles")

    def problems(self) -> list[str]:
        problems = super().problems() + self.one_of("ensemble_loss", ENSEMBLE_LOSSES)
        problems += self.one_of("top_k_from", ("reference", "new")) + self.one_of("member_kind", MEMBER_KINDS)
        problems += self.one_of("combine", ("mean", "soup")) + self.one_of("student_start", STUDENT_STARTS)
        problems += [
            f"{name}={getattr(self, name)!r}: a share is a number in [0, 1]"
            for name in ("ldi_weight", "lambda_ensemble")
            if not 0 <= getattr(self, name) <= 1
        ]
        if self.num_members < 2:
            problems.append(f"num_members={self.num_members!r}: expected at least 2, the paper's is 8")
        if self.top_k is not None and self.top_k < 1:
            problems.append(f"top_k={self.top_k!r}: expected at least 1, or none for every class; the paper's is 10")
        if not 1 <= self.p < float("inf"):
            problems.append(f"p={self.p!r}: expected a finite number >= 1, the paper's is 2")
        if not 0 <= self.margin < float("inf"):
            problems.append(f"margin={self.margin!r}: expected a finite number >= 0, the paper's is 0")
        if self.member_epochs is not None and not self.member_epochs > 0:
            problems.append(f"member_epochs={self.member_epochs!r}: expected more than 0")
        if self.member_lora_rank < 1:
            problems.append(f"member_lora_rank={self.member_lora_rank!r}: expected at least 1")
        if self.combine == "soup" and self.member_kind == "lora":
            problems.append("combine='soup' with member_kind='lora': take the mean, the backbone is shared already")
        if self.student_start == "member" and self.member_kind == "lora":
            problems.append("student_start='member' with member_kind='lora': an adapter is no model to go on from")
        if self.spread_members and self.member_kind == "cycles":
            problems.append("spread_members with member_kind='cycles': a member starts where the one before it ended")
        return problems
