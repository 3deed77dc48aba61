"""What references need of whoever trains with them: a few functions and settings, and not the trainer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import nn

from ...models.types import Collate, Inputs, Processor, RowSource


class ReferenceSettings(Protocol):
    """The training arguments that are about references."""

    reference: str
    cached_views: int
    seed: int
    reference_columns: list[str] | None
    reference_cache_dir: str | None
    old_logits_column: str
    disable_tqdm: bool
    per_device_train_batch_size: int

    @property
    def eval_batch_size(self) -> int: ...

    @property
    def device(self) -> torch.device: ...


@dataclass(frozen=True)
class Context:
    """The place that references are used in. Functions, because a trainer may replace its model and its data.

    Args:
        settings: the training arguments.
        model: the model in training.
        processor: the new model's tokenizer or image processor, if it has one.
        train_dataset: the training set, or None.
        eval_datasets: every evaluation set.
        weighed: the references that the loss uses; others are there for flips alone.
        collator: the data collator as the caller gave it.
        collate: rows to a batch, as the new model gets it.
        prepare: a batch to the device.
        used_columns: a `datasets.Dataset` without the columns that nobody reads.
        autocast: the mixed precision that models run in.
    """

    settings: ReferenceSettings
    model: Callable[[], nn.Module]
    processor: Processor
    train_dataset: Callable[[], RowSource]
    eval_datasets: Callable[[], list[object]]
    weighed: Callable[[], Mapping[str, float]]
    collator: Callable[[], Collate]
    collate: Collate
    prepare: Callable[[Inputs], Inputs]
    used_columns: Callable[[RowSource], RowSource]
    autocast: Callable[[], AbstractContextManager[object]]
