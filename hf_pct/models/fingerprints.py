"""Content hashes of models, processors and data: what caches are keyed by and what reports record.

A hash is of what a thing holds, never of a name, a path or a date, so that a model trained again under the same name
is a different model and a copy of a dataset is the same dataset.
"""

import hashlib
from collections.abc import Iterable, Mapping

import numpy as np
import torch
from torch import nn

from ..core.decode import JsonObject
from ..core.fingerprints import WeightsHash

_STORED_AS = {
    torch.float32: "F32",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint64: "U64",
    torch.uint32: "U32",
    torch.uint16: "U16",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


class Digest:
    """A hash that is fed values instead of bytes; each goes in with its kind and length, so nothing runs together."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)

    def add(self, value: object) -> "Digest":
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
        if hasattr(value, "tobytes") and hasattr(value, "mode") and hasattr(value, "size"):  # a decoded image
            return self.add(value.mode).add(list(value.size))._put("image", value.tobytes())
        if isinstance(value, torch.Tensor):
            return self.add(str(value.dtype)).add(list(value.shape))._put("tensor", _tensor_bytes(value))
        return self._put(type(value).__name__, str(value).encode("utf-8", "surrogatepass"))

    def _put(self, kind: str, content: bytes | bytearray | memoryview) -> "Digest":
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
    """The content hash of a model's weights and buffers: that of the files that `save_pretrained` writes of it.

    An ensemble of adapters says itself which of its weights count.
    """
    if hasattr(model, "hashed_weights"):
        return state_fingerprint(model.hashed_weights())
    tied = getattr(model, "all_tied_weights_keys", None) or {}  # saved once, under the other name
    return state_fingerprint({name: tensor for name, tensor in model.state_dict().items() if name not in tied})


def state_fingerprint(state: Mapping[str, torch.Tensor]) -> str:
    """The content hash of a state dict; see `core.fingerprints`."""
    digest = WeightsHash()
    for name, tensor in state.items():
        exact = tensor.detach().float() if tensor.is_floating_point() else tensor.detach()
        raw = np.frombuffer(_tensor_bytes(exact), dtype=np.uint8)
        digest.add(name, _STORED_AS.get(exact.dtype, str(exact.dtype)), exact.shape, raw)
    return digest.hexdigest()


def data_fingerprint(columns: Iterable[Iterable[object]]) -> str:
    """The hash of a dataset's columns, value by value; images are hashed as their encoded bytes."""
    digest = Digest()
    for column in columns:
        digest.add("column")
        for value in column:
            digest.add(encoded_image(value) if isinstance(value, dict) and "bytes" in value else value)
    return digest.hex()


def encoded_image(image: JsonObject) -> bytes:
    """The file of an image that `datasets` has not decoded: its bytes, or what lies at its path."""
    if image["bytes"] is not None:
        return image["bytes"]
    with open(image["path"], "rb") as file:
        return file.read()
