"""`PCTrainer`: a `Trainer` that knows the old model.

It obtains reference logits, adds loss terms to cross-entropy, logs each under its own name, reports flips at every
evaluation and stops when a term diverges. A method is a subclass that says which references it has, with which loss
it is held near them (`build_reference_loss`) and how strongly near each (`weigh_references`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import Trainer

from ..hub.trainer_push import PushUpdateMixin
from ..tasks import label_names_of, logits_of
from .anchored import build_anchors
from .args import PCTArguments
from .callbacks import TrainerHooks
from .flip_metrics import UNKNOWN, FlipMetrics, split_labels
from .losses import ReferenceLoss
from .reference_part import Named
from .references import SharedClasses, old_versions
from .rows import LOGITS, ReferenceCollator, is_reference
from .sources import OLD, ReferenceSource
from .watch import DivergenceError, LossWatch


class PCTrainer(PushUpdateMixin, Trainer):
    """Swap `Trainer` for it, name the old model, keep everything else.

    `old_model` is a Hub id, a folder, a module or a loaded model; `args.old_model` and `args.old_adapter` do the same
    from a command line. A list of them is a chain of versions, the oldest first: flips are counted against each, and
    the last is the one in service. Datasets that carry the old model's logits in a column need no old model: pass
    `old_label_names` when its classes are not the new model's. On its own this class trains with cross-entropy, the
    anchors that `args` asks for, and flips in the metrics.
    """

    args: PCTArguments
    model_accepts_loss_kwargs: bool
    data_collator: Any
    compute_metrics: Any
    train_dataset: Any
    eval_dataset: Any

    def __init__(
        self,
        model: nn.Module | None = None,
        args: PCTArguments | None = None,
        *positional: Any,
        old_model: Any = None,
        old_processor: Any = None,
        old_label_names: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        if not isinstance(args, PCTArguments):
            raise TypeError(f"args is {type(args).__name__}, expected PCTArguments or a subclass of it.")
        super().__init__(model, args, *positional, **kwargs)
        _check_single_label(self.model)
        # `compute_loss` below divides by the rows of the whole accumulated batch; Trainer must count them and not
        # divide again. It decides both by this flag, which for most models is set without being true.
        self.model_accepts_loss_kwargs = True
        self.reference_loss: ReferenceLoss | None = self.build_reference_loss()
        self.ce_weight = 1.0
        named = self.name_references(old_model, old_processor, old_label_names)
        self.reference_weights: dict[str, float] = self.weigh_references(named) if self.reference_loss else {}
        self.source = ReferenceSource(self, named)
        self.shared: dict[str, SharedClasses] = {
            name: SharedClasses(part.label_names or (), label_names_of(self.model), part.named.title)
            for name, part in self.source.parts.items()
        }
        self.data_collator = ReferenceCollator(
            self.data_collator, *self.source.own_inputs(), share_raw=not self.args.remove_unused_columns
        )
        self.source.check()
        known = {name: shared.known().numpy() for name, shared in self.shared.items()}
        for shared in self.shared.values():
            shared.to(self.args.device)
        self.compute_metrics = FlipMetrics(known, self.compute_metrics)
        self.watch = LossWatch(self.args.divergence_limit)
        self._last_batch: Mapping[str, Any] | None = None
        self.anchors = build_anchors(self.args)
        self.add_callback(TrainerHooks(self))

    # ---- what a method says

    def build_reference_loss(self) -> ReferenceLoss | None:
        """The loss against a reference that this method adds to cross-entropy; none here."""
        return None

    def weigh_references(self, names: Collection[str]) -> dict[str, float]:
        """How much the loss against each reference counts; one that is not named here is there for flips alone."""
        return {}

    def name_references(self, old_model: Any, processor: Any, label_names: Any) -> dict[str, Named]:
        """Every reference by its name: the model in service is `old`, earlier versions are `old_1`, `old_2`, ..."""
        chain = old_versions(old_model if old_model is not None else self.args.old_model, self.args.earlier_models)
        earlier = {f"{OLD}_{number}": Named(each) for number, each in enumerate(chain[:-1], start=1)}
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
        }

    def loss_terms(self, logits: Tensor, references: Mapping[str, Tensor], labels: Tensor) -> dict[str, Tensor]:
        """The terms whose sum is trained on, by name: cross-entropy, and one for each reference, weighted."""
        smoothing = self.args.label_smoothing_factor
        terms = {"ce": self.ce_weight * functional.cross_entropy(logits, labels, label_smoothing=smoothing)}
        loss = self.reference_loss
        for number, (name, weight) in enumerate(self.reference_weights.items()):
            if loss is not None and name in references:
                new, old, known, right = self.shared[name](logits, references[name], labels)
                terms[loss.name if number == 0 else f"{loss.name}_{name}"] = weight * loss(new, old, known, right)
        return terms

    def advice(self, term: str) -> str:
        """What to change when a term diverges."""
        return (
            f"Lower learning_rate (now {self.args.learning_rate:g}) or clip harder with max_grad_norm "
            f"(now {self.args.max_grad_norm:g}, 1.0 is usual)."
        )

    # ---- the loss

    def compute_loss(
        self,
        model: nn.Module,
        inputs: Mapping[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        """Sum of the terms; in training its share of the accumulated batch, so that splitting one changes nothing."""
        logits, terms, idle = self._terms(model, inputs)
        loss = torch.stack(list(terms.values())).sum()
        if model.training:
            self._last_batch = inputs
            try:
                self.watch.add({**terms, **self.anchors.values()}, idle)
            except DivergenceError as error:
                raise self._diverged(error.term, error.detail) from None
            loss = loss * self._share(inputs["labels"], num_items_in_batch)
        return (loss, {"loss": loss, "logits": logits}) if return_outputs else loss

    def _terms(
        self, model: nn.Module, inputs: Mapping[str, Any]
    ) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]:
        """Logits, the terms of the loss, and what each term would be for logits of zero."""
        if "labels" not in inputs:
            raise ValueError(
                f"The batch has no labels, only {', '.join(inputs)}: expected a column 'label' or 'labels' with the "
                "index of each row's class. Rename the column, or let the data collator make it."
            )
        references = self.source.logits(inputs, self.reference_weights)
        own = {key: value for key, value in inputs.items() if key != "labels" and not is_reference(key)}
        logits, labels = logits_of(model(**own)), inputs["labels"]
        with torch.no_grad():
            idle = self.loss_terms(torch.zeros_like(logits), references, labels)
        return logits, self.loss_terms(logits, references, labels), idle

    def _share(self, labels: Tensor, num_items: Tensor | int | None) -> Tensor | float:
        """This batch's part of the optimizer step: its rows over all rows, times the processes that DDP averages."""
        if num_items is None:  # then Trainer divides by the number of accumulated batches itself
            return 1.0
        if self.args.n_gpu > 1:
            return 1.0 / self.current_gradient_accumulation_steps
        averaged = self.accelerator.num_processes if self.args.average_tokens_across_devices else 1
        return labels.ne(-100).sum() * averaged / num_items

    def _diverged(self, term: str, detail: str) -> DivergenceError:
        from transformers.trainer_utils import get_last_checkpoint

        last = get_last_checkpoint(self.args.output_dir)
        return DivergenceError(term, detail, self.state.global_step, self.advice(term), last)

    def training_step(self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None) -> Tensor:
        loss = super().training_step(model, inputs, num_items_in_batch)
        if self.accelerator.sync_gradients:  # penalties are the same for every batch: once an optimizer step will do
            self.anchors.add_gradients(self.accelerator)
        return loss

    # ---- data that carries the reference

    def get_train_dataloader(self) -> Any:
        plain = self.train_dataset
        self.source.prepare()
        self.train_dataset = self.source.rows(plain, training=True)
        try:
            return super().get_train_dataloader()
        finally:
            self.train_dataset = plain

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        plain = self.eval_dataset
        if isinstance(eval_dataset, str):  # the name goes on: Trainer keeps workers that outlive an evaluation by it
            self.eval_dataset = {**plain, eval_dataset: self.source.rows(plain[eval_dataset])}
        elif eval_dataset is None:
            self.eval_dataset = self.source.rows(plain)
        else:
            eval_dataset = self.source.rows(eval_dataset)
        try:
            return super().get_eval_dataloader(eval_dataset)
        finally:
            self.eval_dataset = plain

    def get_test_dataloader(self, test_dataset: Any) -> Any:
        return super().get_test_dataloader(self.source.rows(test_dataset))

    def _set_signature_columns_if_needed(self) -> None:
        first = self._signature_columns is None
        super()._set_signature_columns_if_needed()
        if first:
            carried = [LOGITS + name for name in self.shared]
            self._signature_columns += [*carried, self.args.old_logits_column, *self.data_collator.raw]

    # ---- evaluation

    def prediction_step(
        self, model: nn.Module, inputs: dict[str, Any], prediction_loss_only: bool, ignore_keys: Any = None
    ) -> tuple[Tensor | None, Any, Any]:
        if not self.shared:
            return super().prediction_step(model, inputs, prediction_loss_only, ignore_keys)
        inputs = self._prepare_inputs(inputs)
        references = self.source.logits(inputs)
        kept = {key: value for key, value in inputs.items() if not is_reference(key)}
        if "labels" in kept:
            kept |= {LOGITS + name: value for name, value in references.items()}
        loss, logits, labels = super().prediction_step(model, kept, prediction_loss_only, ignore_keys)
        if labels is not None and references:
            unknown = torch.full_like(labels, UNKNOWN)
            labels = (labels, *(self.shared[name].predictions(references[name]) if name in references else unknown
                                for name in self.shared))  # fmt: skip
        return loss, logits, labels

    def evaluation_loop(self, *args: Any, **kwargs: Any) -> Any:
        output = super().evaluation_loop(*args, **kwargs)
        return output._replace(label_ids=split_labels(output.label_ids)[0])

    # ---- logs and checkpoints

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        if "loss" in logs:
            means = self.watch.means()
            if means:
                gathered = self.accelerator.gather(torch.tensor([list(means.values())], device=self.args.device))
                logs |= {f"loss_{name}": value for name, value in zip(means, gathered.mean(0).tolist(), strict=True)}
        super().log(logs, start_time)

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        """A checkpoint that a diverging run would leave behind is not written, so the last good one stays the last."""
        if self.weights_are_good(model):
            super()._save_checkpoint(model, trial)

    def check_weights(self) -> None:
        """Refuse to end a training whose last step broke the weights."""
        if not self.weights_are_good(self.model_wrapped):
            name = self.reference_loss.name if self.reference_loss is not None else "ce"
            raise self._diverged(name, "was broken by the last step")

    def weights_are_good(self, model: nn.Module) -> bool:
        """Whether the weights after the last step still give the batch that made it a sane loss, in every process.

        The loss of a step is that of the weights before it, so without this look a step that breaks the weights would
        be saved, and an older good checkpoint thrown away for it.
        """
        if self._last_batch is None:
            return True
        training = model.training
        model.eval()
        with torch.no_grad():
            _, terms, idle = self._terms(model, self._last_batch)
        model.train(training)
        good = torch.tensor([int(self.watch.sane(terms, idle))], device=self.args.device)
        return bool(self.accelerator.gather(good).all())


def _check_single_label(model: Any) -> None:
    config = getattr(model, "config", None)
    kind = getattr(config, "problem_type", None)
    if kind in ("regression", "multi_label_classification"):
        raise ValueError(
            f"The model's problem_type is {kind!r}, expected single-label classification: flips are about one answer."
        )
