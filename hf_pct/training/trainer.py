"""`PCTrainer`: a `Trainer` that knows the old model.

It obtains reference logits, adds the terms of a method (`hf_pct/methods/`) to cross-entropy, logs each under its own
name, reports flips at every evaluation and stops when a term diverges.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor, nn
from transformers import Trainer

from ..hub.trainer_push import PushUpdateMixin
from ..methods.base import IGNORED, Batch, TrainingMethod
from ..methods.distances import mean_over_rows
from ..models.load import label_names_of, logits_of
from ..models.load.adapters import save_labels
from ..models.load.answering import explained_padding
from ..models.types import Inputs, ModelSource, Processor, RowSource
from .anchors.penalties import Anchors
from .arguments import PCTArguments, methods_run_by
from .callbacks import TrainerHooks
from .checks import (
    check_anchors,
    check_labels,
    check_metric,
    check_output,
    check_references,
    check_single_label,
)
from .divergence import DivergenceStops, LossWatch, calmer_steps
from .evaluation.contract import ContractChoice
from .evaluation.metrics import UNKNOWN, FlipMetrics, Metrics, PlainLabels, split_labels
from .feature_map import LearntFeatureMaps
from .label_loss import added_classes, label_loss
from .reference_context import trainer_context
from .references.feature_parts import BatchFeatures, FeatureParts
from .references.part import Named
from .references.rows import FEATURES, LOGITS, ReferenceCollator, is_reference
from .references.sources import OLD, ReferenceSource
from .references.spec import SharedClasses, old_versions

if TYPE_CHECKING:
    from torch.utils.data import DataLoader, Sampler
    from transformers.trainer_utils import EvalLoopOutput


class PCTrainer(PushUpdateMixin, DivergenceStops, LearntFeatureMaps, ContractChoice, Trainer):
    """Swap `Trainer` for it, name the old model, keep everything else.

    `old_model` is a Hub id, a folder, a module or a loaded model; `args.old_model` and `args.old_adapter` do the same
    from a command line. A list of them is a chain of versions, the oldest first: flips are counted against each, and
    the last is the one in service. Datasets that carry the old model's logits in a column need no old model: pass
    `old_label_names` when its classes are not the new model's. `method` is a method object to train with; by default
    `args` say which and with what settings. `references` are models beside the old one that a method asks for.

    Example:
        >>> from hf_pct import PCTArguments, PCTrainer
        >>> args = PCTArguments("next", max_steps=2, report_to="none")
        >>> trainer = PCTrainer(model, args, train_dataset=train, processing_class=tokenizer, old_model="v1")
        >>> result = trainer.train()  # doctest: +ELLIPSIS
        {...}
        >>> result.global_step
        2
    """

    args: PCTArguments
    model_accepts_loss_kwargs: bool
    data_collator: ReferenceCollator
    _signature_columns: list[str] | None
    compute_metrics: Callable[..., Metrics] | None
    preprocess_logits_for_metrics: Callable[[Tensor, Tensor], object] | None
    train_dataset: RowSource
    eval_dataset: RowSource

    arguments_class: ClassVar[type[PCTArguments]] = PCTArguments
    needs_model_init: ClassVar[bool] = False
    trainer_name: ClassVar[str] = "FocalDistillTrainer"
    """Methods name the trainer that runs them; this class and its subclasses run those of this name."""

    def __init__(
        self,
        model: nn.Module | None = None,
        args: PCTArguments | None = None,
        *positional: object,
        old_model: ModelSource | Sequence[ModelSource] | None = None,
        old_processor: Processor | None = None,
        old_label_names: Sequence[str] | None = None,
        method: TrainingMethod | None = None,
        references: Mapping[str, ModelSource] | None = None,
        **kwargs: object,
    ) -> None:
        if not isinstance(args, self.arguments_class):
            raise TypeError(f"args is {type(args).__name__}, expected {self.arguments_class.__name__}.")
        self._own_method, self._own_references = method, dict(references or {})
        self.method = self.choose_method(args)
        super().__init__(model, args, *positional, **kwargs)
        check_single_label(self.model)
        # `compute_loss` below divides by the rows of the whole accumulated batch; Trainer must count them and not
        # divide again. It decides both by this flag, which for most models is set without being true.
        self.model_accepts_loss_kwargs = True
        self._named_old = (old_model, old_processor, old_label_names)
        self._plain_collator, self._user_metrics = self.data_collator, self.compute_metrics
        if self.preprocess_logits_for_metrics is not None:
            self.preprocess_logits_for_metrics = PlainLabels(self.preprocess_logits_for_metrics)
        self.watch = LossWatch(self.args.divergence_limit)
        self.prepare_references()
        self.add_callback(TrainerHooks(self))

    # ---- the method and its references

    def choose_method(self, args: PCTArguments) -> TrainingMethod:
        """The method that was passed, or the one that `args` name; one that this trainer does not run is refused."""
        method = self._own_method if self._own_method is not None else args.training_method()
        if method.trainer != self.trainer_name:
            raise ValueError(
                f"method={method.name!r} is trained by {method.trainer}, not by {type(self).__name__}, which runs "
                f"{', '.join(methods_run_by(self.trainer_name))}. Use {method.trainer}, or set another method."
            )
        return method

    def prepare_references(self) -> None:
        """Everything that follows from the method and its settings; done again when they were changed."""
        self._prepared_with = self._settings_of_references()
        self.method = self.choose_method(self.args)
        self.anchors = Anchors(self.args.weight_methods())
        named = self.name_references(*self._named_old)
        check_output(self.args.output_dir, [entry.model for entry in named.values()])
        self.reference_weights = self.method.weights(self.held_versions(named))
        check_references(self.method.name, self.reference_weights, named)
        self.features = FeatureParts(self.method.needs, self.method.learns_map)
        self.source = ReferenceSource(trainer_context(self), self.features.asked(named, self.reference_weights))
        self.shared: dict[str, SharedClasses] = {
            name: SharedClasses(part.label_names or (), label_names_of(self.model), part.named.title)
            for name, part in self.source.parts.items()
        }
        self.data_collator = ReferenceCollator(
            self._plain_collator, *self.source.own_inputs(), share_raw=not self.args.remove_unused_columns
        )
        self.source.check()
        self.features.check(self.model, self.source, self.reference_weights, self.method.name)
        self.check_maps(self.is_deepspeed_enabled or self.is_fsdp_enabled)
        check_anchors(self.args, self.source.old, self.is_deepspeed_enabled)
        check_metric(self.args, self.shared, None if self._user_metrics else self.eval_dataset)
        known = {name: shared.known().numpy() for name, shared in self.shared.items()}
        for shared in self.shared.values():
            shared.to(self.args.device)
        self.compute_metrics = FlipMetrics(known, self._user_metrics)

    def name_references(
        self,
        old_model: ModelSource | Sequence[ModelSource] | None,
        processor: Processor,
        label_names: Sequence[str] | None,
    ) -> dict[str, Named]:
        """Every reference by its name: the model in service is `old`, earlier versions are `old_1`, `old_2`, ..."""
        chain = old_versions(old_model if old_model is not None else self.args.old_model, self.args.earlier_models)
        earlier = {f"{OLD}_{number}": Named(version) for number, version in enumerate(chain[:-1], start=1)}
        others = {**self.method.references(), **self._own_references}
        return {
            OLD: Named(
                chain[-1] if chain else None,
                self.args.old_revision,
                self.args.old_adapter,
                processor,
                label_names,
                self.args.old_logits_column,
            ),
            **{name: replace(named, title=f"the old model {name}") for name, named in earlier.items()},
            **{name: Named(model, title=f"the reference {name}") for name, model in others.items()},
        }

    def held_versions(self, named: Mapping[str, Named]) -> list[str]:
        """The old versions that the method may hold the model near, the one in service first."""
        return [name for name in named if name == OLD or name.startswith(f"{OLD}_")]

    def _hp_search_setup(self, trial: object) -> None:
        """When a training begins: make again what depends on settings that a trial or the caller changed."""
        super()._hp_search_setup(trial)
        if self.model is None:  # transformers 5.0 makes the trial's model after this, and has given up the last one
            self.model = self.call_model_init(trial)
        self.follow_settings()
        self.watch = LossWatch(self.args.divergence_limit)

    def follow_settings(self) -> None:
        """Make again what depends on settings that were changed, by a search or by hand."""
        self.args.check()
        if self._settings_of_references() != self._prepared_with:
            self._signature_columns = None
            self.prepare_references()

    def _settings_of_references(self) -> list[object]:
        names = ("old_model", "old_revision", "old_adapter", "earlier_models", "reference_columns")
        chosen = [copy.copy(getattr(self.args, name)) for name in (*names, "old_logits_column")]
        return [self.choose_method(self.args), self.args.weight_methods(), *chosen]

    # ---- the loss

    def loss_terms(
        self,
        logits: Tensor,
        references: Mapping[str, Tensor],
        labels: Tensor,
        outputs: object = None,
        training: bool = False,
        features: BatchFeatures | None = None,
    ) -> dict[str, Tensor]:
        """The terms whose sum is trained on, by name: cross-entropy, and one for each reference, weighted."""
        method = self.method
        seen = method.label_logits(logits, added_classes(logits, self.shared.get(OLD))) if training else logits
        own = label_loss(seen, labels, outputs, self.compute_loss_func, self.args.label_smoothing_factor)
        terms = {"ce": method.label_weight * own}
        for number, (name, weight) in enumerate(self.reference_weights.items()):
            if name in references:
                batch = Batch(logits, references[name], labels, self.shared[name], name)
                batch = features.added_to(batch) if features else batch
                mean = mean_over_rows(method.loss(batch), batch.known)
                terms[method.term if number == 0 else f"{method.term}_{name}"] = weight * mean
        return terms

    def advice(self, term: str) -> str:
        """What to change when a term diverges."""
        own = f"{self.method.advice()} " if term.startswith(self.method.term) else ""
        return own + calmer_steps(self.args.learning_rate, self.args.max_grad_norm)

    def compute_loss(
        self,
        model: nn.Module,
        inputs: Inputs,
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Tensor | tuple[Tensor, dict[str, Tensor]]:
        """Sum of the terms; in training its share of the accumulated batch, so that splitting one changes nothing."""
        logits, terms, idle = self._terms(model, inputs)
        loss = torch.stack(list(terms.values())).sum()
        if model.training:
            self.watch_terms(inputs, {**terms, **self.anchors.values()}, idle)
            loss = loss * self._share(inputs["labels"], num_items_in_batch)
        return (loss, {"loss": loss, "logits": logits}) if return_outputs else loss

    def _terms(self, model: nn.Module, inputs: Inputs) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]:
        """Logits, the terms of the loss, and what each term would be for logits of zero."""
        labels = check_labels(inputs, len(label_names_of(self.model)))
        answers = self.source.answers(inputs, self.reference_weights)
        references = {name: answer.logits for name, answer in answers.items()}
        own = {key: value for key, value in inputs.items() if key != "labels" and not is_reference(key)}
        with explained_padding(self.model), self.features.watching(self.model) as tap:
            outputs = model(**own)
            logits = logits_of(outputs)
            features = self.features.of_batch(tap, own, logits, answers)
        with torch.no_grad():
            zeros, nothing = torch.zeros_like(logits), features and features.idle()
            idle = self.loss_terms(zeros, references, labels, outputs, features=nothing)
            idle = {"ce": idle["ce"]} if self.method.bounded else idle
        return logits, self.loss_terms(logits, references, labels, outputs, model.training, features), idle

    def _share(self, labels: Tensor, num_items: Tensor | int | None) -> Tensor | float:
        """This batch's part of the optimizer step: its rows over all rows, times the processes that DDP averages."""
        if num_items is None:  # then Trainer divides by the number of accumulated batches itself
            return 1.0
        if self.args.n_gpu > 1:
            return 1.0 / self.current_gradient_accumulation_steps
        averaged = self.accelerator.num_processes if self.args.average_tokens_across_devices else 1
        all_rows = torch.as_tensor(num_items, device=labels.device).clamp_min(1)  # a step may have no labelled row
        return labels.ne(IGNORED).sum() * averaged / all_rows

    def training_step(
        self, model: nn.Module, inputs: Inputs, num_items_in_batch: Tensor | int | None = None
    ) -> Tensor:
        loss = super().training_step(model, inputs, num_items_in_batch)
        if self.accelerator.sync_gradients:  # penalties are the same for every batch: once per step is enough
            self.anchors.add_gradients(self.accelerator)
            self.share_map_gradients()
        return loss

    @property
    def last_term(self) -> str:
        return self.method.term if self.reference_weights else "ce"

    # ---- data that carries the reference

    def get_train_dataloader(self) -> DataLoader:
        self.source.prepare(evaluates=self.args.eval_strategy != "no" or self.args.eval_on_start)
        if self.anchors.methods and self.anchors.old is None and self.source.old is not None:
            self.anchors.remember(self.source.context, self.source.old.reference)
        self.source.release()
        return super().get_train_dataloader()

    def _get_dataloader(
        self,
        dataset: RowSource,
        description: str,
        batch_size: int,
        sampler_fn: Callable[[RowSource], Sampler] | None = None,
        is_training: bool = False,
        dataloader_key: str | None = None,
    ) -> DataLoader:
        """Rows that carry reference logits; samplers see the dataset itself, with its columns."""
        rows = self.source.rows(dataset, training=is_training)
        sampler = None if sampler_fn is None else lambda _rows: sampler_fn(dataset)
        return super()._get_dataloader(rows, description, batch_size, sampler, is_training, dataloader_key)

    def _set_signature_columns_if_needed(self) -> None:
        first = self._signature_columns is None
        super()._set_signature_columns_if_needed()
        if first:
            carried = [start + name for name in self.shared for start in (LOGITS, FEATURES)]
            known = self._signature_columns or []
            self._signature_columns = [*known, *carried, self.args.old_logits_column, *self.data_collator.raw]

    # ---- evaluation

    def prediction_step(
        self, model: nn.Module, inputs: Inputs, prediction_loss_only: bool, ignore_keys: list[str] | None = None
    ) -> tuple[Tensor | None, Tensor | None, Tensor | tuple[Tensor, ...] | None]:
        if not self.shared:
            return super().prediction_step(model, inputs, prediction_loss_only, ignore_keys)
        inputs = self._prepare_inputs(inputs)
        answers = self.source.answers(inputs)
        references = {name: answer.logits for name, answer in answers.items()}
        kept = {key: value for key, value in inputs.items() if not is_reference(key)}
        if "labels" in kept:
            kept |= {key: value for name, answer in answers.items() for key, value in answer.carried(name).items()}
        loss, logits, labels = super().prediction_step(model, kept, prediction_loss_only, ignore_keys)
        if labels is not None and references:
            unknown = torch.full_like(labels, UNKNOWN)
            labels = (labels, *(self.shared[name].predictions(references[name]) if name in references else unknown
                                for name in self.shared))  # fmt: skip
        return loss, logits, labels

    def evaluation_loop(self, *args: object, **kwargs: object) -> EvalLoopOutput:
        output = super().evaluation_loop(*args, **kwargs)
        prefix = str(kwargs.get("metric_key_prefix", "eval"))
        self.add_contract(output.metrics, prefix)
        return output._replace(label_ids=split_labels(output.label_ids)[0])

    def _save(self, output_dir: str | None = None, state_dict: dict[str, Tensor] | None = None) -> None:
        """An adapter is saved with the names of its classes, which PEFT does not keep, and any model with its maps."""
        super()._save(output_dir, state_dict)
        folder, model = Path(output_dir or self.args.output_dir), self.accelerator.unwrap_model(self.model)
        if hasattr(model, "peft_config"):
            save_labels(folder, label_names_of(model))
        self.save_maps(folder)
