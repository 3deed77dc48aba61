"""A trainer's references, from what the caller named to logits beside every batch.

Three ways for each of them, one of which holds for a run: a column of logits in the dataset; a table computed once,
after which the model is released; or the model live beside the new one. A table is right only for inputs that are the
same each time, so where that is neither known nor declared (`hf_pct.fixed`), the model runs live.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import datasets
import numpy as np
from torch import Tensor

from ...models.load import label_names_of
from ...models.load.declared import is_plain, rows_are_fixed
from ...models.types import Inputs, RowSource
from .context import Context
from .own_processor import RawEncoder
from .part import Named, ReferencePart
from .rows import ReferenceRows, column_table, is_repeatable
from .spec import ReferenceAnswer

OLD = "old"
"""The name of the reference that flips are counted against: the model in service."""

logger = logging.getLogger(__name__)

Stamp: TypeAlias = dict[str, tuple[str | None, object]]
"""By reference, what it is shown and what it holds."""


class ReferenceSource:
    """Where a trainer gets its references' logits from. What can be wrong with it is found when it is made."""

    def __init__(self, context: Context, named: Mapping[str, Named]) -> None:
        self.context, self.settings = context, context.settings
        self._rows: dict[tuple[int, bool], tuple[RowSource, Stamp, RowSource | ReferenceRows]] = {}
        self._train_rows: ReferenceRows | None = None
        self.parts = {name: ReferencePart(context, name, entry) for name, entry in named.items()}
        for part in self.parts.values():
            if part.label_names is None and any(_has_column(dataset, part) for dataset in self._datasets()):
                part.label_names = label_names_of(context.model())
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
        train = self.context.train_dataset()
        if part.name not in self.context.weighed() or _has_column(train, part):
            return False
        if self.settings.reference != "auto":
            return self.settings.reference == "live"
        if not _sized(train):
            return True
        image = getattr(self.context.model(), "main_input_name", "input_ids") == "pixel_values"
        return not self.settings.cached_views and (image or not part.is_fixed(train))

    def own_inputs(self) -> tuple[tuple[str, ...], dict[str, RawEncoder]]:
        """The raw columns, and what makes inputs of them for references that do not read the new model's."""
        encoders = {name: part.encoder for name, part in self.parts.items() if part.encoder is not None}
        return tuple(dict.fromkeys(column for entry in encoders.values() for column in entry.columns)), encoders

    def _datasets(self) -> list[object]:
        return [self.context.train_dataset(), *self.context.eval_datasets()]

    def check(self) -> None:
        """Refuse what cannot be trained with, before a step is paid for."""
        train, column = self.context.train_dataset(), self.settings.old_logits_column
        if any(part.named.model is self.context.model() for part in self.parts.values()):
            raise ValueError(
                "old_model is the very model that is trained, so it would change with it. Pass copy.deepcopy(model), "
                "or the folder that it came from."
            )
        if train is not None and any(name not in self.parts for name in self.context.weighed()):
            raise ValueError(
                f"There is no old model and the training set has no column {column!r} with its logits (columns: "
                f"{', '.join(_columns(train)) or 'none'}). Pass old_model= (a Hub id, a folder or a module), or "
                "FocalDistillArguments(method='none') for a run without one."
            )
        if train is not None and not _sized(train) and self.settings.reference == "cached" and self.context.weighed():
            raise ValueError(
                f"reference='cached' with a training set that is a stream ({type(train).__name__}): its rows have no "
                "numbers to keep answers under. Use reference='live' (or 'auto'), or a dataset that is not streamed."
            )
        for part in self.parts.values():
            for dataset in self._datasets():
                if _has_column(dataset, part):
                    self._column(dataset, part)  # width and NaN are checked as the column is read
            if part.named.column and self._is_live(part) and part.reference is None:
                raise ValueError("reference='live' needs the old model: pass old_model=, or reference='cached'.")

    def answers_by_column(self, part: ReferencePart) -> bool:
        """Whether any dataset carries this reference's logits in a column."""
        return any(_has_column(dataset, part) for dataset in self._datasets())

    # ---- rows with logits

    def prepare(self, evaluates: bool = True) -> None:
        """Compute every table that a training run will need, with those of evaluation sets if it evaluates."""
        train = self.context.train_dataset()
        kept = self._rows.get((id(train), True))
        if kept is not None and (self._awaited(kept[2]) or kept[1] != self._stamp(train, kept[1])):
            del self._rows[id(train), True]  # an earlier training saw other rows or another model
        self.rows(train, training=True)
        for dataset in self.context.eval_datasets() if evaluates else ():
            self.rows(dataset)

    def release(self) -> None:
        """Free the references that do not run beside the model in training."""
        for part in self.parts.values():
            if not self._is_live(part):
                part.release()

    def rows(self, dataset: RowSource, training: bool = False) -> RowSource | ReferenceRows:
        """The dataset, with reference logits in its rows where they come from a table."""
        if dataset is None or isinstance(dataset, dict) or not _sized(dataset):
            return dataset
        key = (id(dataset), training)
        kept = self._rows.get(key)
        if kept is None or not (training or kept[1] == self._stamp(dataset, kept[1])):
            kept = (dataset, *self._make_rows(dataset, training))
            if training or not self._awaited(kept[2]):
                self._rows[key] = kept  # keeps the dataset and so its id
        if training and isinstance(kept[2], ReferenceRows):
            self._train_rows = kept[2]
        return kept[2]

    def _stamp(self, dataset: RowSource, names: Iterable[str], rows: ReferenceRows | None = None) -> Stamp:
        """What references are shown and what the callers' own models hold now: answers to anything else are stale."""
        rows = ReferenceRows(self.context.used_columns(dataset)) if rows is None else rows
        stamp: Stamp = {}
        shown: dict[int, str | None] = {}
        for name in names:
            part = self.parts[name]
            if _has_column(dataset, part):  # only rows of a class of one's own can be changed in place
                stamp[name] = (None, None if isinstance(dataset, datasets.Dataset) else object())
                continue
            if id(part.encoder) not in shown:  # those without an encoder of their own are shown the same
                shown[id(part.encoder)] = part.inputs_identity(dataset, rows)
            unknown = rows.views and shown[id(part.encoder)] is None
            stamp[name] = (shown[id(part.encoder)], object() if unknown else part.stamp())
        return stamp

    def set_epoch(self, epoch: int) -> None:
        if self._train_rows is not None:
            self._train_rows.set_epoch(epoch)

    def _make_rows(self, dataset: RowSource, training: bool) -> tuple[Stamp, RowSource | ReferenceRows]:
        """What rows are with their tables, and what these depend on."""
        by_column = {name: part for name, part in self.parts.items() if _has_column(dataset, part)}
        wanted = {
            name: part
            for name, part in self.parts.items()
            if name not in by_column
            and not (training and (name not in self.context.weighed() or self._is_live(part)))
            and part.reference is not None  # an evaluation set without logits and no model to ask: no flips for it
        }
        views = self.settings.cached_views if training and wanted else 0
        if views and by_column:
            raise ValueError(
                f"cached_views={views} with a column {self.settings.old_logits_column!r}: the column holds one answer "
                "per row, not one per view. Leave the column out, or use reference='live'."
            )
        by_table = {name: part for name, part in wanted.items() if views or self._can_be_kept(dataset, part, training)}
        if not by_column and not by_table:
            return {}, dataset
        slim = dataset
        for part in by_column.values():
            slim = slim.remove_columns([part.named.column]) if hasattr(slim, "remove_columns") else slim
        rows = ReferenceRows(self.context.used_columns(slim), views=views, seed=self.settings.seed)
        stamp = self._stamp(dataset, [*by_column, *by_table], rows if views else None)
        tables = {name: self._column(dataset, part) for name, part in by_column.items()}
        rows.tables = tables | {name: part.table(rows, stamp[name][0], training) for name, part in by_table.items()}
        return stamp, rows

    def _can_be_kept(self, dataset: RowSource, part: ReferencePart, training: bool) -> bool:
        """Whether one answer per row is enough. A training set that needs more is an error: 'cached' was asked for."""
        what = "training" if training else "evaluation"
        if part.is_fixed(dataset) and is_plain(dataset):
            return True
        if not is_repeatable(dataset):
            if not training and not rows_are_fixed(dataset):
                return False
            raise ValueError(
                f"The {what} set gives another row each time it is asked (a random augmentation), so one cached "
                "answer of the old model would not fit. Use cached_views=4 (fixed augmented views) or "
                "reference='live' for a training set, and a transform without randomness for evaluation."
            )
        if part.is_fixed(dataset):
            return True
        unknown = "its data collator" if rows_are_fixed(dataset) else "how its rows are made"
        if training:
            raise ValueError(
                f"reference='cached' keeps one answer per row, and for the training set {unknown} is not known to be "
                "without randomness. Declare it: hf_pct.fixed(...) around the transform, the data collator or the "
                "dataset. Or use reference='live', or cached_views=4 (fixed augmented views)."
            )
        logger.info(
            "%s runs at each evaluation: for an %s set %s is not known to be without randomness. hf_pct.fixed(...) "
            "declares it, and its answers are then kept.", part.named.title, what, unknown,
        )  # fmt: skip
        return False

    def _awaited(self, rows: RowSource | ReferenceRows) -> bool:
        """Whether rows lack the logits of a reference that is still to be made."""
        late = {name for name, part in self.parts.items() if part.made_later}
        return bool(late.difference(rows.tables if isinstance(rows, ReferenceRows) else ()))

    def _column(self, dataset: RowSource, part: ReferencePart) -> np.ndarray:
        return column_table(dataset, str(part.named.column), len(part.label_names or ()))

    # ---- answers

    def answers(self, inputs: Inputs, names: Iterable[str] | None = None) -> dict[str, ReferenceAnswer]:
        """Answers to a batch by reference, of those named or of all: what the batch carries, or an answer now."""
        wanted = self.parts if names is None else [name for name in names if name in self.parts]
        answers = {name: self.parts[name].answer(inputs) for name in wanted}
        return {name: answer for name, answer in answers.items() if answer is not None}

    def logits(self, inputs: Inputs, names: Iterable[str] | None = None) -> dict[str, Tensor]:
        """The same, logits alone."""
        return {name: answer.logits for name, answer in self.answers(inputs, names).items()}


def _has_column(dataset: RowSource, part: ReferencePart) -> bool:
    names = getattr(dataset, "column_names", None)  # a column that a transform hides can still be read
    return dataset is not None and part.named.column is not None and part.named.column in (names or _columns(dataset))


def _columns(dataset: RowSource) -> list[str]:
    names = getattr(dataset, "column_names", None)
    transformed = getattr(dataset, "format", None) is not None and dataset.format.get("type") == "custom"
    if names is not None and not transformed:  # a transform decides what its rows have
        return list(names)
    first = dataset[0] if _sized(dataset) and len(dataset) else {}
    return list(first) if isinstance(first, Mapping) else []


def _sized(dataset: RowSource) -> bool:
    return hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")
