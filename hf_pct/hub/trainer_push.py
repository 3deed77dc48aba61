"""`push_to_hub()` of the trainers and of the merger: the model goes up with its flips, or not at all.

`Trainer` uploads its output folder, with a card that knows nothing of flips. The mixin checks access when the trainer
is built, measures the flips of the very weights that are pushed, and leaves the rest to `push_update`.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.decode import JsonObject
from ..core.run_checkpoints import ResumeMixin
from ..flips.compare import compare
from ..flips.report import FlipReport
from ..flips.tables.predictions import Predictions, Provenance
from ..models.revisions import commit_in_cache
from ..models.types import Inputs
from .client.access import check_write_access
from .publish import PushResult, push_update
from .records import training_record, write_record

if TYPE_CHECKING:
    from datasets import Dataset
    from torch import Tensor, nn
    from transformers import Trainer, TrainingArguments


logger = logging.getLogger(__name__)


class PushUpdateMixin(ResumeMixin):
    """A mixin, to be named before `Trainer`: `class PCTrainer(PushUpdateMixin, Trainer)`."""

    args: TrainingArguments
    model: nn.Module
    hub_model_id: str | None

    def init_hf_repo(self, token: str | None = None) -> None:
        """Find out now whether a push will be allowed, instead of making a repository that may stay empty."""
        if not self.is_world_process_zero():  # type: ignore[attr-defined]
            return
        name = self.args.hub_model_id or Path(self.args.output_dir).absolute().name
        self.hub_model_id = check_write_access(name, token if token is not None else self.args.hub_token)
        self.push_in_progress = None

    def _push_from_checkpoint(self, checkpoint_folder: str) -> None:
        """Checkpoints stay here: a model is published only together with its flips."""
        if getattr(self, "_told_about_checkpoints", False) or str(self.args.hub_strategy.value) == "end":
            return
        self._told_about_checkpoints = True
        logger.warning(
            "hub_strategy=%s is not followed: a model is published only together with its flips, by push_to_hub() at "
            "the end. Checkpoints are in %s.",
            self.args.hub_strategy.value,
            self.args.output_dir,
        )

    def make_flip_report(self) -> FlipReport:
        """The flips of the model as it is now, on the evaluation data; all processes take part."""
        return trainer_report(self)

    def write_records(self, folder: Path) -> None:
        """Leave beside the weights how the model was made."""
        named = getattr(self.args, "old_model", None)
        write_record(folder, training_record(self, named, getattr(self.args, "old_revision", None)))

    def push_to_hub(
        self,
        commit_message: str | None = None,
        blocking: bool = True,
        token: str | None = None,
        revision: str | None = None,
        *,
        report: FlipReport | str | Path | None = None,
        **options: Any,
    ) -> PushResult | None:
        """Publish the model with its flips. Returns on the main process where it is, None on the others.

        Args:
            report: a report of this very model, from `hf-pct compare`; by default the flips are measured on the
                evaluation data. One that names a dataset on the Hub lets others verify it.
            options: what `push_update` takes: `replace_card`, `set_new_version`, `license`, `flips_dataset`, ...
                `dataset` and `dataset_split` name the evaluation data where the flips are measured here.
        """
        trainer: Trainer = self
        if not blocking:
            raise ValueError("blocking=False: an update goes up in one commit that is waited for. Leave it out.")
        options.pop("model_name", None)
        trainer.callback_handler.on_push_begin(trainer.args, trainer.state, trainer.control)
        token = token if token is not None else self.args.hub_token
        if self.hub_model_id is None:
            self.init_hf_repo(token=token)
        dataset, split = options.pop("dataset", None), options.pop("dataset_split", None)
        measured = report if report is not None else _named(self.make_flip_report(), dataset, split)
        trainer.save_model(_internal_call=True)
        if not trainer.is_world_process_zero():
            return None
        folder = Path(self.args.output_dir)
        self.write_records(folder)
        message = commit_message if commit_message != "Model save" else None  # what Trainer passes from save_model()
        return push_update(
            folder,
            measured,
            str(self.hub_model_id),
            token=token,
            private=self.args.hub_private_repo,
            revision=revision or self.args.hub_revision,
            commit_message=message,
            **options,
        )


def trainer_report(trainer: Trainer) -> FlipReport:
    """The flips of a `PCTrainer` from one pass over its evaluation data, with the old answers that came along."""
    if trainer.eval_dataset is None or isinstance(trainer.eval_dataset, dict):
        raise ValueError(
            "The flips are measured on eval_dataset, and there is none, or several. Pass report=compare(old, new) to "
            "push_to_hub, or one eval_dataset to the trainer."
        )
    model = trainer.accelerator.unwrap_model(trainer.model)
    old_logits, new_logits, labels = _both_answers(trainer, model)
    names = [model.config.id2label[index] for index in sorted(model.config.id2label)]
    ids = row_ids(trainer.eval_dataset, labels)
    rows = np.flatnonzero(labels >= 0)  # a row without a label has no right answer to lose
    ids, truth = [ids[row] for row in rows], [names[label] for label in labels[rows]]
    old_names = list(trainer.source.old.label_names or names)
    old, new = old_logits[rows], new_logits[rows]
    return compare(
        Predictions(ids, truth, logits=old, label_names=old_names, provenance=_old_origin(trainer)),
        Predictions(ids, truth, logits=new, label_names=names, provenance=new_origin(model)),
    )


def _both_answers(trainer: Trainer, model: nn.Module) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The old and the new model's logits over the evaluation data, and the labels; all processes take part."""
    from ..models.load import ask
    from ..models.run import Share, collated, collect, sized

    source = trainer.source
    rows = sized(source.context.used_columns(source.rows(trainer.eval_dataset)))
    batches = collated(rows, source.context.collate, trainer.args.eval_batch_size, trainer._prepare_inputs)
    if source.old is None or not source.answers(next(iter(batches(Share()))).inputs, [source.old.name]):
        raise ValueError(
            "There is no old model to measure flips against: pass old_model to the trainer, or report= to push_to_hub."
        )
    name = source.old.name
    model.eval()

    def new_logits(inputs: Inputs) -> Tensor:
        with trainer.compute_loss_context_manager():
            return ask(model, inputs)

    old = collect(lambda inputs: source.answers(inputs, [name])[name].logits, batches, len(rows))
    if old.labels is None:
        raise ValueError("eval_dataset has no labels, expected a column 'labels' or 'label'.")
    return old.logits, collect(new_logits, batches, len(rows)).logits, old.labels


def row_ids(dataset: Dataset, labels: np.ndarray) -> list[object]:
    """The `id` column where the loop kept the dataset's order, else row numbers."""
    columns = getattr(dataset, "column_names", None) or []
    kept = next((name for name in ("labels", "label") if name in columns), None)
    if "id" in columns and kept and list(dataset[kept]) == labels.tolist():
        return list(dataset["id"])
    return list(range(len(labels)))


def _old_origin(trainer: Trainer) -> Provenance:
    # the old model as an adapter of the model in training has no weights of its own to hash
    old = trainer.source.old
    reference = None if trainer.args.old_adapter else old.reference
    origin = model_origin(getattr(reference, "model", None))
    named = old.named.model if isinstance(old.named.model, str | Path) else origin.model
    name = None if named is None else str(named)
    old_revision = trainer.args.old_revision
    return Provenance(model=name, revision=commit_in_cache(name, old_revision) or old_revision, weights=origin.weights)


def model_origin(model: nn.Module | None) -> Provenance:
    from ..models.fingerprints import weights_fingerprint

    name = getattr(getattr(model, "config", None), "_name_or_path", None) or None
    return Provenance(
        model=name,
        revision=commit_in_cache(name),
        weights=None if model is None else weights_fingerprint(model),
    )


def new_origin(model: nn.Module, settings: JsonObject | None = None) -> Provenance:
    from ..models.fingerprints import weights_fingerprint

    return Provenance(weights=weights_fingerprint(model), settings=settings or {})


def _named(report: FlipReport, dataset: str | None, split: str | None) -> FlipReport:
    from dataclasses import replace

    sides = {
        side: replace(getattr(report, side), dataset=dataset, split=split) if dataset else getattr(report, side)
        for side in ("old", "new")
    }
    return replace(report, **sides)
