"""ONE content hash of a model's weights: the same in a flip report, a merge record and a cache.

It is a hash of the values under their names, so that it does not matter whether they lie in one file or in a hundred
shards, in the order of the file or of a state dict, on disk or in memory, in bfloat16 or in the float32 that they are
loaded as, inside the transformers wrapper or as timm's own model. xxh3 rather than SHA: it tells whether two models
are the same at the speed of memory; it is no signature.

Reports of earlier versions had a BLAKE2 hash of the state dict in float32, merge records an xxh3 hash that
distinguished bfloat16 from float32. Both are still recognised.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import xxhash

from .weight_files import ITEM_BYTES, Entry, open_weights, read_weight_file

KIND = "xxh3_128:"
_BLOCK = 4 * 2**20  # every dtype's size divides it, so no number is cut in two
_WRAPPER = "timm_model."
# how reports of earlier versions named what is no float
_TORCH_NAMES = {
    "I64": "torch.int64",
    "I32": "torch.int32",
    "I16": "torch.int16",
    "I8": "torch.int8",
    "U8": "torch.uint8",
    "BOOL": "torch.bool",
}
_FLOATS = {"F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2"}


class WeightsHash:
    """Takes tensors in any order, each whole or in consecutive pieces."""

    def __init__(self) -> None:
        self._tensors: dict[str, tuple[str, xxhash.xxh3_128]] = {}

    def add(self, name: str, dtype: str, shape: Iterable[int], raw: np.ndarray) -> None:
        """Bytes of a tensor; `dtype` is named as safetensors names it."""
        if name not in self._tensors:
            kind = "F32" if dtype in _FLOATS else dtype
            self._tensors[name] = (f"{kind}\0{tuple(shape)}", xxhash.xxh3_128())
        self._tensors[name][1].update(memoryview(as_float32(dtype, raw)))  # type: ignore[arg-type]

    def hexdigest(self) -> str:
        whole = xxhash.xxh3_128()
        wrapped = bool(self._tensors) and all(name.startswith(_WRAPPER) for name in self._tensors)
        for name in sorted(self._tensors):
            described, digest = self._tensors[name]
            bare = name.removeprefix(_WRAPPER) if wrapped else name
            whole.update(f"{bare}\0{described}\0{digest.hexdigest()}\n".encode())
        return KIND + whole.hexdigest()


def as_float32(dtype: str, raw: np.ndarray) -> np.ndarray:
    """The bytes of floating-point numbers as float32, which holds every smaller kind exactly; others as they are."""
    if dtype == "F64":
        with np.errstate(over="ignore"):
            return raw.view("<f8").astype("<f4")
    if dtype == "F16":
        return raw.view("<f2").astype("<f4")
    if dtype == "BF16":
        return raw.view("<u2").astype("<u4") << np.uint32(16)
    if dtype == "F8_E5M2":  # the upper half of a float16
        return (raw.astype("<u2") << np.uint16(8)).view("<f2").astype("<f4")
    if dtype == "F8_E4M3":
        return _E4M3[raw]
    return raw


def _e4m3_values() -> np.ndarray:
    """The 256 numbers of float8 e4m3fn: a sign, four bits of exponent, three of mantissa, no infinity."""
    code = np.arange(256)
    exponent, mantissa = code >> 3 & 15, code & 7
    size = np.where(exponent == 0, mantissa * 2.0**-9, (8 + mantissa) * 2.0 ** (exponent - 10.0))
    size[code & 127 == 127] = np.nan
    return np.where(code & 128, -size, size).astype("<f4")


_E4M3 = _e4m3_values()


def hash_entries(entries: Iterable[Entry]) -> str:
    """The content hash of tensors on disk, read a few megabytes at a time."""
    digest = WeightsHash()
    for entry, block in read_blocks(entries):
        digest.add(entry.name, entry.dtype, entry.shape, block)
    return digest.hexdigest()


def read_blocks(entries: Iterable[Entry]) -> Iterator[tuple[Entry, np.ndarray]]:
    """Consecutive blocks of bytes of each tensor; an empty tensor has one empty block."""
    for entry in entries:
        left = entry.bytes
        with open(entry.file, "rb") as stream:
            stream.seek(entry.start)
            while True:
                block = stream.read(min(left, _BLOCK))
                if len(block) < min(left, _BLOCK):
                    raise OSError(f"{entry.file} ended while {entry.name} was read: did something change it?")
                yield entry, np.frombuffer(block, dtype=np.uint8)
                left -= len(block)
                if not left:
                    break


def hash_folder(folder: str | os.PathLike) -> tuple[str | None, list[str]]:
    """The content hash of a model's folder without loading it, or None and why there is none."""
    weights, problems = open_weights(Path(folder))
    if weights is None or problems:
        return None, problems
    return hash_entries(weights.entries.values()), []


def hash_file_weights(path: str | os.PathLike) -> str:
    """The content hash of one safetensors file, of an adapter or a Fisher."""
    file, problems = read_weight_file(Path(path))
    if file is None or problems:
        raise ValueError("; ".join(problems))
    return hash_entries(file.entries)


def file_hash(path: str | os.PathLike) -> str:
    """The hash of one file's bytes."""
    digest = xxhash.xxh3_128()
    with open(path, "rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return KIND + digest.hexdigest()


# ---- what earlier versions of the kit recorded


def same_weights(recorded: str, entries: Iterable[Entry]) -> bool:
    """Whether a recorded hash, of this version or of an earlier one, is that of these tensors."""
    listed = list(entries)
    if recorded.startswith(KIND):
        return recorded == hash_entries(listed) or recorded == _merge_record_hash(listed)
    if not is_earlier_report_hash(recorded):
        return False
    inner = [(entry.name.removeprefix("timm_model."), entry) for entry in listed]
    return recorded == _report_hash([(entry.name, entry) for entry in listed]) or recorded == _report_hash(inner)


def is_earlier_report_hash(recorded: str) -> bool:
    """32 hexadecimal digits and nothing before them: written by a version before there was one hash."""
    return len(recorded) == 32 and all(digit in "0123456789abcdef" for digit in recorded)


def _merge_record_hash(entries: list[Entry]) -> str:
    digests = {entry.name: (entry, xxhash.xxh3_128()) for entry in entries}
    for entry, block in read_blocks(entries):
        digests[entry.name][1].update(block.tobytes())
    whole = xxhash.xxh3_128()
    for name in sorted(digests):
        entry, digest = digests[name]
        whole.update(f"{name}\0{entry.dtype}\0{entry.shape}\0{digest.hexdigest()}\n".encode())
    return KIND + whole.hexdigest()


def _report_hash(named: list[tuple[str, Entry]]) -> str:
    """Each value went in with its kind and length before it."""
    digest = hashlib.blake2b(digest_size=16)

    def put(kind: str, content: bytes) -> None:
        digest.update(f"{kind}:{len(content)}:".encode() + content)

    for name, entry in sorted(named, key=lambda pair: pair[0]):
        dtype = _TORCH_NAMES.get(entry.dtype, "torch.float32")
        size = 4 if dtype == "torch.float32" else ITEM_BYTES[entry.dtype]
        put("str", name.encode("utf-8", "surrogatepass"))
        put("str", dtype.encode())
        for length in entry.shape:
            put("int", str(length).encode())
        put("list", str(len(entry.shape)).encode())
        digest.update(f"tensor:{entry.bytes // ITEM_BYTES[entry.dtype] * size}:".encode())
        for _, block in read_blocks([entry]):
            digest.update(as_float32(entry.dtype, block).tobytes())
    return digest.hexdigest()
