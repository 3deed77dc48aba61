"""Where reference logits come from, and what two label spaces have in common.

A reference is anything with label names, a fingerprint and `logits(inputs)`: one old model here, an adapter of the
model in training, or an ensemble elsewhere. A trainer asks for nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from ...core.decode import JsonObject
from ...core.labels import LabelAlignment, align_labels
from ...methods.base import IGNORED
from ...models.ensembles.shared_backbone import AdapterView
from ...models.features import FeatureTap, feature_width, last_layer
from ...models.fingerprints import Digest
from ...models.identity import model_fingerprint
from ...models.load import LoadedModel, accepted_inputs, ask, label_names_of, load_model
from ...models.load.kinds import refuse_other_problems
from ...models.types import Inputs, Processor
from .rows import FEATURES, LOGITS


class ReferenceAnswer(NamedTuple):
    """A reference's logits of a batch and, where they are asked for, what goes into its last layer."""

    logits: Tensor
    features: Tensor | None = None

    def carried(self, name: str) -> dict[str, Tensor]:
        """The entries of a batch that hold this answer, for the reference of this name."""
        entries = {LOGITS + name: self.logits}
        return entries if self.features is None else entries | {FEATURES + name: self.features}


class Reference(Protocol):
    """What a trainer needs of a reference."""

    name: str
    label_names: tuple[str, ...]
    processor: Processor

    def logits(self, inputs: Inputs) -> Tensor:
        """Logits of a batch in the reference's own label order, without a gradient."""
        ...

    def answer(self, inputs: Inputs) -> ReferenceAnswer:
        """The same logits, with the features they were made of."""
        ...

    def feature_width(self) -> int: ...

    def fingerprint(self) -> str | None:
        """Changes whenever the logits would; `None` when that cannot be known, and nothing is kept on disk."""
        ...

    def to(self, device: torch.device) -> Reference: ...


class _WithFeatures:
    """Logits and features of one forward, for references that hold a module."""

    model: nn.Module

    def logits(self, inputs: Inputs) -> Tensor:
        """Each kind of reference runs its module in its own way."""
        return ask(self.model, inputs)

    def answer(self, inputs: Inputs) -> ReferenceAnswer:
        with FeatureTap(self.model) as tap:
            logits = self.logits(inputs)
            return ReferenceAnswer(logits, tap.take(inputs, logits))

    def feature_width(self) -> int:
        return feature_width(self.model)


class ModelReference(_WithFeatures):
    """One model that is only asked: it gets no gradients and keeps no activations, and is otherwise left as it is.

    Example:
        >>> import torch
        >>> from transformers import BertConfig, BertForSequenceClassification
        >>> sizes = dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2)
        >>> config = BertConfig(vocab_size=9, **sizes)
        >>> from hf_pct.training import ModelReference
        >>> old = ModelReference(BertForSequenceClassification(config), ["no", "yes"], name="v1")
        >>> old.logits({"input_ids": torch.tensor([[1, 2, 3]])}).shape
        torch.Size([1, 2])
    """

    def __init__(
        self, model: nn.Module, label_names: Sequence[str], name: str, processor: Processor | None = None
    ) -> None:
        self.model = model
        self.label_names, self.name, self.processor = tuple(label_names), name, processor
        self._accepts = accepted_inputs(model)

    def logits(self, inputs: Inputs) -> Tensor:
        if self.model.training:
            self.model.eval()
        with torch.no_grad():
            return ask(self.model, inputs)

    def head(self, features: Tensor) -> Tensor:
        """The logits that this model makes of features, its own or another's."""
        return last_layer(self.model)(features)

    def accepted(self, inputs: Inputs) -> JsonObject:
        """The inputs that this model's forward names; another architecture may have made more of them."""
        return {key: value for key, value in inputs.items() if key in self._accepts}

    def fingerprint(self) -> str | None:
        return model_fingerprint(self.model)

    def to(self, device: torch.device) -> ModelReference:
        self.model.to(device)
        return self


class AdapterReference(_WithFeatures):
    """The model in training with another of its adapters: the backbone is loaded once for both.

    Whatever is asked, its active adapter, its modes and what requires a gradient are as they were found.
    """

    def __init__(self, model: nn.Module, adapter: str, label_names: Sequence[str]) -> None:
        if adapter not in getattr(model, "peft_config", {}):
            loaded = ", ".join(map(repr, getattr(model, "peft_config", {}))) or "none: it is no PEFT model"
            raise ValueError(
                f"old_adapter={adapter!r} is not loaded in the model (adapters: {loaded}). "
                f"Load it first: model.load_adapter(folder, adapter_name={adapter!r})."
            )
        self.model, self.adapter, self.name = model, adapter, f"adapter {adapter!r}"
        self.view = AdapterView(model, adapter)
        self.label_names, self.processor = tuple(label_names), None

    def logits(self, inputs: Inputs) -> Tensor:
        with torch.no_grad():
            return ask(self.view, inputs)

    def fingerprint(self) -> str | None:
        # the adapter in training is left out: it changes from run to run, and old answers do not depend on it
        known = model_fingerprint(self.view)
        return known and Digest().add(known).add(str(self.model.peft_config[self.adapter].to_dict())).hex()

    def to(self, device: torch.device) -> AdapterReference:
        return self


def load_reference(
    old_model: Any,
    revision: str | None = None,
    processor: Processor | None = None,
    fallback: Processor | None = None,
    label_names: Sequence[str] | None = None,
) -> Reference:
    """A reference from a Hub id, a folder (also of an adapter), a `LoadedModel`, a module, or a reference as it is.

    `label_names` are for a model that does not say its classes, as a bare timm model. `fallback` is the new
    model's processor: it stands in for one that was not saved with the old model.
    """
    if isinstance(old_model, nn.Module):
        own = processor or getattr(old_model, "processor", None)  # an ensemble knows how its members read
        refuse_other_problems(getattr(old_model, "config", None), type(old_model).__name__)
        names = tuple(label_names) if label_names is not None else label_names_of(old_model)
        return ModelReference(old_model, names, type(old_model).__name__, own)
    if hasattr(old_model, "logits") and hasattr(old_model, "fingerprint"):
        return old_model
    if isinstance(old_model, LoadedModel):
        loaded = old_model
    else:
        try:
            loaded = load_model(old_model, revision=revision, processor=processor)
        except ValueError:
            if processor is not None or fallback is None:
                raise
            loaded = load_model(old_model, revision=revision, processor=fallback)
    names = loaded.label_names or label_names_of(loaded.model)
    return ModelReference(loaded.model, names, loaded.name or "the old model", processor or loaded.processor)


def old_versions(newest: object, earlier: Sequence[object] | None = None) -> list[object]:
    """Old models as a list, the oldest first and the one in service last."""
    chain = list(newest) if isinstance(newest, list | tuple) else [] if newest is None else [newest]
    if earlier and not chain:
        raise ValueError(
            f"earlier_models={list(earlier)} without old_model: name the model in service as old_model, and those "
            "before it as earlier_models, the oldest first."
        )
    return [*(earlier or ()), *chain]


class SharedClasses:
    """Two label spaces side by side: cuts logits and labels down to what old and new model both know."""

    def __init__(self, old_names: Sequence[str], new_names: Sequence[str], title: str = "the old model") -> None:
        self.alignment: LabelAlignment = align_labels(old_names, new_names)
        if not self.alignment.shared:
            raise ValueError(
                f"{title[0].upper()}{title[1:]} and the new model share no class: old {_some(old_names)}, new "
                f"{_some(new_names)}. Classes are matched by name: set `id2label` in both configs to the names of the "
                "classes."
            )
        self.old_index = torch.from_numpy(self.alignment.old_index)
        self.new_index = torch.from_numpy(self.alignment.new_index)
        self.shared_of_new = torch.full((len(new_names),), IGNORED)
        self.shared_of_new[self.new_index] = torch.arange(len(self.new_index))
        self.new_of_old = torch.full((len(old_names),), -1)
        self.new_of_old[self.old_index] = self.new_index

    def to(self, device: torch.device) -> SharedClasses:
        for name in ("old_index", "new_index", "shared_of_new", "new_of_old"):
            setattr(self, name, getattr(self, name).to(device))
        return self

    def __call__(
        self, new_logits: Tensor, old_logits: Tensor, labels: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """New logits, old logits and labels over the shared classes, and which rows the old model gets right.

        Labels of added classes become `IGNORED`. Whether the old model is right is decided by its whole output, so an
        answer that names a class since removed is wrong.
        """
        right = self.predictions(old_logits) == labels
        if self.alignment.identical:
            return new_logits, old_logits, labels, right
        known = self.shared_of_new[labels.clamp_min(0)].masked_fill(labels == IGNORED, IGNORED)
        return new_logits[:, self.new_index], old_logits[:, self.old_index], known, right

    def predictions(self, old_logits: Tensor) -> Tensor:
        """The old model's answers as classes of the new model; -1 for a class that the new model lacks."""
        return self.new_of_old[old_logits.argmax(-1)]

    def known(self) -> Tensor:
        """For each class of the new model, whether it is one of the old model too."""
        return self.shared_of_new != IGNORED


def _some(names: Sequence[str], most: int = 5) -> str:
    return ", ".join(map(repr, names[:most])) + (f" and {len(names) - most} more" if len(names) > most else "")
