"""Features beside logits, for methods that ask for them: the new model's, the references', and frozen old heads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...methods.base import Batch, Needs
from ...methods.distances import fit_width
from ...models.features import FeatureTap, feature_width, last_layer
from ...models.types import Inputs
from .part import Named
from .sources import ReferenceSource
from .spec import ModelReference, Reference, ReferenceAnswer


class FrozenHead:
    """A reference's last layer as it was trained; it stays when the reference itself is released.

    `learnt_map` is a linear layer that features pass on their way to the head, and that is trained with the model.
    """

    def __init__(self, model: nn.Module, device: torch.device, learnt_map: nn.Linear | None = None) -> None:
        layer = last_layer(model)
        if not isinstance(layer, nn.Linear | nn.Conv2d):
            raise ValueError(f"its last layer is a {type(layer).__name__}, expected a linear one")
        self.weight = layer.weight.detach().flatten(1).float().clone().to(device)
        self.bias = None if layer.bias is None else layer.bias.detach().float().clone().to(device)
        self.learnt_map = learnt_map

    def __call__(self, features: Tensor) -> Tensor:
        """The logits of features; without a learnt map, those of another width are cut, or filled up with zeros."""
        width = self.weight.shape[1]
        fitted = fit_width(features.float(), width) if self.learnt_map is None else self.learnt_map(features.float())
        return functional.linear(fitted, self.weight, self.bias)


@dataclass(frozen=True)
class BatchFeatures:
    """The features of one batch: the new model's, and those of references by name, with their heads."""

    own: Tensor
    references: Mapping[str, Tensor | None]
    heads: Mapping[str, FrozenHead]

    def added_to(self, batch: Batch) -> Batch:
        return replace(
            batch,
            features=self.own,
            reference_features=self.references.get(batch.name),
            reference_head=self.heads.get(batch.name),
        )

    def idle(self) -> BatchFeatures:
        """The same for a new model whose features are all zero."""
        return replace(self, own=torch.zeros_like(self.own))


@dataclass
class FeatureParts:
    """What a trainer knows about features. Everything is empty where the method does not ask."""

    needs: Needs
    learns_map: bool = False
    heads: dict[str, FrozenHead] = field(default_factory=dict)
    maps: dict[str, nn.Linear] = field(default_factory=dict)

    def asked(self, named: Mapping[str, Named], weighed: Iterable[str]) -> dict[str, Named]:
        """The references as they were named; those that the loss uses are asked for features too."""
        chosen = set(weighed) if self.needs.features else set()
        return {name: replace(entry, features=name in chosen) for name, entry in named.items()}

    def check(self, model: nn.Module, source: ReferenceSource, weighed: Iterable[str], method: str) -> None:
        """Refuse models without features and references without a head, all at once; keep the heads."""
        if not self.needs.features:
            return
        problems = []
        try:
            feature_width(model)
        except ValueError as error:
            problems.append(f"the new model: {error}")
        for name in weighed:
            part = source.parts.get(name)
            if part is None:
                continue
            if part.reference is None or source.answers_by_column(part):
                problems.append(f"{part.named.title}: a column of logits holds no features; pass the model itself")
                continue
            try:
                old_width, device = part.reference.feature_width(), source.settings.device
                if self.learns_map:
                    self.maps[name] = _first_map(feature_width(model), old_width).to(device)
                if self.needs.head:
                    self.heads[name] = _frozen_head(part.reference, device, self.maps.get(name))
            except (ValueError, AttributeError) as error:
                problems.append(f"{part.named.title}: {error}")
        if problems:
            raise ValueError(
                f"method={method!r} needs features, the inputs of the last layer:\n  " + "\n  ".join(problems)
            )

    def clear_gradients(self) -> None:
        """Forget the gradients of the maps, after each step of the optimizer."""
        for layer in self.maps.values():
            layer.zero_grad()

    @contextmanager
    def watching(self, model: nn.Module) -> Iterator[FeatureTap | None]:
        """Keeps the new model's features while it runs inside the block."""
        if not self.needs.features:
            yield None
            return
        with FeatureTap(model) as tap:
            yield tap

    def of_batch(
        self,
        tap: FeatureTap | None,
        inputs: Inputs,
        logits: Tensor,
        answers: Mapping[str, ReferenceAnswer],
    ) -> BatchFeatures | None:
        """The features of the batch that just went through the new model, with those of its references."""
        if tap is None:
            return None
        own = tap.take(inputs, logits)
        return BatchFeatures(own, {name: answer.features for name, answer in answers.items()}, self.heads)


def _first_map(new_width: int, old_width: int) -> nn.Linear:
    """A map that starts as the rule without one, cutting or filling up with zeros; the same on every process."""
    layer = nn.Linear(new_width, old_width, bias=False)
    nn.init.eye_(layer.weight)
    return layer


def _frozen_head(reference: Reference, device: torch.device, learnt_map: nn.Linear | None) -> FrozenHead:
    if not isinstance(reference, ModelReference):
        raise ValueError(f"{reference.name} has no trained head of its own; pass one old model, a folder or a module")
    return FrozenHead(reference.model, device, learnt_map)
