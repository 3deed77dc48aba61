"""The two sides of a merge as tensors: loaded, checked against each other, heads in one label space."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor, nn

from ..core.labels import LabelAlignment
from ..methods.base import MergeRule
from ..models.heads import align_fisher_rows, align_head, head_entries, match_labels
from ..models.load import label_names_of
from .interpolate import find_nonfinite, interpolate_into, mismatches, raise_all, scale_fisher

Model: TypeAlias = str | Path | nn.Module


def as_module(model: Model) -> nn.Module:
    """A model, or one loaded from a folder or Hub id, safetensors only; adapters are added to the weights."""
    if isinstance(model, nn.Module):
        return plain_weights(model)
    from ..models.load import load_model

    return plain_weights(load_model(model).model)


def plain_weights(model: nn.Module) -> nn.Module:
    """A PEFT model as a plain copy with its adapter in the weights, because averaged factors mean something else."""
    return copy.deepcopy(model).merge_and_unload() if hasattr(model, "merge_and_unload") else model


def widened(old: nn.Module, names: Sequence[str]) -> nn.Module:
    """A copy of the old model with a head for `names`: old classes keep their rows, added ones start afresh."""
    match = match_labels(label_names_of(old), names)
    if match.identical:
        return copy.deepcopy(old)
    config = copy.deepcopy(old.config)
    config.id2label = dict(enumerate(names))
    config.label2id = {name: i for i, name in enumerate(names)}
    if hasattr(config, "label_names"):  # timm's wrapper keeps them a second time, and believes these
        config.label_names = list(names)
    model = type(old)(config)
    fresh = model.state_dict()
    model.load_state_dict(align_head(old.state_dict(), fresh, match))
    return model.train(old.training)


@dataclass
class MergeSides:
    """Old and new weights under the new model's names and in its label space."""

    old: dict[str, Tensor]
    new: dict[str, Tensor]
    match: LabelAlignment
    fisher: dict[str, Tensor] | None = None

    @classmethod
    def of(cls, old_model: nn.Module, new_model: nn.Module, new_state: Mapping[str, Tensor]) -> MergeSides:
        """Check everything that can be wrong, then align the old head to the new labels."""
        old_state = old_model.state_dict()
        match = match_labels(label_names_of(old_model), label_names_of(new_model))
        problems = find_nonfinite(old_state, "old model") + find_nonfinite(new_state, "new model")
        aligned = align_head(old_state, new_state, match)
        problems += mismatches(aligned, new_state)
        raise_all(problems, "These models cannot be merged")
        return cls(dict(aligned), dict(new_state), match)

    def set_fisher(self, fisher: Mapping[str, Tensor]) -> None:
        """Take the old model's Fisher: scaled to mean 1, its head rows moved to the new labels."""
        scaled = scale_fisher(fisher)
        if not self.match.identical:
            old_shapes = {name: tuple(value.shape) for name, value in scaled.items()}
            for name in head_entries(old_shapes, {n: tuple(v.shape) for n, v in self.new.items()}, self.match):
                scaled[name] = align_fisher_rows(scaled[name], self.match)
        self.fisher = scaled

    def to(self, device: torch.device) -> None:
        for side in (self.old, self.new, self.fisher or {}):
            for name, value in side.items():
                side[name] = value.to(device)

    def write(self, model: nn.Module, alpha: float, rule: MergeRule) -> None:
        """Put the model at `alpha`, in place."""
        interpolate_into(model.state_dict(), self.old, self.new, alpha, old_fisher=self.fisher, rule=rule)


Sides = MergeSides  # its earlier name
