"""The old model's weights, tensor by tensor beside the new model's, with classifier rows matched by class name."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from ...core.labels import LabelAlignment, align_labels
from ...models.fisher.diagonal import diagonal_fisher, fisher_batches
from ...models.fisher.files import scale_fisher
from ...models.heads import head_entries
from ...models.load import label_names_of
from ..references.context import Context
from ..references.rows import INPUTS
from ..references.sources import OLD
from ..references.spec import ModelReference

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


@dataclass
class OldWeights:
    """Old values by the new model's parameter names, and how strongly each is held where that differs.

    Rows of added classes have none, and are left alone.
    """

    weights: Mapping[str, Tensor]
    match: LabelAlignment
    heads: frozenset[str]
    strength: dict[str, Tensor | float] = field(default_factory=dict)

    @classmethod
    def of(cls, reference: ModelReference, model: nn.Module) -> OldWeights:
        """The weights of `reference`; every trained tensor of `model` must have its counterpart there."""
        old = {name: value.detach().clone() for name, value in reference.model.state_dict().items()}
        trained = {name: value for name, value in model.named_parameters() if value.requires_grad}
        match = align_labels(reference.label_names, label_names_of(model))
        heads = frozenset() if match.identical else frozenset(head_entries(_shapes(old), _shapes(trained), match))
        _check_counterparts(old, trained, heads, reference.name)
        return cls({name: value for name, value in old.items() if name in trained}, match, heads)

    def beside(self, name: str, parameter: Tensor) -> tuple[Tensor, Tensor | None]:
        """The old value of a parameter on its device, and the rows it is for; `None` when it is for all of them."""
        if name not in self.weights:
            raise ValueError(
                f"{name} was not a parameter of the model before it was wrapped for training, so its old value cannot "
                "be found. FSDP1 renames and joins weights; use DDP or FSDP2."
            )
        return self._placed(name, self.weights[name], parameter)

    def strength_beside(self, name: str, parameter: Tensor) -> Tensor | float | None:
        """How strongly each weight of the same rows is held, where that differs from weight to weight."""
        strength = self.strength.get(name)
        return self._placed(name, strength, parameter)[0] if isinstance(strength, Tensor) else strength

    def _placed(self, name: str, value: Tensor, parameter: Tensor) -> tuple[Tensor, Tensor | None]:
        rows = None
        if name in self.heads:
            value = value[torch.from_numpy(self.match.old_index).to(value.device)]
            rows = torch.from_numpy(self.match.new_index).to(parameter.device)
        if hasattr(parameter, "to_local"):
            value = _shard_like(value, parameter, rows is not None, name)
        return value.to(device=parameter.device, dtype=parameter.dtype), rows


def fisher_of_old(
    context: Context, reference: ModelReference, names: Collection[str], samples: int | None = None
) -> dict[str, Tensor]:
    """The old model's diagonal Fisher on the training set, for the tensors named, scaled to a mean of 1.

    Each sample by itself, with the old model's own answer as its label, as in the BCWI paper.
    """
    dataset, args = context.train_dataset(), context.settings
    count = min(samples or len(dataset), len(dataset))
    rows = [dataset[index] for index in np.random.default_rng(args.seed).permutation(len(dataset))[:count].tolist()]
    model = reference.to(args.device).model

    def inputs(rows: list) -> dict[str, Tensor]:
        batch = context.collate(rows)
        return reference.accepted(batch.get(INPUTS, {}).get(OLD, batch))

    before = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
    try:
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name in names)
        batches = fisher_batches(rows, inputs, args.per_device_train_batch_size)
        return scale_fisher(diagonal_fisher(model, batches, total=count, progress=not args.disable_tqdm))
    finally:
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(before[name])


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, Sequence[int]]:
    return {name: value.shape for name, value in tensors.items()}


def _check_counterparts(
    old: Mapping[str, Tensor], trained: Mapping[str, Tensor], heads: frozenset[str], old_name: str
) -> None:
    problems = [f"{name}: the old model has no such tensor" for name in trained if name not in old]
    problems += [
        f"{name}: {tuple(value.shape)} in the new model, {tuple(old[name].shape)} in the old one"
        for name, value in trained.items()
        if name in old and name not in heads and old[name].shape != value.shape
    ]
    if problems:
        raise ValueError(
            f"The new model's weights cannot be held near those of {old_name}, which has another architecture; train "
            "all weights of a model of the same one, or use a distillation loss, which does not mind:\n  "
            + _first(problems)
        )


def _shard_like(value: Tensor, parameter: DTensor, by_rows: bool, name: str) -> Tensor:
    if by_rows:
        raise ValueError(
            f"{name} is spread over processes and the old model has other classes: rows cannot be matched there. "
            "Train without sharding, or give both models the same classes."
        )
    from torch.distributed.tensor import distribute_tensor

    placed = value.to(device=parameter.device, dtype=parameter.dtype)
    return distribute_tensor(placed, parameter.device_mesh, parameter.placements).to_local()


def _first(problems: Sequence[str], most: int = 8) -> str:
    rest = len(problems) - most
    return "\n  ".join([*problems[:most], *([f"... and {rest} more"] if rest > 0 else [])])
