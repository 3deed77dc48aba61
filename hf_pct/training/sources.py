"""A trainer's references, from what the caller named to logits beside every batch.

Three ways for each of them, one of which holds for a run: a column of logits in the dataset; a table computed once,
after which the model is let go; or the model live beside the new one. Evaluation sets do not change from one
evaluation to the next, so their logits always come from a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor

from ..tasks import label_names_of
from .processors import RawEncoder
from .reference_part import Named, ReferencePart
from .rows import ReferenceRows, is_repeatable
from .tables import column_table

if TYPE_CHECKING:
    from .base import PCTrainer

OLD = "old"
"""The name of the reference that flips are counted against: the model in service."""


class ReferenceSource:
    """Where `trainer` gets its references' logits from. What can be wrong with it is found when it is made."""

    def __init__(self, trainer: PCTrainer, named: Mapping[str, Named]) -> None:
        self.trainer, self.args = trainer, trainer.args
        self._rows: dict[tuple[int, bool], tuple[Any, Any]] = {}
        self._train_rows: ReferenceRows | None = None
        self.parts = {name: ReferencePart(trainer, name, each) for name, each in named.items()}
        for part in self.parts.values():
            if part.label_names is None and any(_has_column(dataset, part) for dataset in self._datasets()):
                part.label_names = label_names_of(trainer.model)
        self.parts = {name: part for name, part in self.parts.items() if part.label_names is not None}
        known = next((dataset for dataset in self._datasets() if dataset is not None), None)
        if known is not None:
            for part in self.parts.values():
                part.read_raw_columns(_columns(known))

    # ---- what was named

    @property
    def old(self) -> ReferencePart | None:
        """The model that flips are counted against."""
        return self.parts.get(OLD)

    @property
    def live(self) -> bool:
        """Whether any reference runs at each training step."""
        return any(self._is_live(part) for part in self.parts.values())

    def _is_live(self, part: ReferencePart) -> bool:
        train = self.trainer.train_dataset
        if part.name not in self.trainer.reference_weights or _has_column(train, part):
            return False
        if self.args.reference == "auto":
            image = getattr(self.trainer.model, "main_input_name", "input_ids") == "pixel_values"
            return (image and not self.args.cached_views) or not _sized(train)
        return self.args.reference == "live"

    def own_inputs(self) -> tuple[tuple[str, ...], dict[str, RawEncoder]]:
        """The raw columns, and what makes inputs of them for references that do not read the new model's."""
        encoders = {name: part.encoder for name, part in self.parts.items() if part.encoder is not None}
        return tuple(dict.fromkeys(column for each in encoders.values() for column in each.columns)), encoders

    def _datasets(self) -> list[Any]:
        evaluated = self.trainer.eval_dataset
        return [self.trainer.train_dataset, *(evaluated.values() if isinstance(evaluated, dict) else [evaluated])]

    def check(self) -> None:
        """Refuse what cannot be trained with, before a step is paid for."""
        train, column = self.trainer.train_dataset, self.args.old_logits_column
        if any(part.named.model is self.trainer.model for part in self.parts.values()):
            raise ValueError(
                "old_model is the very model that is trained, so it would change with it. Pass copy.deepcopy(model), "
                "or the folder that it came from."
            )
        if train is not None and any(name not in self.parts for name in self.trainer.reference_weights):
            raise ValueError(
                f"There is no old model and the training set has no column {column!r} with its logits (columns: "
                f"{', '.join(_columns(train)) or 'none'}). Pass old_model= (a Hub id, a folder or a module), or "
                "FocalDistillArguments(method='none') for a run without one."
            )
        if self.args.anchored and (self.old is None or self.old.reference is None or self.args.old_adapter):
            raise ValueError(
                "Holding weights near the old model's (ewc_weight, l2_sp_weight, prior_weight_decay, mixout) needs "
                "the old model itself: pass old_model=, a Hub id, a folder or a module of the same architecture."
            )
        if self.args.anchored and self.trainer.is_deepspeed_enabled:
            raise ValueError(
                "DeepSpeed keeps the weights and gradients that it trains to itself, so they cannot be held near the "
                "old model's. Use DDP or FSDP2 with ewc_weight, l2_sp_weight, prior_weight_decay or mixout."
            )
        for part in self.parts.values():
            for dataset in self._datasets():
                if _has_column(dataset, part):
                    self._column(dataset, part)  # width and NaN are checked as the column is read
            if part.named.column and self._is_live(part) and part.reference is None:
                raise ValueError("reference='live' needs the old model: pass old_model=, or reference='cached'.")

    # ---- rows with logits

    def prepare(self) -> None:
        """Compute every table that this run will need, then let go of the references that do not run live."""
        trainer = self.trainer
        self.rows(trainer.train_dataset, training=True)
        if trainer.args.eval_strategy != "no" or trainer.args.eval_on_start:
            for dataset in self._datasets()[1:]:
                self.rows(dataset)
        if self.args.anchored and trainer.anchors.old is None and self.old is not None:
            trainer.anchors.remember(trainer, self.old.reference)
        for part in self.parts.values():
            if not self._is_live(part):
                part.let_go()

    def rows(self, dataset: Any, training: bool = False) -> Any:
        """The dataset, with reference logits in its rows where they come from a table."""
        if dataset is None or isinstance(dataset, dict) or not _sized(dataset):
            return dataset
        key = (id(dataset), training)
        known = self._rows.get(key)
        if known is None:
            known = (dataset, self._make_rows(dataset, training))
            if training or not self._awaited(known[1]):
                self._rows[key] = known  # keeps the dataset and so its id
        if training and isinstance(known[1], ReferenceRows):
            self._train_rows = known[1]
        return known[1]

    def set_epoch(self, epoch: int) -> None:
        if self._train_rows is not None:
            self._train_rows.set_epoch(epoch)

    def _make_rows(self, dataset: Any, training: bool) -> Any:
        by_column = {name: part for name, part in self.parts.items() if _has_column(dataset, part)}
        by_table = {
            name: part
            for name, part in self.parts.items()
            if name not in by_column
            and not (training and (name not in self.trainer.reference_weights or self._is_live(part)))
            and part.reference is not None  # an evaluation set without logits and no model to ask: no flips for it
        }
        if not by_column and not by_table:
            return dataset
        views = self.args.cached_views if training and by_table else 0
        if by_table and not views and not is_repeatable(dataset):
            what = "training" if training else "evaluation"
            raise ValueError(
                f"The {what} set gives another row each time it is asked (a random augmentation), so one cached "
                "answer of the old model would not fit. Use cached_views=4 (fixed augmented views) or "
                "reference='live' for a training set, and a transform without randomness for evaluation."
            )
        if views and by_column:
            raise ValueError(
                f"cached_views={views} with a column {self.args.old_logits_column!r}: the column holds one answer a "
                "row, not one a view. Leave the column out, or use reference='live'."
            )
        slim = dataset
        for part in by_column.values():
            slim = slim.remove_columns([part.named.column]) if hasattr(slim, "remove_columns") else slim
        rows = ReferenceRows(self._used_columns(slim), views=views, seed=self.args.seed)
        tables = {name: self._column(dataset, part) for name, part in by_column.items()}
        rows.tables = tables | {name: part.table(dataset, rows, training) for name, part in by_table.items()}
        return rows

    def _awaited(self, rows: Any) -> bool:
        """Whether rows lack the logits of a reference that is still to be made."""
        late = {name for name, part in self.parts.items() if part.made_later}
        return bool(late.difference(rows.tables if isinstance(rows, ReferenceRows) else ()))

    def _column(self, dataset: Any, part: ReferencePart) -> Any:
        return column_table(dataset, str(part.named.column), len(part.label_names or ()))

    def _used_columns(self, dataset: Any) -> Any:
        import datasets

        return self.trainer._remove_unused_columns(dataset) if isinstance(dataset, datasets.Dataset) else dataset

    # ---- logits

    def logits(self, inputs: Mapping[str, Any], names: Any = None) -> dict[str, Tensor]:
        """Logits of a batch by reference, of those named or of all: what the batch carries, or an answer now."""
        wanted = self.parts if names is None else [name for name in names if name in self.parts]
        found = {name: self.parts[name].logits(inputs) for name in wanted}
        return {name: logits for name, logits in found.items() if logits is not None}


def _has_column(dataset: Any, part: ReferencePart) -> bool:
    names = getattr(dataset, "column_names", None)  # a column that a transform hides can still be read
    return dataset is not None and part.named.column is not None and part.named.column in (names or _columns(dataset))


def _columns(dataset: Any) -> list[str]:
    names = getattr(dataset, "column_names", None)
    transformed = getattr(dataset, "format", None) is not None and dataset.format.get("type") == "custom"
    if names is not None and not transformed:  # a transform decides what its rows have
        return list(names)
    first = dataset[0] if _sized(dataset) and len(dataset) else {}
    return list(first) if isinstance(first, Mapping) else []


def _sized(dataset: Any) -> bool:
    return hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")
