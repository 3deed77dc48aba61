"""Tensors of safetensors files, read piece by piece.

A merge needs no model in memory, not even a whole tensor: it reads the same range of each input, computes, and writes.
The headers are read by `core.weight_files` rather than by the library because the library can only return whole
tensors, and because the output repeats the new model's header byte for byte.
"""

from __future__ import annotations

import mmap
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import torch
from torch import Tensor

from ...core.fingerprints import WeightsHash, file_hash, hash_entries
from ...core.weight_files import Entry, WeightFile, read_weight_file

__all__ = [
    "CHUNK_BYTES",
    "DTYPES",
    "Entry",
    "Files",
    "WeightFile",
    "WeightsHash",
    "file_hash",
    "hash_weights",
    "pieces",
    "read_weight_file",
    "write_all",
]

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
    "U64": torch.uint64,
    "U32": torch.uint32,
    "U16": torch.uint16,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
MOST_OPEN = 32
CHUNK_BYTES = 4 * 2**20  # of each input at a time: small enough that the arithmetic happens in the processor's cache


class Files:
    """Files mapped by path: what the page cache holds is used where it lies, without being copied.

    Only the most recently used stay open, so that a hundred shards need no more open files than a few.
    """

    def __init__(self, most_open: int = MOST_OPEN) -> None:
        self._open: OrderedDict[Path, mmap.mmap] = OrderedDict()
        self._most_open = most_open

    def _map(self, entry: Entry) -> mmap.mmap:
        if entry.file not in self._open:
            while len(self._open) >= self._most_open:
                self._close(self._open.popitem(last=False)[1])
            with open(entry.file, "rb", buffering=0) as stream:
                self._open[entry.file] = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY)
        self._open.move_to_end(entry.file)
        mapped = self._open[entry.file]
        # what is mapped beyond the end of a file that was cut meanwhile cannot be read without killing the process
        if mapped.size() < entry.stop:
            raise OSError(f"{entry.file} ended while {entry.name} was read: did something change it?")
        return mapped

    @staticmethod
    def _close(mapped: mmap.mmap) -> None:
        with suppress(BufferError):  # a piece of it is in use, and closes it when it is done
            mapped.close()

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
        """Free the memory of pages that were used; the page cache keeps them for others."""
        mapped = self._open.get(entry.file)
        if size and mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
            start = (entry.start + offset) // mmap.PAGESIZE * mmap.PAGESIZE
            length = (entry.start + offset + size) // mmap.PAGESIZE * mmap.PAGESIZE - start
            if length > 0:
                with suppress(ValueError):  # closed meanwhile
                    mapped.madvise(mmap.MADV_DONTNEED, start, length)

    def read(self, entry: Entry) -> Tensor:
        """One whole tensor, copied."""
        return self.typed(entry, 0, entry.bytes).clone().reshape(entry.shape)

    def close(self) -> None:
        for mapped in self._open.values():
            self._close(mapped)
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


def hash_weights(entries: dict[str, Entry]) -> str:
    """The content hash by itself."""
    return hash_entries(entries.values())
