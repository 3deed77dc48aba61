"""`ELODITrainer`: members first, then one student whose logits are held near the mean of theirs (Zhao et al.)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from transformers import Trainer

from ..core.decode import JsonObject
from ..methods.argument_fields import arguments_for
from ..methods.losses.elodi import ENSEMBLE
from ..models.ensembles.folders import save_ensemble
from ..models.ensembles.mean import Ensemble
from ..models.load import label_names_of, load_weights
from ..models.types import ModelSource, Processor, RowSource
from .arguments import FocalDistillArguments, PCTArguments, method_field, methods_run_by
from .members.join import calibrated_temperatures, check_member_folders, join_members
from .members.train import Members
from .references.part import Named
from .references.sources import OLD
from .references.spec import ModelReference
from .trainer import PCTrainer

if TYPE_CHECKING:
    from transformers.trainer_utils import TrainOutput

LAG = 0.05  # a student so far behind its ensemble has not learnt what there was to learn

logger = logging.getLogger(__name__)
_METHODS = {**methods_run_by("FocalDistillTrainer"), **methods_run_by("ELODITrainer")}


@arguments_for(methods_run_by("ELODITrainer").values())
class ELODIArguments(FocalDistillArguments):
    """Settings of `ELODITrainer`; the defaults are the paper's (Zhao et al.: m 8, weight 0.8, p 2), but for `top_k`.

    `every_row`, `right_rows` and `temperature` are those of the losses of focal distillation, for `ensemble_loss`.
    `FocalDistillTrainer` takes this class too when `method` is one of its own, so that a script has one set of flags.

    Example:
        >>> from hf_pct import ELODIArguments
        >>> args = ELODIArguments("v2", num_members=4, num_train_epochs=3)
        >>> args.method, args.epochs_of_members
        ('elodi', 3.0)
    """

    methods = tuple(_METHODS)
    method: str = method_field("elodi", _METHODS)

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


class ELODITrainer(PCTrainer):
    """`Trainer` for a model that flips little against any other that was trained this way, whichever comes next.

    `train()` trains `args.num_members` members with cross-entropy from different seeds and then the student with
    `(1 - w) CE + w LDI(student; mean logits of the members)`. Finished members are in `output_dir/members`: a run that
    was stopped goes on with the next one. `members` gives trained ones instead (folders, Hub ids or modules).
    `old_model` is for an old model that was **not** trained this way: it adds `LDI(student; old)`, in the share of
    `1 - ensemble_share`. With `calibration_dataset`, rows that are neither trained on nor tested on, each member's
    logits are divided by its own temperature first, which members of different architectures need.

    Example:
        >>> from hf_pct import ELODIArguments, ELODITrainer
        >>> args = ELODIArguments("next", num_members=2, max_steps=2, report_to="none")
        >>> trainer = ELODITrainer(model_init=new_model, args=args, train_dataset=train, processing_class=tokenizer)
        >>> result = trainer.train()  # doctest: +ELLIPSIS
        {...}
        >>> result.global_step, sorted(folder.name for folder in Path("next/members").iterdir())
        (2, ['0', '1', 'pct_ensemble.json'])
    """

    args: ELODIArguments
    arguments_class = ELODIArguments
    needs_model_init = True
    trainer_name = "ELODITrainer"
    member_trainer_class: type[Trainer] = PCTrainer
    """What members are trained with; replace it when the student's class changes the optimizer or the schedule."""

    def __init__(
        self,
        model: nn.Module | None = None,
        args: ELODIArguments | None = None,
        *positional: object,
        members: Sequence[object] | None = None,
        calibration_dataset: RowSource | None = None,
        **kwargs: Any,
    ) -> None:
        if not isinstance(args, ELODIArguments):
            raise TypeError(f"args is {type(args).__name__}, expected ELODIArguments.")
        self.user_members = list(members if members is not None else args.members or [])
        self.calibration_dataset = calibration_dataset
        self.temperatures: Tensor | None = None
        self._check_members(model, args, kwargs)
        # made here to find out what is wrong with it, and again when it is needed
        self._member_classes: tuple[str, ...] | None = None
        if self.user_members:
            self._member_classes = Ensemble(self.user_members, homogeneous=args.homogeneous).label_names
        super().__init__(model, args, *positional, **kwargs)
        self.members = Members(self)
        if not self.user_members:
            self.members.check()

    # ---- the method

    def name_references(
        self,
        old_model: ModelSource | Sequence[ModelSource] | None,
        processor: Processor,
        label_names: Sequence[str] | None,
    ) -> dict[str, Named]:
        named = super().name_references(old_model, processor, label_names)
        own = label_names_of(self.model)
        names = self._member_classes or own
        if self.args.homogeneous and set(names) != set(own):
            raise ValueError(
                f"The members' classes are not the student's: only members have {sorted(set(names) - set(own))}, only "
                f"the student has {sorted(set(own) - set(names))}. Train members on the same classes, or pass "
                "homogeneous=False to distil the shared ones."
            )
        sparse = self.method.largest_logits() if tuple(names) == tuple(own) else None
        ensemble = Named(self.make_ensemble_reference, label_names=names, top_k=sparse, title="the ensemble")
        return {**named, ENSEMBLE: ensemble}

    def held_versions(self, named: Mapping[str, Named]) -> list[str]:
        """The old model, where there is one; an ELODI student is not held near earlier versions."""
        columns = getattr(self.train_dataset, "column_names", None) or []
        return [OLD] if self._names_old or self.args.old_logits_column in columns else []

    # ---- whether it worked

    def evaluate(self, *args: object, **kwargs: object) -> dict[str, float]:
        """`Trainer.evaluate`, and after training a warning when the student is far behind its ensemble."""
        metrics = super().evaluate(*args, **kwargs)
        if self.state.global_step and not self.is_in_train and self.is_world_process_zero():
            for message in self._lags(metrics):
                logger.warning(message)
        return metrics

    def _lags(self, metrics: Mapping[str, float]) -> list[str]:
        messages = []
        for name, ensemble in metrics.items():
            student = metrics.get(name.replace(f"{ENSEMBLE}_accuracy", "accuracy"))
            if not name.endswith(f"{ENSEMBLE}_accuracy") or student is None or ensemble - student <= LAG:
                continue
            fix = f"Train it longer (num_train_epochs, now {self.args.num_train_epochs:g}; members have member_epochs)"
            if self.method.largest_logits() is not None:
                fix += f", or hold it near the logits of all classes (top_k=None, now {self.args.top_k})"
            if not self.user_members and self.args.student_start == "new" and self.args.member_kind != "lora":
                fix += ", or let it go on from one of them (student_start='member')"
            messages.append(
                f"The student's accuracy is {student:.1%} and its ensemble's {ensemble:.1%}: it has not learnt what "
                f"its members know, and will flip more than they do. {fix}."
            )
        return messages

    # ---- members, then the student

    def call_model_init(self, trial: object = None) -> nn.Module:
        """A new model; with `student_start="member"`, and once all members are there, the first of them."""
        model = super().call_model_init(trial)
        members = getattr(self, "members", None)  # Trainer's own `__init__` asks for a model before they are known
        if self.args.student_start == "member" and members is not None and members.finished:
            model.load_state_dict(load_weights(str(members.paths[0]))[0].state_dict())
        return model

    def train(
        self, resume_from_checkpoint: str | bool | None = None, trial: object = None, *args: object, **kwargs: object
    ) -> TrainOutput:
        """Train the members that are missing, then the student; arguments are the student's."""
        self._hp_search_setup(trial)  # members are trained with the settings of the trial, too
        if not self.user_members and self.reference_weights:
            self.train_members()
        return super().train(resume_from_checkpoint, trial, *args, **kwargs)

    def train_members(self) -> list[Path]:
        """Train the members that are missing, and return the folders of all."""
        paths = self.members.train()
        self._save_ensemble()
        self.accelerator.wait_for_everyone()
        return paths

    def _save_ensemble(self) -> None:
        """Make the folder of the members an ensemble, which `predict` and `compare` take as one model."""
        if not self.is_world_process_zero():
            return
        lora = self.args.member_kind == "lora"
        save_ensemble(
            self.members.folder,
            self.members.paths,
            None if self.temperatures is None else self.temperatures.tolist(),
            kind="adapters" if lora else "models",
            base=self.members.base if lora else None,
            label_names=list(label_names_of(self.model)) if lora else None,
            overwrite=True,
        )

    def member_trainer(self, model: nn.Module, args: PCTArguments) -> Trainer:
        """The trainer of one member: the student's data and collator, cross-entropy alone."""
        return self.member_trainer_class(
            model,
            args,
            data_collator=self.data_collator.collate,
            train_dataset=self.train_dataset,
            processing_class=self.processing_class,
            optimizer_cls_and_kwargs=self.optimizer_cls_and_kwargs,
            compute_loss_func=self.compute_loss_func,
        )

    def make_ensemble_reference(self) -> ModelReference | None:
        """The members as one reference, or `None` while some are still to be trained."""
        if not self.user_members and not (hasattr(self, "members") and self.members.finished):
            return None
        model = join_members(self)
        if self.calibration_dataset is not None and isinstance(model, Ensemble):
            if self.temperatures is None:
                self.temperatures = calibrated_temperatures(self, model)
                if not self.user_members:
                    self._save_ensemble()
            model.temperatures.copy_(self.temperatures)
        names = model.label_names if isinstance(model, Ensemble) else label_names_of(model)
        return ModelReference(model, names, "the ensemble", self.processing_class)

    def _check_members(self, model: nn.Module, args: ELODIArguments, kwargs: JsonObject) -> None:
        problems = check_member_folders(self.user_members)
        if self.user_members and len(self.user_members) < 2:
            problems.append(f"members has {len(self.user_members)}, expected at least 2; the paper has 8")
        if self.user_members and args.student_start == "member":
            problems.append(
                "student_start='member' with members that are given: pass the one to go on from as the model"
            )
        if not self.user_members and model is not None:
            problems.append(
                "a model without members: members are trained from different seeds, so pass model_init=, a function "
                "that makes a new model, in place of the model; or members=[...] that are trained already"
            )
        if self.calibration_dataset is not None and args.combine == "soup":
            problems.append(
                "calibration_dataset with combine='soup': one model has no members to weigh by temperature"
            )
        if problems:
            raise ValueError("This ELODI run cannot start:\n  " + "\n  ".join(problems))
        self._names_old = kwargs.get("old_model") is not None or bool(args.old_model or args.old_adapter)
