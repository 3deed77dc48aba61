"""A learnt linear layer from the new model's features to the width of the old head, for methods that ask for one.

It is trained with the model but is no part of it: predictions do not need it, so the model's files stay those of any
other model. It lies beside them, in `feature_map.safetensors`, for new queries that search an old gallery.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from ..flips.retrieval.feature_maps import FEATURE_MAP
from .references.feature_parts import FeatureParts

if TYPE_CHECKING:
    from accelerate import Accelerator
    from torch.optim import Optimizer
    from transformers import TrainingArguments


class LearntFeatureMaps:
    """A mixin, to be named before `Trainer`: maps join its optimizer, checkpoints and processes."""

    args: TrainingArguments
    accelerator: Accelerator
    features: FeatureParts

    def check_maps(self, sharded: bool) -> None:
        """Refuse a map where the optimizer's weights are split over processes: it is no part of the model."""
        if self.features.maps and sharded:
            raise ValueError(
                "feature_map='linear' trains a layer beside the model, which DeepSpeed and FSDP do not see. Train "
                "with DDP or in one process, or set feature_map='fit'."
            )

    def create_optimizer(self, *model: nn.Module) -> Optimizer:
        optimizer = super().create_optimizer(*model)  # type: ignore[misc]
        known = {id(weight) for group in optimizer.param_groups for weight in group["params"]}
        new = [weight for weight in _weights(self.features.maps).values() if id(weight) not in known]
        if new:
            # a copy of the first group, so with its learning rate; but nothing pulls a map towards zero
            first = {key: value for key, value in optimizer.param_groups[0].items() if key not in ("params", "names")}
            optimizer.add_param_group({**first, "params": new, "weight_decay": 0.0})
        return optimizer

    def share_map_gradients(self) -> None:
        """The mean over processes, as DDP takes it for the model's own weights."""
        if self.accelerator.num_processes > 1:
            for weight in _weights(self.features.maps).values():
                if weight.grad is not None:
                    weight.grad = self.accelerator.reduce(weight.grad, reduction="mean")

    def save_maps(self, folder: Path) -> None:
        if self.features.maps and self.args.should_save:
            weights = _weights(self.features.maps)
            stored = {name: weight.detach().cpu().contiguous() for name, weight in weights.items()}
            save_file(stored, folder / FEATURE_MAP)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        super()._load_from_checkpoint(resume_from_checkpoint, model)  # type: ignore[misc]
        if not self.features.maps:
            return
        path = Path(resume_from_checkpoint) / FEATURE_MAP
        if not path.is_file():
            raise ValueError(
                f"{resume_from_checkpoint} has no {FEATURE_MAP}, and this run learns a map of features. Resume from a "
                "checkpoint of a run with the same feature_map, or start again."
            )
        stored = load_file(path)
        with torch.no_grad():
            for name, weight in _weights(self.features.maps).items():
                weight.copy_(stored[name])


def _weights(maps: Mapping[str, nn.Linear]) -> dict[str, Tensor]:
    return {f"{name}.weight": layer.weight for name, layer in maps.items()}
