"""`AdapterEnsemble`: members that are LoRA adapters of one model, whose backbone is in memory once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from ..fingerprints import Digest
from ..load.adapters import base_with_head, headless, peft_model_class
from ..types import Outputs, Processor
from .checks import raise_problems
from .mean import Ensemble

if TYPE_CHECKING:
    from transformers import PretrainedConfig

_HOLDERS = ("lora_", "modules_to_save", "trainable_tokens_")  # what stands before an adapter's name in a weight's


class AdapterEnsemble(Ensemble):
    """The mean of one PEFT model's answers with each of several adapters; every adapter keeps its own head.

    The model may be in training with another of its adapters: whatever is asked, its active adapter, its modes and
    what requires a gradient are as they were found.
    """

    def __init__(
        self,
        model: nn.Module,
        adapters: Sequence[str],
        *,
        temperatures: Sequence[float] | None = None,
        processor: Processor | None = None,
    ) -> None:
        loaded = model.peft_config if hasattr(model, "get_base_model") else {}
        problems = [] if loaded else [f"{type(model).__name__} is no PEFT model: expected peft.get_peft_model(...)"]
        for adapter in adapters if loaded else ():
            if adapter not in loaded:
                problems.append(
                    f"adapter {adapter!r} is not loaded, the model has {', '.join(map(repr, loaded))}. Load it first: "
                    f"model.load_adapter(folder, adapter_name={adapter!r})"
                )
            elif (kind := getattr(loaded[adapter].peft_type, "value", loaded[adapter].peft_type)) != "LORA":
                problems.append(f"adapter {adapter!r} is of the kind {kind}, expected LORA")
        repeated = sorted({adapter for adapter in adapters if list(adapters).count(adapter) > 1})
        problems += [f"adapter {adapter!r} is listed more than once" for adapter in repeated]
        raise_problems(problems)
        views = [AdapterView(model, adapter) for adapter in adapters]
        super().__init__(views, temperatures=temperatures, processor=processor)
        self.adapters = tuple(adapters)

    def hashed_weights(self) -> dict[str, Tensor]:
        """What decides the answers, under names that depend neither on the adapters' names nor on their order."""
        model: nn.Module = self.members[0].model
        contents = []
        for number, adapter in enumerate(self.adapters):
            own = {**_adapter_weights(model, adapter), "temperature": self.temperatures[number]}
            contents.append((Digest().add(own).hex(), own))
        hashed = _base_weights(model, self.adapters)
        for place, (_, own) in enumerate(sorted(contents, key=lambda content: content[0])):
            hashed |= {f"adapters.{place}.{name}": value for name, value in own.items()}
        return hashed


class AdapterView(nn.Module):
    """A PEFT model that answers with one of its adapters and is then as it was found."""

    def __init__(self, model: nn.Module, adapter: str) -> None:
        super().__init__()
        self.model, self.adapter, self.title = model, adapter, f"adapter {adapter!r}"
        self.adapters = (adapter,)
        self.training = False

    @property
    def config(self) -> PretrainedConfig:
        return self.model.config

    def get_base_model(self) -> nn.Module:
        return self.model.get_base_model()

    def weights_in_use(self) -> Iterator[tuple[str, Tensor]]:
        """The weights, without those of other adapters."""
        loaded = set(self.model.peft_config)
        for name, value in self.model.named_parameters():
            if split_owner(name, loaded)[0] in (None, self.adapter):
                yield name, value

    def hashed_weights(self) -> dict[str, Tensor]:
        """What decides the answers: the base model's weights and this adapter's, whatever others are loaded."""
        return _base_weights(self.model, self.adapters) | _adapter_weights(self.model, self.adapter)

    def train(self, mode: bool = True) -> AdapterView:
        """Only a flag: the model answers as for inference whatever its mode, which is its owner's."""
        self.training = mode
        return self

    def forward(self, **inputs: object) -> Outputs:
        with self._active():
            return self.model(**inputs)

    @contextmanager
    def _active(self) -> Iterator[None]:
        self._refuse_merged_or_disabled()
        named, active = self.model.active_adapter, self.model.active_adapters
        trainable = [(value, value.requires_grad) for value in self.model.parameters()]
        modes = [(module, module.training) for module in self.model.modules()]
        try:
            self.model.eval()
            self.model.set_adapter(self.adapter)
            _restore(trainable)  # activating an adapter makes it trainable and freezes the others
            yield
        finally:
            self.model.base_model.set_adapter(active[0] if len(active) == 1 else active)
            self.model.active_adapter = named
            _restore(trainable)
            for module, mode in modes:
                module.training = mode

    def _refuse_merged_or_disabled(self) -> None:
        from peft.tuners.tuners_utils import BaseTunerLayer

        layers = [module for module in self.model.modules() if isinstance(module, BaseTunerLayer)]
        if any(layer.merged for layer in layers):
            raise ValueError("The model's adapters are merged into its weights: call model.unmerge_adapter() first.")
        if any(layer.disable_adapters for layer in layers):
            raise ValueError("The model's adapters are disabled, so every member would answer as the base model.")


def _restore(trainable: list[tuple[Tensor, bool]]) -> None:
    for value, needed in trainable:
        if value.requires_grad != needed:
            value.requires_grad_(needed)


def split_owner(name: str, adapters: set[str]) -> tuple[str | None, str]:
    """The adapter that a weight belongs to, None for the base model's, and the weight's name without it."""
    parts = name.split(".")
    for place, part in enumerate(parts[1:], start=1):
        if part in adapters and parts[place - 1].startswith(_HOLDERS):
            return part, ".".join(parts[:place] + parts[place + 1 :])
    return None, name


def _base_weights(model: nn.Module, adapters: Sequence[str]) -> dict[str, Tensor]:
    """A base model's weights, named as if nobody had wrapped them.

    Those that every one of the adapters has its own of are left out: a base without a head has random ones there.
    """
    state, loaded = model.state_dict(), set(model.peft_config)
    originals = {name: name.split("original_module.") for name in state if "original_module." in name}
    replaced = {
        name
        for name, (start, end) in originals.items()
        if all(f"{start}modules_to_save.{adapter}.{end}" in state for adapter in adapters)
    }
    return {
        name.replace(".base_layer.", ".").replace(".original_module.", "."): value
        for name, value in state.items()
        if split_owner(name, loaded)[0] is None and name not in replaced
    }


def _adapter_weights(model: nn.Module, adapter: str) -> dict[str, Tensor]:
    """An adapter's weights without its name, and the factors that scale what they add."""
    loaded, own = set(model.peft_config), {}
    for name, value in model.state_dict().items():
        owner, rest = split_owner(name, loaded)
        if owner == adapter:
            own[rest] = value
    for name, layer in model.named_modules():
        factor = getattr(layer, "scaling", None)  # lora_alpha over the rank: no weight, but part of the answer
        if isinstance(factor, dict) and adapter in factor:
            own[f"{name}.scaling"] = torch.tensor(float(factor[adapter]))
    return own


def load_adapters(
    base: str, folders: Sequence[Path], label_names: Sequence[str] | None = None, dtype: torch.dtype = torch.float32
) -> tuple[nn.Module, list[str]]:
    """A base model with the adapters of several folders, all from safetensors, and the names they got."""
    module, missing = base_with_head(base, folders, dtype=dtype, label_names=label_names)
    raise_problems([headless(folder, base, lacking) for folder, lacking in missing.items() if lacking])
    names = [f"member_{number}" for number in range(len(folders))]
    model = peft_model_class().from_pretrained(module, str(folders[0]), adapter_name=names[0])
    for name, folder in zip(names[1:], folders[1:], strict=True):
        model.load_adapter(str(folder), adapter_name=name)
    return model.eval(), names
