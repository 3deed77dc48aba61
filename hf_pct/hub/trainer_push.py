"""`trainer.push_to_hub()` of the trainers and of the merger: the model goes up with its flips, or not at all.

`Trainer` uploads its output folder, with a card that knows nothing of flips. The mixin checks access when the trainer
is built, measures the flips of the very weights that are pushed, and leaves the rest to `push_update`.
"""

import logging
from pathlib import Path
from typing import Any

import numpy as np

from ..files import write_text
from ..flips.compare import compare
from ..flips.predictions import Predictions, Provenance
from ..flips.report import FlipReport
from ..revisions import commit_in_cache
from .access import check_write_access
from .publish import PushResult, push_update
from .records import training_record, write_record

logger = logging.getLogger(__name__)


class PushUpdateMixin:
    """Stands before `Trainer` among a trainer's base classes: `class PCTrainer(PushUpdateMixin, Trainer)`."""

    args: Any
    model: Any
    hub_model_id: str | None
    _raw_output: Any = None

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

    def evaluation_loop(self, *args: Any, **kwargs: Any) -> Any:
        """Keep what the loop returns, the old model's answers among it: the trainers hand on only the labels."""
        self._raw_output = super().evaluation_loop(*args, **kwargs)  # type: ignore[misc]
        return self._raw_output

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
        trainer: Any = self
        if not blocking:
            raise ValueError("blocking=False: an update goes up in one commit that is waited for. Leave it out.")
        options.pop("model_name", None)
        trainer.callback_handler.on_push_begin(trainer.args, trainer.state, trainer.control)
        token = token if token is not None else self.args.hub_token
        if self.hub_model_id is None:
            self.init_hf_repo(token=token)
        dataset, split = options.pop("dataset", None), options.pop("dataset_split", None)
        found = report if report is not None else _named(self.make_flip_report(), dataset, split)
        trainer.save_model(_internal_call=True)
        if not trainer.is_world_process_zero():
            return None
        folder = Path(self.args.output_dir)
        self.write_records(folder)
        message = commit_message if commit_message != "Model save" else None  # what Trainer passes from save_model()
        return push_update(
            folder,
            found,
            str(self.hub_model_id),
            token=token,
            private=self.args.hub_private_repo,
            revision=revision or self.args.hub_revision,
            commit_message=message,
            **options,
        )


def trainer_report(trainer: Any) -> FlipReport:
    """The flips of a `PCTrainer` from one pass over its evaluation data, with the old answers that came along."""
    if trainer.eval_dataset is None or isinstance(trainer.eval_dataset, dict):
        raise ValueError(
            "The flips are measured on eval_dataset, and there is none, or several. Pass report=compare(old, new) to "
            "push_to_hub, or one eval_dataset to the trainer."
        )
    trainer.evaluation_loop(trainer.get_eval_dataloader(), "Flips", prediction_loss_only=False)
    output = trainer._raw_output
    old_part = trainer.source.old
    if old_part is None or not isinstance(output.label_ids, tuple):
        raise ValueError(
            "There is no old model to measure flips against: pass old_model to the trainer, or report= to push_to_hub."
        )
    labels, old_answers = (np.asarray(each) for each in output.label_ids[:2])  # the model in service comes first
    logits = output.predictions[0] if isinstance(output.predictions, tuple) else output.predictions
    model = trainer.accelerator.unwrap_model(trainer.model)
    names = [model.config.id2label[index] for index in sorted(model.config.id2label)]
    old_names = list(old_part.label_names or names)
    ids = row_ids(trainer.eval_dataset, labels)
    truth = [names[int(label)] for label in labels]
    # an old answer that is no class of the new model's comes as -1; any removed class will do, it is wrong either way
    removed = next((name for name in old_names if name not in names), None)
    answers = [names[int(answer)] if answer >= 0 else str(removed) for answer in old_answers]
    old = Predictions(ids, truth, answers, label_names=old_names, provenance=_old_origin(trainer))
    new = Predictions(ids, truth, logits=logits, label_names=names, provenance=_new_origin(model))
    return compare(old, new)


def merger_report(merger: Any) -> FlipReport:
    """The flips of a `BCWIMerger` at the alpha it is at, against the old model, on its evaluation data."""
    alpha = merger.alpha
    if alpha is None:
        raise ValueError("The model is not at any alpha yet: call merge() or set_alpha() before push_to_hub().")
    old, new = merger.predictions(1.0), merger.predictions(alpha)  # the last leaves the model where it was
    model = merger.accelerator.unwrap_model(merger.model)
    new.provenance = _new_origin(model, new.provenance.settings)
    old.provenance = _model_origin(merger.old_model)
    return compare(old, new)


def write_merge_record(merger: Any, folder: Path) -> None:
    """`pct_merge.json` of the alpha that a `BCWIMerger` is at; `save_merged` would save the model, and push again."""
    from ..merging.record import FILE_NAME, MergeRecord, Source, versions

    record = MergeRecord(
        method=merger.args.method,
        alpha=merger.alpha,
        old=Source(merger.sources[0], ""),
        new=tuple(Source(source, "") for source in merger.sources[1:]),
        curve=merger.last_sweep.table() if merger.last_sweep else None,
        selection=merger.selection.as_dict() if merger.selection else None,
        versions=versions(),
    )
    write_text(folder / FILE_NAME, record.to_json(), overwrite=True)


def row_ids(dataset: Any, labels: np.ndarray) -> list[Any]:
    """The `id` column where the loop kept the dataset's order, else row numbers."""
    columns = getattr(dataset, "column_names", None) or []
    kept = next((name for name in ("labels", "label") if name in columns), None)
    if "id" in columns and kept and list(dataset[kept]) == labels.tolist():
        return list(dataset["id"])
    return list(range(len(labels)))


def _old_origin(trainer: Any) -> Provenance:
    # the old model as an adapter of the model in training has no weights of its own to hash
    old = trainer.source.old
    reference = None if trainer.args.old_adapter else old.reference
    origin = _model_origin(getattr(reference, "model", None))
    named = old.named.model if isinstance(old.named.model, str | Path) else origin.model
    name = None if named is None else str(named)
    given = trainer.args.old_revision
    return Provenance(model=name, revision=commit_in_cache(name, given) or given, weights=origin.weights)


def _model_origin(model: Any) -> Provenance:
    from .weights_check import float32_fingerprint

    name = getattr(getattr(model, "config", None), "_name_or_path", None) or None
    return Provenance(
        model=name,
        revision=commit_in_cache(name),
        weights=None if model is None else float32_fingerprint(model),
    )


def _new_origin(model: Any, settings: dict[str, Any] | None = None) -> Provenance:
    from .weights_check import float32_fingerprint

    return Provenance(weights=float32_fingerprint(model), settings=settings or {})


def _named(report: FlipReport, dataset: str | None, split: str | None) -> FlipReport:
    from dataclasses import replace

    sides = {
        side: replace(getattr(report, side), dataset=dataset, split=split) if dataset else getattr(report, side)
        for side in ("old", "new")
    }
    return replace(report, **sides)
