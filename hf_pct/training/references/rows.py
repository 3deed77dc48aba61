"""Datasets and batches that carry the reference with them: rows have its logits, collators pass them on."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from ...core.decode import JsonObject
from ...models.cache import AnswerTable, check_logits
from ...models.types import Collate, Row, RowSource

LOGITS = "reference_logits_"
"""Start of the batch entries with a reference's logits, in its own label order; its name follows."""

FEATURES = "reference_features_"
"""Start of the batch entries with what goes into a reference's last layer; its name follows."""

INPUTS = "reference_inputs"
"""Batch entry with the inputs of live references that have their own tokenizer or image processor, by their names."""

_CARRIED = (LOGITS, FEATURES)

Encode = Callable[[Sequence[Row]], dict[str, Tensor]]


def is_reference(key: str) -> bool:
    """Whether a batch entry is there for the references and not for the model."""
    return key == INPUTS or key.startswith(_CARRIED)


class Table(Protocol):
    """One line of logits per row, or per view of a row."""

    def __getitem__(self, line: int) -> np.ndarray: ...


class ReferenceRows(Dataset):
    """A map-style dataset whose rows carry logits of references, from tables computed beforehand, by reference.

    With `views`, a sample has that many fixed augmented views: a view is the dataset's own row, fetched with the
    random number generators set from (seed, row, view), so that it looks the same whenever it is asked for and nothing
    but its logits needs to be stored. Row `i` shows view `(i + epoch) % views`. A table has one line per view, those
    of a row side by side.
    """

    def __init__(
        self, dataset: RowSource, tables: Mapping[str, Table] | None = None, views: int = 0, seed: int = 0
    ) -> None:
        self.dataset, self.tables, self.views, self.seed = dataset, dict(tables or {}), views, seed
        self._epoch = torch.zeros((), dtype=torch.int64).share_memory_()  # workers that outlive an epoch see it too

    def set_epoch(self, epoch: int) -> None:
        self._epoch.fill_(epoch)

    def __len__(self) -> int:
        return len(self.dataset)

    @property
    def lines(self) -> int:
        """How many lines a table of these rows has."""
        return len(self.dataset) * max(self.views, 1)

    def fetch_lines(self, lines: Sequence[int]) -> list[JsonObject]:
        """The rows, or the views of rows, that lines of a table are for; without anything from the tables."""
        return [self.view(line) for line in lines] if self.views else self._fetch(list(lines))

    def __getitem__(self, index: int) -> JsonObject:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[JsonObject]:
        """Rows for a batch at once, which Arrow-backed datasets answer much faster than one by one."""
        indices = [int(index) for index in indices]
        epoch = int(self._epoch)
        if self.views:
            lines = [index * self.views + (index + epoch) % self.views for index in indices]
            rows = [self.view(line) for line in lines]
        else:
            lines, rows = indices, self._fetch(indices)
        for name, table in self.tables.items():
            for row, line in zip(rows, lines, strict=True):
                row[LOGITS + name] = table[line]
                if isinstance(table, AnswerTable) and table.layout.features is not None:
                    row[FEATURES + name] = table.feature(line)
        return rows

    def view(self, line: int) -> JsonObject:
        """The view that line `line` of the table belongs to."""
        index, view = divmod(line, self.views)
        with fixed_randomness(self.seed, index, view):
            return dict(self.dataset[index])

    def _fetch(self, indices: list[int]) -> list[JsonObject]:
        many = getattr(self.dataset, "__getitems__", None)
        return [dict(row) for row in (many(indices) if many else [self.dataset[index] for index in indices])]


class ReferenceCollator:
    """The trainer's collator, kept from seeing what it does not know: reference logits and raw columns.

    Raw columns become `reference_inputs` through the encoders of the references that have their own processor, for
    those whose logits do not come along. With `share_raw` the trainer's collator sees them too: it may be the one
    that tokenizes.
    """

    def __init__(
        self,
        collate: Collate,
        raw: Sequence[str] = (),
        encoders: Mapping[str, Encode] | None = None,
        share_raw: bool = False,
    ) -> None:
        self.collate, self.raw, self.encoders = collate, tuple(raw), dict(encoders or {})
        self.hidden = set() if share_raw else set(raw)

    def __call__(self, rows: list[Row]) -> JsonObject:
        carried = [key for key in rows[0] if key.startswith(_CARRIED)]
        hidden = self.hidden.union(carried)
        batch = dict(self.collate([{key: value for key, value in row.items() if key not in hidden} for row in rows]))
        for key in carried:
            batch[key] = torch.from_numpy(np.stack([row[key] for row in rows]))
        own = {name: encode(rows) for name, encode in self.encoders.items() if LOGITS + name not in carried}
        if own:
            batch[INPUTS] = own
        return batch


@contextmanager
def fixed_randomness(*seed: int) -> Iterator[None]:
    """Python's, NumPy's and torch's generators set from `seed` inside the block, and put back after it."""
    words = np.random.SeedSequence(seed).generate_state(2)
    python, numpy, default = random.getstate(), np.random.get_state(), torch.random.get_rng_state()
    try:
        random.seed(int(words[0]))
        np.random.seed(int(words[0]))
        torch.default_generator.manual_seed(int(words[1]))
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        torch.random.set_rng_state(default)


def column_table(dataset: RowSource, column: str, width: int) -> np.ndarray:
    """A dataset's own column of logits as a table; wrong width and NaN are refused before anything is trained."""
    blocks: list[np.ndarray] = []
    plain = dataset.with_format("numpy", columns=[column]) if hasattr(dataset, "with_format") else dataset
    for start in range(0, len(dataset), 4096):
        lines = range(start, min(start + 4096, len(dataset)))
        stored = plain is not dataset
        values: Sequence = plain[lines.start : lines.stop][column] if stored else [plain[i][column] for i in lines]
        try:
            block = np.asarray(values, dtype=np.float32)
        except ValueError as error:
            raise ValueError(
                f"Column {column!r} has rows of different lengths, expected {width} logits each."
            ) from error
        check_logits(block, width, f"Column {column!r}", lines)
        blocks.append(block)
    return np.concatenate(blocks) if blocks else np.empty((0, width), dtype=np.float32)


def is_repeatable(dataset: RowSource, rows: int = 8) -> bool:
    """Whether fetching a row twice gives the same row. A frequent augmentation shows, a rare one may not."""
    return all(_same(dataset[index], dataset[index]) for index in range(min(rows, len(dataset))))


def _same(first: object, second: object) -> bool:
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return first.keys() == second.keys() and all(_same(first[key], second[key]) for key in first)
    if isinstance(first, Tensor | np.ndarray):
        return np.array_equal(np.asarray(first), np.asarray(second))
    return bool(first == second)
