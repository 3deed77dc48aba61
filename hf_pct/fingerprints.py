"""Content hashes of models, processors and data: what caches are keyed by and what reports record.

A hash is of what a thing holds, never of a name, a path or a date, so that a model trained again under the same name
is a different model and a copy of a dataset is the same dataset.
"""

import hashlib
import json
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from ._version import __version__

_LIBRARIES = {"torch", "transformers", "timm", "peft"}


class Digest:
    """A hash that is fed values instead of bytes; each goes in with its kind and length, so nothing runs together."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)

    def add(self, value: Any) -> "Digest":
        if isinstance(value, dict):
            for key in sorted(value):
                self.add(str(key)).add(value[key])
            return self._put("dict", str(len(value)).encode())
        if isinstance(value, (list, tuple)):
            for entry in value:
                self.add(entry)
            return self._put("list", str(len(value)).encode())
        if isinstance(value, (bytes, bytearray, memoryview)):
            return self._put("bytes", value)
        if isinstance(value, torch.Tensor):
            return self.add(str(value.dtype)).add(list(value.shape))._put("tensor", _tensor_bytes(value))
        return self._put(type(value).__name__, str(value).encode("utf-8", "surrogatepass"))

    def _put(self, kind: str, content: Any) -> "Digest":
        size = content.nbytes if isinstance(content, memoryview) else len(content)
        self._hash.update(f"{kind}:{size}:".encode())
        self._hash.update(content)
        return self

    def hex(self) -> str:
        return self._hash.hexdigest()


def _tensor_bytes(tensor: torch.Tensor) -> memoryview:
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return memoryview(flat.view(torch.uint8).numpy()) if flat.numel() else memoryview(b"")


def weights_fingerprint(model: nn.Module) -> str:
    """The hash of a model's weights and buffers; an ensemble of adapters says itself which of them count."""
    digest = Digest()
    state: Any = getattr(model, "hashed_weights", model.state_dict)()
    for name, tensor in sorted(state.items()):
        digest.add(name).add(tensor)
    return digest.hex()


def model_fingerprint(model: nn.Module, weights: str | None = None) -> str | None:
    """The hash of everything that decides a model's outputs, or None when that cannot be known.

    `weights` is the model's `weights_fingerprint` where the caller has it: hashing them is most of the work.

    Weights and configuration decide the outputs of library models. A class of a person's own may change its code
    between two runs without either changing; such a model has no fingerprint, and nothing about it is cached.
    """
    if not all(_is_of_a_library(type(module).__module__) for module in model.modules()):
        return None
    digest = Digest().add(type(model).__qualname__).add(weights or weights_fingerprint(model)).add(_versions())
    digest.add(_settings(model))
    if hasattr(model, "member_logits"):
        digest.add(__version__).add([(type(member).__qualname__, _settings(member)) for member in model.members])
    return digest.hex()


def _is_of_a_library(module: str) -> bool:
    return module.split(".")[0] in _LIBRARIES or module.startswith("hf_pct.ensembles.")


def _settings(model: nn.Module) -> str:
    config: Any = getattr(model, "config", None)
    if hasattr(config, "to_dict"):
        settings = {key: value for key, value in config.to_dict().items() if not key.startswith("_")}
        if hasattr(model, "peft_config") and hasattr(model, "get_base_model"):
            settings["adapters"] = _adapter_settings(model)
        return json.dumps(settings, sort_keys=True, default=str)
    return str(model)  # the layers and their settings, as PyTorch prints them


def _adapter_settings(model: Any) -> list[Any]:
    """What a PEFT model's answers depend on beside its weights: the active adapters, and their scale in each layer."""
    layers = [
        (name, layer.scaling, layer.disable_adapters)
        for name, layer in model.named_modules()
        if isinstance(getattr(layer, "scaling", None), dict)
    ]
    return [model.active_adapters, layers]


def processor_fingerprint(processor: Any) -> str:
    """The hash of a tokenizer or an image processor."""
    backend = getattr(processor, "backend_tokenizer", None)
    if backend is not None:
        state = json.loads(backend.to_str())
        # padding and truncation are set by each call, not by the tokenizer
        settings: Any = {key: value for key, value in state.items() if key not in ("padding", "truncation")}
    elif hasattr(processor, "get_vocab"):
        settings = processor.get_vocab()
    elif hasattr(processor, "to_dict"):
        settings = processor.to_dict()
    else:
        settings = str(processor)
    return Digest().add(type(processor).__qualname__).add(json.dumps(settings, sort_keys=True, default=str)).hex()


def data_fingerprint(columns: Iterable[Iterable[Any]]) -> str:
    """The hash of a dataset's columns, value by value; images are hashed as their encoded bytes."""
    digest = Digest()
    for column in columns:
        digest.add("column")
        for value in column:
            digest.add(_encoded_image(value) if isinstance(value, dict) and "bytes" in value else value)
    return digest.hex()


def _encoded_image(image: dict[str, Any]) -> bytes:
    if image["bytes"] is not None:
        return image["bytes"]
    with open(image["path"], "rb") as file:
        return file.read()


def _versions() -> dict[str, str]:
    import transformers

    return {"torch": torch.__version__, "transformers": transformers.__version__}
