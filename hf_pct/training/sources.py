"""A trainer's reference, from what the caller named to logits beside every batch.

Three ways, one of which holds for a run: a column of logits in the dataset; a table computed once with the old model,
which is then let go; or the old model live beside the new one. Evaluation sets do not change from one evaluation to
the next, so their logits always come from a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from ..labels import check_label_names
from .processors import RawEncoder, own_encoder
from .references import AdapterReference, Reference, label_names_of, load_reference
from .rows import INPUTS, LOGITS, ReferenceRows, is_repeatable
from .tables import column_table, describe_collator, load_or_compute, table_dir, table_name

if TYPE_CHECKING:
    from .base import PCTrainer


class ReferenceSource:
    """Where `trainer` gets the old model's logits from. What can be wrong with it is found when it is made."""

    def __init__(self, trainer: PCTrainer, old_model: Any, processor: Any, label_names: Sequence[str] | None) -> None:
        self.trainer, self.args = trainer, trainer.args
        self._named = old_model if old_model is not None else self.args.old_model
        self._processor = processor
        self._reference: Reference | None = None
        self._rows: dict[tuple[int, bool], tuple[Any, Any]] = {}
        self._train_rows: ReferenceRows | None = None
        self.encoder: RawEncoder | None = None
        self.label_names = self._find_label_names(label_names)
        if self.reference is not None and any(dataset is not None for dataset in self._datasets()):
            columns = _columns(next(dataset for dataset in self._datasets() if dataset is not None))
            new = trainer.processing_class
            self.encoder = own_encoder(self.reference.processor, new, self.args.reference_columns, columns)

    # ---- what was named

    @property
    def reference(self) -> Reference | None:
        """The old model; loaded when it is first needed, and again if it was let go."""
        if self._reference is None and self.args.old_adapter:
            names = label_names_of(self.trainer.model)
            self._reference = AdapterReference(self.trainer.model, self.args.old_adapter, names)
        elif self._reference is None and self._named is not None:
            new = self.trainer.processing_class
            self._reference = load_reference(self._named, self.args.old_revision, self._processor, new)
        return self._reference

    @property
    def live(self) -> bool:
        """Whether the old model runs at each training step."""
        if self.trainer.reference_loss is None or self._has_column(self.trainer.train_dataset):
            return False
        if self.args.reference == "auto":
            image = getattr(self.trainer.model, "main_input_name", "input_ids") == "pixel_values"
            return (image and not self.args.cached_views) or not _sized(self.trainer.train_dataset)
        return self.args.reference == "live"

    def own_inputs(self) -> tuple[tuple[str, ...], RawEncoder | None]:
        """The raw columns, and what makes the old model's inputs of them, when it does not read the new model's."""
        return (self.encoder.columns, self.encoder) if self.encoder else ((), None)

    def _find_label_names(self, given: Sequence[str] | None) -> tuple[str, ...] | None:
        if given is not None:
            return check_label_names(given, "old_label_names")
        if self.reference is not None:
            return self.reference.label_names
        if any(self._has_column(dataset) for dataset in self._datasets()):
            return label_names_of(self.trainer.model)
        return None

    def _datasets(self) -> list[Any]:
        evaluated = self.trainer.eval_dataset
        return [self.trainer.train_dataset, *(evaluated.values() if isinstance(evaluated, dict) else [evaluated])]

    def _has_column(self, dataset: Any) -> bool:
        names = getattr(dataset, "column_names", None)  # a column that a transform hides can still be read
        return dataset is not None and self.args.old_logits_column in (names or _columns(dataset))

    def check(self) -> None:
        """Refuse what cannot be trained with, before a step is paid for."""
        train, column = self.trainer.train_dataset, self.args.old_logits_column
        if self._named is self.trainer.model:
            raise ValueError(
                "old_model is the very model that is trained, so it would change with it. Pass copy.deepcopy(model), "
                "or the folder that it came from."
            )
        needs_logits = self.trainer.reference_loss is not None and train is not None
        if needs_logits and self.reference is None and not self._has_column(train):
            raise ValueError(
                f"There is no old model and the training set has no column {column!r} with its logits (columns: "
                f"{', '.join(_columns(train)) or 'none'}). Pass old_model= (a Hub id, a folder or a module), or "
                "FocalDistillArguments(method='none') for a run without one."
            )
        if self.args.anchored and (self.reference is None or self.args.old_adapter):
            raise ValueError(
                "Holding weights near the old model's (ewc_weight, l2_sp_weight, prior_weight_decay, mixout) needs "
                "the old model itself: pass old_model=, a Hub id, a folder or a module of the same architecture."
            )
        if self.args.anchored and self.trainer.is_deepspeed_enabled:
            raise ValueError(
                "DeepSpeed keeps the weights and gradients that it trains to itself, so they cannot be held near the "
                "old model's. Use DDP or FSDP2 with ewc_weight, l2_sp_weight, prior_weight_decay or mixout."
            )
        for dataset in self._datasets():
            if self._has_column(dataset):
                self.rows(dataset, training=dataset is train)  # width and NaN are checked as the column is read
        if needs_logits and self.live and self.reference is None:
            raise ValueError("reference='live' needs the old model: pass old_model=, or reference='cached'.")

    # ---- rows with logits

    def prepare(self) -> None:
        """Compute every table that this run will need, then let the old model go unless it runs live."""
        trainer = self.trainer
        if trainer.shared is None:
            return
        self.rows(trainer.train_dataset, training=True)
        if trainer.args.eval_strategy != "no" or trainer.args.eval_on_start:
            for dataset in self._datasets()[1:]:
                self.rows(dataset)
        if self.args.anchored and trainer.anchors.old is None and self.reference is not None:
            trainer.anchors.remember(trainer, self.reference)
        if not self.live and not isinstance(self._named, nn.Module):
            self._reference = None

    def rows(self, dataset: Any, training: bool = False) -> Any:
        """The dataset, with reference logits in its rows where they come from a table."""
        if self.label_names is None or dataset is None or isinstance(dataset, dict) or not _sized(dataset):
            return dataset
        if training and not self._has_column(dataset) and (self.live or self.trainer.reference_loss is None):
            return dataset
        key = (id(dataset), training)
        known = self._rows.get(key)
        if known is None:
            known = self._rows[key] = (dataset, self._make_rows(dataset, training))  # keeps the dataset and so its id
        if training and isinstance(known[1], ReferenceRows):
            self._train_rows = known[1]
        return known[1]

    def set_epoch(self, epoch: int) -> None:
        if self._train_rows is not None:
            self._train_rows.set_epoch(epoch)

    def _make_rows(self, dataset: Any, training: bool) -> Any:
        width = len(self.label_names or ())
        if self._has_column(dataset):
            column = self.args.old_logits_column
            table = column_table(dataset, column, width)
            slim = dataset.remove_columns([column]) if hasattr(dataset, "remove_columns") else dataset
            return ReferenceRows(self._used_columns(slim), table)
        if self.reference is None:
            return dataset  # an evaluation set without logits and no old model to ask: no flips for it
        views = self.args.cached_views if training else 0
        if not views and not is_repeatable(dataset):
            what = "training" if training else "evaluation"
            raise ValueError(
                f"The {what} set gives another row each time it is asked (a random augmentation), so one cached "
                "answer of the old model would not fit. Use cached_views=4 (fixed augmented views) or "
                "reference='live' for a training set, and a transform without randomness for evaluation."
            )
        rows = ReferenceRows(self._used_columns(dataset), views=views, seed=self.args.seed)
        rows.table = load_or_compute(self._path(dataset, rows), rows, width, self._of_rows, self.args.eval_batch_size)
        return rows

    def _used_columns(self, dataset: Any) -> Any:
        import datasets

        return self.trainer._remove_unused_columns(dataset) if isinstance(dataset, datasets.Dataset) else dataset

    def _path(self, dataset: Any, rows: ReferenceRows) -> Any:
        """Where the table is kept, or `None` when what it depends on cannot be told from outside."""
        collator = self.trainer.data_collator
        parts = [
            self.reference.fingerprint() if self.reference is not None else None,
            getattr(dataset, "_fingerprint", None),
            self.encoder.describe() if self.encoder else describe_collator(getattr(collator, "collate", collator)),
        ]
        if any(part is None for part in parts):
            return None
        return table_dir(self.args.reference_cache_dir) / table_name(
            *parts, rows.views, rows.seed if rows.views else 0
        )

    # ---- logits

    def _of_rows(self, rows: list[Mapping[str, Any]]) -> Tensor:
        collate = self.trainer._get_collator_with_removed_columns(self.trainer.data_collator)
        logits = self.logits(self.trainer._prepare_inputs(collate(rows)))
        if logits is None:
            raise RuntimeError("The old model was let go while it was still needed.")
        return logits

    def logits(self, inputs: Mapping[str, Any]) -> Tensor | None:
        """The old model's logits of a batch: those it carries, or the old model's answer now."""
        if LOGITS in inputs:
            return inputs[LOGITS]
        reference = self.reference
        if reference is None:
            return None
        with self.trainer.accelerator.autocast():
            return reference.to(self.args.device).logits(inputs.get(INPUTS, inputs))


def _columns(dataset: Any) -> list[str]:
    names = getattr(dataset, "column_names", None)
    transformed = getattr(dataset, "format", None) is not None and dataset.format.get("type") == "custom"
    if names is not None and not transformed:  # a transform decides what its rows have
        return list(names)
    first = dataset[0] if _sized(dataset) and len(dataset) else {}
    return list(first) if isinstance(first, Mapping) else []


def _sized(dataset: Any) -> bool:
    return hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")
