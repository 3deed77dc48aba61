"""safetensors files as they lie on disk: headers, where each tensor's bytes are, and reading them piece by piece.

A merge needs no model in memory, not even a whole tensor: it reads the same range of each input, computes, and writes.
The headers are read here rather than through the library because the library can only hand over whole tensors, and
because the output repeats the new model's header byte for byte.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import BinaryIO

import torch
import xxhash
from torch import Tensor

DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
CHUNK_BYTES = 4 * 2**20  # of each input at a time: small enough that the arithmetic happens in the processor's cache


@dataclass(frozen=True)
class Entry:
    """One tensor on disk."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    file: Path
    start: int
    stop: int

    @property
    def bytes(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class WeightFile:
    """One safetensors file: its raw header and its entries in the order of their bytes."""

    path: Path
    header: bytes
    entries: tuple[Entry, ...]


def read_weight_file(path: Path) -> tuple[WeightFile | None, list[str]]:
    """Read and check a header against the file's real size. Returns the problems instead of stopping at the first."""
    size = path.stat().st_size
    with open(path, "rb") as stream:
        start = stream.read(8)
        length = int.from_bytes(start, "little")
        if len(start) < 8 or 8 + length > size:
            return None, [f"{path}: truncated, {size} bytes are too few for its header"]
        header = stream.read(length)
    try:
        table = json.loads(header)
        described = {name: spec for name, spec in table.items() if name != "__metadata__"}
        data = 8 + length
        entries = [
            Entry(name, spec["dtype"], tuple(spec["shape"]), path, *(data + int(at) for at in spec["data_offsets"]))
            for name, spec in described.items()
        ]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        return None, [f"{path}: not a safetensors file, its header cannot be read ({error})"]
    entries.sort(key=lambda entry: (entry.start, entry.stop))
    problems = [
        f"{path}: {entry.name} has dtype {entry.dtype}; expected one of {sorted(DTYPES)}"
        for entry in entries
        if entry.dtype not in DTYPES
    ]
    expected = max((entry.stop for entry in entries), default=data)
    if size != expected:
        what = "truncated" if size < expected else "longer than it should be"
        problems.append(f"{path}: {what}, {size} bytes where its header promises {expected}: copy it again")
    at = data
    for entry in entries:
        known = DTYPES.get(entry.dtype)
        wrong_size = known is not None and entry.bytes != prod(entry.shape) * known.itemsize
        if entry.start != at or entry.stop < entry.start or wrong_size:
            problems.append(f"{path}: the bytes of {entry.name} do not fit its shape {entry.shape}: a corrupt header")
        at = entry.stop
    return WeightFile(path, start + header, tuple(entries)), problems


class Files:
    """Files mapped by path, each once: what the page cache holds is used where it lies, without being copied."""

    def __init__(self) -> None:
        self._open: dict[Path, tuple[BinaryIO, mmap.mmap]] = {}

    def _map(self, entry: Entry) -> mmap.mmap:
        if entry.file not in self._open:
            opened = open(entry.file, "rb", buffering=0)  # noqa: SIM115 closed by close()
            self._open[entry.file] = opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_COPY)
        stream, mapped = self._open[entry.file]
        # what is mapped beyond the end of a file that was cut meanwhile cannot be read without killing the process
        if os.fstat(stream.fileno()).st_size < entry.stop:
            raise OSError(f"{entry.file} ended while {entry.name} was read: did something change it?")
        return mapped

    def view(self, entry: Entry, offset: int, size: int) -> Tensor:
        """Bytes of an entry as they lie in the file. Not to be written to, nor used after `forget` or `close`."""
        if not size:
            return torch.empty(0, dtype=torch.uint8)
        return torch.frombuffer(self._map(entry), dtype=torch.uint8, count=size, offset=entry.start + offset)

    def typed(self, entry: Entry, offset: int, size: int) -> Tensor:
        """The same as numbers; copied only where the file has them at an odd address."""
        kind, piece = DTYPES[entry.dtype], self.view(entry, offset, size)
        return (piece if piece.data_ptr() % kind.itemsize == 0 else piece.clone()).view(kind)

    def forget(self, entry: Entry, offset: int, size: int) -> None:
        """Let the memory of pages that were used go; the page cache keeps them for others."""
        if size and entry.file in self._open and hasattr(mmap, "MADV_DONTNEED"):
            start = (entry.start + offset) // mmap.PAGESIZE * mmap.PAGESIZE
            length = (entry.start + offset + size) // mmap.PAGESIZE * mmap.PAGESIZE - start
            if length > 0:
                self._open[entry.file][1].madvise(mmap.MADV_DONTNEED, start, length)

    def read(self, entry: Entry) -> Tensor:
        """One whole tensor, copied."""
        return self.typed(entry, 0, entry.bytes).clone().reshape(entry.shape)

    def close(self) -> None:
        for stream, mapped in self._open.values():
            with suppress(BufferError):  # a traceback, say, still refers to a piece
                mapped.close()
            stream.close()
        self._open.clear()

    def __enter__(self) -> Files:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def pieces(size: int, chunk: int = CHUNK_BYTES) -> Iterator[tuple[int, int]]:
    """(offset, length) of consecutive pieces; every dtype's size divides the chunk, so no number is cut in two."""
    for offset in range(0, size, chunk):
        yield offset, min(chunk, size - offset)


def write_all(stream: BinaryIO, buffer: Tensor) -> None:
    """Write a byte tensor whole: a raw write may take only part of it."""
    view = memoryview(buffer.numpy())
    while view:
        view = view[stream.write(view) :]


class WeightsHash:
    """A content hash of a whole model: the same for one file or many shards, whatever the order.

    xxh3 rather than SHA: it tells whether the inputs are the same, at the speed of memory; it is no signature.
    """

    def __init__(self) -> None:
        self._entries: dict[str, tuple[Entry, xxhash.xxh3_128]] = {}

    def update(self, entry: Entry, data: Tensor) -> None:
        if entry.name not in self._entries:
            self._entries[entry.name] = (entry, xxhash.xxh3_128())
        self._entries[entry.name][1].update(memoryview(data.numpy()))

    def hexdigest(self) -> str:
        whole = xxhash.xxh3_128()
        for name in sorted(self._entries):
            entry, digest = self._entries[name]
            whole.update(f"{name}\0{entry.dtype}\0{entry.shape}\0{digest.hexdigest()}\n".encode())
        return f"xxh3_128:{whole.hexdigest()}"


def hash_weights(entries: dict[str, Entry]) -> str:
    """The content hash by itself."""
    digest = WeightsHash()
    with Files() as files:
        for entry in entries.values():
            for offset, length in pieces(entry.bytes) if entry.bytes else [(0, 0)]:
                digest.update(entry, files.view(entry, offset, length))
                files.forget(entry, offset, length)
    return digest.hexdigest()


def file_hash(path: str | os.PathLike) -> str:
    """The hash of one file's bytes."""
    digest = xxhash.xxh3_128()
    with open(path, "rb") as stream:
        while block := stream.read(CHUNK_BYTES):
            digest.update(block)
    return f"xxh3_128:{digest.hexdigest()}"
