"""Where reference logits come from, and what two label spaces have in common.

A reference is anything with label names, a fingerprint and `logits(inputs)`: one old model here, an adapter of the
model in training, or an ensemble elsewhere. A trainer asks for nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from ..ensembles.adapters import AdapterView, split_owner
from ..fingerprints import Digest, model_fingerprint
from ..labels import LabelAlignment, align_labels
from ..tasks import LoadedModel, accepted_inputs, ask, label_names_of, load_model
from .losses import IGNORED


class Reference(Protocol):
    """What a trainer needs of a reference."""

    name: str
    label_names: tuple[str, ...]
    processor: Any

    def logits(self, inputs: Mapping[str, Any]) -> Tensor:
        """Logits of a batch in the reference's own label order, without a gradient."""
        ...

    def fingerprint(self) -> str | None:
        """Changes whenever the logits would; `None` when that cannot be known, and nothing is kept on disk."""
        ...

    def to(self, device: torch.device) -> Any: ...


class ModelReference:
    """One model that is only asked: it gets no gradients and keeps no activations, and is otherwise left as it is."""

    def __init__(self, model: nn.Module, label_names: Sequence[str], name: str, processor: Any = None) -> None:
        self.model = model
        self.label_names, self.name, self.processor = tuple(label_names), name, processor
        self._accepts = accepted_inputs(model)

    def logits(self, inputs: Mapping[str, Any]) -> Tensor:
        if self.model.training:
            self.model.eval()
        with torch.no_grad():
            return ask(self.model, inputs)

    def accepted(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs that this model's forward names; another architecture may have made more of them."""
        return {key: value for key, value in inputs.items() if key in self._accepts}

    def fingerprint(self) -> str | None:
        return model_fingerprint(self.model)

    def to(self, device: torch.device) -> ModelReference:
        self.model.to(device)
        return self


class AdapterReference:
    """The model in training with another of its adapters: the backbone is loaded once for both.

    Whatever is asked, its active adapter, its modes and what requires a gradient are as they were found.
    """

    def __init__(self, model: Any, adapter: str, label_names: Sequence[str]) -> None:
        if adapter not in getattr(model, "peft_config", {}):
            found = ", ".join(map(repr, getattr(model, "peft_config", {}))) or "none: it is no PEFT model"
            raise ValueError(
                f"old_adapter={adapter!r} is not loaded in the model (adapters: {found}). "
                f"Load it first: model.load_adapter(folder, adapter_name={adapter!r})."
            )
        self.model, self.adapter, self.name = model, adapter, f"adapter {adapter!r}"
        self.view = AdapterView(model, adapter)
        self.label_names, self.processor = tuple(label_names), None

    def logits(self, inputs: Mapping[str, Any]) -> Tensor:
        with torch.no_grad():
            return ask(self.view, inputs)

    def fingerprint(self) -> str | None:
        # the adapter in training is left out: it changes from run to run, and old answers do not depend on it
        digest = Digest().add(self.adapter)
        for name, tensor in sorted(self.model.state_dict().items()):
            if split_owner(name, set(self.model.peft_config))[0] in (None, self.adapter):
                digest.add(name).add(tensor)
        config = self.model.peft_config[self.adapter]
        return digest.add(str(config.to_dict())).hex()  # the rank and lora_alpha scale what the weights add

    def to(self, device: torch.device) -> AdapterReference:
        return self


def load_reference(
    old_model: Any, revision: str | None = None, processor: Any = None, fallback: Any = None
) -> Reference:
    """A reference from a Hub id, a folder, a `LoadedModel`, a module with a `config`, or a reference as it is.

    `fallback` is the new model's processor: it stands in for one that was not saved with the old model.
    """
    if isinstance(old_model, nn.Module):
        own = processor or getattr(old_model, "processor", None)  # an ensemble knows how its members read
        return ModelReference(old_model, label_names_of(old_model), type(old_model).__name__, own)
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


def old_versions(newest: Any, earlier: Sequence[Any] | None = None) -> list[Any]:
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
