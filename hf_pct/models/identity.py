"""What decides an answer, as hashes: the model, how it reads, and the rows; None where that cannot be known.

A cache is right as long as its key changes with everything that the answers depend on. Objects of libraries are
described by all that they hold. Code of a person's own may change between two runs without any value changing, so
whatever contains some has no hash, and nothing about it is kept.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import inspect
import json
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from .._version import __version__
from ..core.decode import JsonObject
from .fingerprints import Digest, weights_fingerprint
from .types import Processor, RowSource

if TYPE_CHECKING:
    import pyarrow as pa
    from transformers import PreTrainedTokenizerBase


_LIBRARIES = {"torch", "transformers", "timm", "peft", "accelerate", "torchvision", "tokenizers", "PIL", "numpy"}
_VERSIONED = ("torch", "transformers", "tokenizers", "timm", "torchvision", "pillow", "peft")
# what an object is called and where it was loaded from, and modes that `run` sets itself
_IRRELEVANT = {
    "training",
    "name_or_path",
    "warnings_issued",
    "processor",
    "verbose",
    "inference_mode",
    "active_adapter",
}
_ADAPTER_SETTINGS = ("active_adapters", "disable_adapters")  # properties of PEFT's layers, and part of the answer
_TOKENIZER_SETTINGS = (
    "padding_side", "truncation_side", "model_input_names", "model_max_length", "pad_token_type_id", "pad_token_id",
    "all_special_tokens", "all_special_ids", "split_special_tokens",
)  # fmt: skip


class NotKnown(Exception):
    """Something whose effect on the answers cannot be seen from outside."""


def cache_key(**parts: object) -> str | None:
    """One hash of all that an answer depends on; None when any part is not known."""
    if any(part is None for part in parts.values()):
        return None
    return Digest().add(parts).add(library_versions()).add(__version__).hex()


@functools.cache
def library_versions() -> dict[str, str]:
    """Versions of the libraries that compute answers: a new one may round, or read, differently."""
    versions = {}
    for name in _VERSIONED:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "absent"
    return versions


def precision(device: torch.device | str) -> str:
    """How numbers are rounded on a device at this moment, also by an autocast around the caller, for a cache's key."""
    kind = torch.device(device).type
    mixed = str(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else "no"
    return f"{kind}, autocast {mixed}, matmul {torch.get_float32_matmul_precision()}"


# ---- models


def model_fingerprint(model: nn.Module, weights: str | None = None) -> str | None:
    """The hash of everything that decides a model's outputs, or None when that cannot be known.

    `weights` is the model's `weights_fingerprint` where the caller has it: hashing them is most of the work. Beside
    the weights it covers every layer with its settings, so a layer that was replaced in place is noticed. A layer of
    code that is no library's, a hook, or a `forward` that was replaced leave the model without a fingerprint.
    """
    try:
        structure = describe_layers(model)
    except NotKnown:
        return None
    state: Mapping[str, torch.Tensor] = getattr(model, "hashed_weights", model.state_dict)()
    dtypes = {name: str(value.dtype) for name, value in state.items()}
    digest = Digest().add(type(model).__qualname__).add(weights or weights_fingerprint(model)).add(dtypes)
    return digest.add(structure).add(library_versions()).hex()


def describe_layers(model: nn.Module) -> list[object]:
    """Every layer of a model with its class and settings, and buffers that are not saved; raises `NotKnown`."""
    _refuse_hooks(torch.nn.modules.module, "_global_forward")
    memo: dict[int, object] = {}
    adapters = set(getattr(model, "adapters", ())) if hasattr(model, "hashed_weights") else None
    saved = model.state_dict().keys()
    layers = []
    for name, module in model.named_modules():
        _refuse_own_code(module)
        if adapters is not None:
            name = _without_adapters(name, module, adapters)
        if name is not None:
            settings = _attributes(module, memo)
            if adapters is not None:
                settings.pop("peft_config", None)
            layers.append([name, type(module).__qualname__, settings])
    unsaved = {
        name if adapters is None else _unwrapped(name.split("."), adapters): value
        for name, value in model.named_buffers()
        if name not in saved
    }
    unsaved.pop(None, None)
    return [sorted(layers, key=lambda layer: (layer[0], layer[1])), unsaved]


def _without_adapters(name: str, module: nn.Module, adapters: set[str]) -> str | None:
    """A layer's name as if nobody had wrapped it; None for what an adapter adds, which the weights' hash covers."""
    own = type(module).__module__.startswith(("peft.", "hf_pct."))
    return None if own else _unwrapped(name.split("."), adapters)


def _unwrapped(parts: list[str], adapters: set[str]) -> str | None:
    if adapters.intersection(parts) or any(part.startswith(("lora_", "modules_to_save")) for part in parts):
        return None
    return ".".join(part for part in parts if part not in ("base_layer", "original_module"))


def _refuse_own_code(module: nn.Module) -> None:
    kind = type(module)
    if not _is_library(kind.__module__) or not _is_library_code(kind.forward):
        raise NotKnown(f"{kind.__qualname__} is code of your own")
    _refuse_hooks(module, "_forward")


def _refuse_hooks(owner: nn.Module, prefix: str) -> None:
    for kind in ("_hooks", "_pre_hooks"):
        for hook in getattr(owner, prefix + kind, {}).values():
            describe(hook)


def _attributes(module: nn.Module, memo: dict[int, object]) -> JsonObject:
    """The settings that a layer keeps beside its weights."""
    settings = {
        name: describe(value, memo)
        for name, value in sorted(vars(module).items())
        if not name.startswith("_") and name not in _IRRELEVANT
    }
    if type(module).__module__.startswith("peft."):
        settings |= {name: describe(getattr(module, name)) for name in _ADAPTER_SETTINGS if hasattr(module, name)}
    return settings


# ---- anything that a library made


def describe(value: object, memo: dict[int, object] | None = None) -> object:
    """A value as plain data that changes whenever what it does would; raises `NotKnown`."""
    memo = {} if memo is None else memo
    if value is None or isinstance(value, bool | int | float | str | bytes | torch.Tensor):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return [str(value.dtype), list(value.shape), value.tobytes()]
    if isinstance(value, torch.dtype | torch.device | torch.Size | range | slice | enum.Enum):
        return str(value)
    if isinstance(value, list | tuple):
        return [describe(entry, memo) for entry in value]
    if isinstance(value, set | frozenset):
        return sorted(str(entry) for entry in value)
    if isinstance(value, Mapping):
        return {str(key): describe(entry, memo) for key, entry in value.items()}
    if id(value) not in memo:
        memo[id(value)] = type(value).__qualname__  # what it holds may lead back to it
        memo[id(value)] = _describe_object(value, memo)
    return memo[id(value)]


def _describe_object(value: object, memo: dict[int, object]) -> object:
    if isinstance(value, functools.partial):
        return ["partial", describe(value.func, memo), describe(value.args, memo), describe(value.keywords, memo)]
    if inspect.ismethod(value):
        return ["method", describe(value.__func__, memo), describe(value.__self__, memo)]
    if inspect.isroutine(value) or inspect.isclass(value):
        if not _is_library_code(value):
            raise NotKnown(f"{value!r} is code of your own")
        name = f"{value.__module__}.{value.__qualname__}"
        enclosed = _enclosed(value)
        return [name, describe(enclosed, memo)] if enclosed else name
    kind = type(value)
    if not _is_library(kind.__module__):
        raise NotKnown(f"{kind.__qualname__} is code of your own")
    if hasattr(value, "backend_tokenizer"):
        return _describe_tokenizer(value)
    if hasattr(value, "get_vocab"):
        raise NotKnown(f"{kind.__qualname__} does not say all that it does")
    if hasattr(value, "id2label") and hasattr(value, "to_dict"):  # a config
        return json.dumps(
            {key: entry for key, entry in value.to_dict().items() if not key.startswith("_")},
            sort_keys=True,
            default=str,
        )
    if _is_standard(kind.__module__):  # a logger, a lock: nothing that answers depend on
        return kind.__qualname__
    return [kind.__qualname__, *([_attributes(value, memo)] if hasattr(value, "__dict__") else [repr(value)])]


def _describe_tokenizer(tokenizer: PreTrainedTokenizerBase) -> list[object]:
    try:
        state = json.loads(tokenizer.backend_tokenizer.to_str())
    except Exception as error:  # a step written in Python cannot be written down
        raise NotKnown(f"{type(tokenizer).__qualname__} has a step that cannot be saved") from error
    # padding and truncation are set by each call, not by the tokenizer
    text = json.dumps({key: value for key, value in state.items() if key not in ("padding", "truncation")})
    own = [value for value in vars(tokenizer).values() if inspect.isroutine(value)]
    settings = {name: describe(getattr(tokenizer, name, None)) for name in _TOKENIZER_SETTINGS}
    return [type(tokenizer).__qualname__, text, settings, describe(own)]


def _enclosed(function: object) -> list[object]:
    """What a function keeps from where it was made: settings, or another function that it wraps."""
    try:
        return [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    except ValueError as error:  # a cell that is still to be filled
        raise NotKnown(f"{function!r} is not complete yet") from error


def _is_library_code(code: object) -> bool:
    """Whether a function or a class is a library's; `functools.wraps` lends a person's own a library's name."""
    named = getattr(code, "__module__", None)
    return _is_library(named) and _is_library(getattr(code, "__globals__", {}).get("__name__", named))


def _is_library(module: str | None) -> bool:
    root = (module or "").split(".")[0]
    return root in _LIBRARIES or root == "hf_pct" or _is_standard(module)


def _is_standard(module: str | None) -> bool:
    root = (module or "").split(".")[0]
    return root != "__main__" and (root in sys.stdlib_module_names or root == "builtins")


# ---- processors and rows


def processor_fingerprint(processor: Processor) -> str | None:
    """The hash of a tokenizer, an image processor or a transform with all its settings; None when it is not known."""
    try:
        return Digest().add(describe(processor)).add(library_versions()).hex()
    except NotKnown:
        return None


def stored_fingerprint(dataset: RowSource, skip: tuple[str, ...] = ("label", "labels")) -> str | None:
    """The hash of the rows that a `datasets.Dataset` without a transform holds, value by value.

    Its own fingerprint does not do: files that were rewritten keep it. Images that are kept as paths are read.
    """
    import datasets
    import pyarrow as pa

    columns = [name for name in dataset.column_names if name not in skip]
    digest = Digest().add(len(dataset)).add({key: str(value) for key, value in dataset.format.items()})
    media = [name for name in columns if isinstance(dataset.features[name], datasets.Image | datasets.Audio)]
    nested = [name for name in columns if name not in media and _holds_media(dataset.features[name])]
    if nested:
        return None
    for name in media:
        dataset = dataset.cast_column(name, type(dataset.features[name])(decode=False))
    hashed = hashlib.blake2b(digest_size=16)
    for block in _blocks(dataset.select_columns(columns).with_format("arrow")):
        if media:
            for name in media:
                for row in block[name].to_pylist():
                    hashed.update(_media_bytes(row))
            block = block.drop_columns(media)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, block.schema.remove_metadata()) as writer:
            writer.write_table(block.combine_chunks().replace_schema_metadata(None))
        hashed.update(sink.getvalue())
    return digest.add(columns).add(hashed.hexdigest()).hex()


def _blocks(dataset: RowSource, rows: int = 8192) -> Iterator[pa.Table]:
    for start in range(0, len(dataset), rows):
        yield dataset[start : start + rows]


def _holds_media(feature: object) -> bool:
    return any(word in str(feature) for word in ("Image(", "Audio(", "Video(", "Pdf("))


def _media_bytes(row: JsonObject | None) -> bytes:
    if row is None:
        return b"none"
    if row["bytes"] is not None:
        return row["bytes"]
    with open(row["path"], "rb") as file:
        return file.read()
