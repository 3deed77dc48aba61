"""What training and joining members needs of the trainer whose student they are for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ...core.decode import JsonObject
from ...models.types import Collate, Inputs, RowSource

if TYPE_CHECKING:
    from pathlib import Path

    from accelerate import Accelerator
    from torch import nn
    from transformers import Trainer

    from ..arguments import PCTArguments
    from ..references.rows import ReferenceCollator


class MemberFolders(Protocol):
    """Where members are, and the backbone that LoRA members share."""

    @property
    def base(self) -> Path: ...

    @property
    def paths(self) -> list[Path]: ...


class Student(Protocol):
    """A trainer with members: its settings, its data, how it makes a new model, and what trains one member."""

    args: PCTArguments
    model: nn.Module
    train_dataset: RowSource
    calibration_dataset: RowSource
    data_collator: ReferenceCollator
    accelerator: Accelerator
    user_members: Sequence[object]

    @property
    def members(self) -> MemberFolders: ...

    def call_model_init(self) -> nn.Module: ...

    def member_trainer(self, model: nn.Module, args: PCTArguments) -> Trainer: ...

    def _get_collator_with_removed_columns(self, data_collator: Collate) -> Collate: ...

    def _prepare_inputs(self, inputs: Inputs) -> JsonObject: ...
