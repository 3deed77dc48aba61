"""What a trainer gives to its references: functions of its data, its model and its device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import datasets
from accelerate import Accelerator
from torch import nn

from ..models.types import Collate, Inputs, Processor, RowSource
from .references.context import Context, ReferenceSettings


class ReferenceTrainer(Protocol):
    """What a trainer with references has."""

    args: ReferenceSettings
    model: nn.Module
    processing_class: Processor
    train_dataset: RowSource
    eval_dataset: RowSource | dict[str, RowSource]
    data_collator: Collate
    accelerator: Accelerator
    reference_weights: Mapping[str, float]

    def _remove_unused_columns(self, dataset: datasets.Dataset) -> datasets.Dataset: ...

    def _get_collator_with_removed_columns(self, data_collator: Collate) -> Collate: ...

    def _prepare_inputs(self, inputs: Inputs) -> Inputs: ...


def trainer_context(trainer: ReferenceTrainer) -> Context:
    """The context of a trainer; it follows the trainer when model, data or weights of references are replaced."""

    def used_columns(dataset: RowSource) -> RowSource:
        return trainer._remove_unused_columns(dataset) if isinstance(dataset, datasets.Dataset) else dataset

    def eval_datasets() -> list[object]:
        evaluated = trainer.eval_dataset
        return list(evaluated.values()) if isinstance(evaluated, dict) else [evaluated]

    return Context(
        trainer.args,
        model=lambda: trainer.model,
        processor=trainer.processing_class,
        train_dataset=lambda: trainer.train_dataset,
        eval_datasets=eval_datasets,
        weighed=lambda: trainer.reference_weights,
        collator=lambda: getattr(trainer.data_collator, "collate", trainer.data_collator),
        collate=lambda rows: trainer._get_collator_with_removed_columns(trainer.data_collator)(rows),
        prepare=trainer._prepare_inputs,
        used_columns=used_columns,
        autocast=trainer.accelerator.autocast,
    )
