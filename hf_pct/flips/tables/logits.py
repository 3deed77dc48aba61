"""Logits that stay in their file: a million rows of a thousand classes are four gigabytes, and few of them are needed.

Whoever needs all of them takes `whole`; whoever needs every row once takes `blocks`, and never holds more than one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from .encoding import logits_array
from .plain_columns import without_views

BLOCK_BYTES = 1 << 23
_BUFFER = 1 << 20


@dataclass(frozen=True)
class FileLogits:
    """The column `logits` of a parquet file, read in blocks of rows."""

    path: Path
    rows: int
    width: int
    label_names: tuple[str, ...] | None = None
    column: str = "logits"

    @property
    def block_rows(self) -> int:
        return rows_per_block(self.width)

    def blocks(self, size: int | None = None) -> Iterator[np.ndarray]:
        """The rows in order, at most `size` at a time; a block that is no matrix of numbers is refused."""
        file = pq.ParquetFile(self.path, buffer_size=_BUFFER, pre_buffer=False, page_checksum_verification=True)
        start = 0
        for batch in file.iter_batches(size or self.block_rows, columns=[self.column], use_threads=False):
            try:
                block = logits_array(batch.column(0), len(batch), self.label_names)
            except ValueError as error:
                raise ValueError(f"From row {start} on: {error}") from error
            if block.shape[1] != self.width:
                raise ValueError(
                    f"The logits have {self.width} and {block.shape[1]} columns, expected the same in all."
                )
            start += len(block)
            yield block

    def whole(self) -> np.ndarray:
        """All of them, in memory."""
        matrix = np.empty((self.rows, self.width), dtype=np.float32)
        start = 0
        for block in self.blocks():
            matrix[start : start + len(block)] = block
            start += len(block)
        return matrix


Logits = np.ndarray | FileLogits


def rows_per_block(width: int) -> int:
    """Rows of this many numbers that make a block of moderate size."""
    return max(256, BLOCK_BYTES // (4 * max(width, 1)))


def rows_in_order(logits: Logits, numbers: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """The rows with these numbers, in this order, `size` at a time. Rows of a file must be asked for in its order."""
    if isinstance(logits, np.ndarray):
        for start in range(0, len(numbers), size):
            yield logits[numbers[start : start + size]]
        return
    start, parts, waiting = 0, [], 0
    for block in logits.blocks(size):
        low, high = np.searchsorted(numbers, [start, start + len(block)])
        parts.append(block if high - low == len(block) else block[numbers[low:high] - start])
        waiting += high - low
        start += len(block)
        if waiting >= size:
            joined = parts[0] if len(parts) == 1 else np.concatenate(parts)
            yield joined[:size]
            parts, waiting = [joined[size:]], waiting - size
    if waiting:
        yield np.concatenate(parts)


def in_file_order(logits: Logits, numbers: np.ndarray) -> bool:
    """Whether rows with these numbers can be read in one pass."""
    return isinstance(logits, np.ndarray) or bool(np.all(numbers[1:] > numbers[:-1]))


def answers_and_confidence(logits: FileLogits, answers: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """In one pass over the file: the class with the largest logit of every row, and how sure the model is.

    The confidence is that of `answers`, codes of the classes, or of the largest logit without them.
    """
    largest = np.empty(logits.rows, dtype=np.int32)
    sure = np.empty(logits.rows, dtype=np.float64)
    start = 0
    for block in logits.blocks():
        rows = slice(start, start + len(block))
        largest[rows] = block.argmax(-1)
        sure[rows] = softmax_at(block, largest[rows] if answers is None else answers[rows])
        start += len(block)
    return largest, sure


def softmax_at(logits: np.ndarray, answers: np.ndarray | Sequence[int]) -> np.ndarray:
    """The probability of one class in every row."""
    exponentials = np.exp(logits.astype(np.float64) - logits.max(-1, keepdims=True))
    return exponentials[np.arange(len(logits)), answers] / exponentials.sum(-1)


def file_logits(file: pq.ParquetFile, path: Path, label_names: Sequence[str] | None) -> FileLogits:
    """The logits of an open file; how wide they are is read from its first row."""
    first = next(file.iter_batches(1, columns=["logits"]), None)
    if first is None or not len(first):
        raise ValueError("There are no rows. Expected at least one prediction.")
    width = logits_array(first.column(0), 1, None).shape[1]
    if label_names is not None and width != len(label_names):
        raise ValueError(
            f"The logits have shape ({file.metadata.num_rows}, {width}), expected {file.metadata.num_rows} rows and "
            f"{len(label_names)} columns, one per label name."
        )
    return FileLogits(path, file.metadata.num_rows, width, None if label_names is None else tuple(label_names))


class FileColumns(Mapping[str, pa.ChunkedArray]):
    """Further columns of a parquet file, each read when it is asked for and not kept."""

    def __init__(self, path: Path, schema: pa.Schema, names: Sequence[str], rows: int) -> None:
        self.path, self.schema, self.names, self.rows = path, schema, tuple(names), rows

    def __getitem__(self, name: str) -> pa.ChunkedArray:
        if name not in self.names:
            raise KeyError(name)
        return without_views(pq.read_table(self.path, columns=[name], page_checksum_verification=True).column(0))

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def type_of(self, name: str) -> pa.DataType:
        """A column's type, without reading it."""
        return self.schema.field(name).type
