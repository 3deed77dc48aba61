"""The one cache of answers: a file of logits (and features) for every row, named by all that they depend on.

A file is plain safetensors whose columns are mapped and not read: a training run touches only the rows it needs. It
gets its name when it is complete, so there is no half-written table to find; a damaged one is made again. The name
is a hash of everything that the numbers depend on (`identity.py`): a table that no longer fits is not found.
"""

from __future__ import annotations

import json
import logging
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import xxhash
from accelerate import PartialState
from accelerate.utils import gather, gather_object

from ..core.decode import JsonObject
from ..core.files import OutputError, held, remove_left_behind, reserve
from .run import RowAnswers, Share

logger = logging.getLogger(__name__)
SUFFIX = ".safetensors"
_NO_CHECKSUM = "0" * 32
_BLOCK = 4 * 2**20
_KINDS = {"F32": np.dtype("<f4"), "I32": np.dtype("<i4")}

Fill = Callable[[Share], Iterable[RowAnswers]]
"""Computes the share of the answers that it is asked for."""
Columns = dict[str, np.ndarray]


def default_cache_dir() -> Path:
    """Beside the datasets cache, or where HF_PCT_CACHE says."""
    from datasets import config

    chosen = os.environ.get("HF_PCT_CACHE")
    return Path(chosen) if chosen else Path(config.HF_DATASETS_CACHE).parent / "hf_pct"


@dataclass(frozen=True)
class Layout:
    """What a table holds per row: every logit, or only the `top_k` largest with the classes they belong to.

    Ten values and ten class numbers are fifty times smaller than a thousand logits, and are all that a loss over the
    reference's ten largest logits asks for. `features` is how many features are kept beside them.
    """

    width: int
    top_k: int | None = None
    features: int | None = None

    @property
    def sparse(self) -> bool:
        return self.top_k is not None and self.top_k < self.width

    @property
    def columns(self) -> dict[str, tuple[str, int]]:
        """The columns of the file: their kind of number, and how many of them a row has."""
        largest = int(self.top_k or 0)
        kept = (
            {"values": ("F32", largest), "classes": ("I32", largest)}
            if self.sparse
            else {"logits": ("F32", self.width)}
        )
        return kept if self.features is None else {**kept, "features": ("F32", self.features)}

    def encode(self, answers: RowAnswers) -> Columns:
        """Rows of the file's columns."""
        columns: Columns = {} if answers.features is None else {"features": answers.features}
        if not self.sparse:
            return {"logits": answers.logits, **columns}
        largest = torch.from_numpy(answers.logits).topk(int(self.top_k or 0), dim=-1)
        return {"values": largest.values.numpy(), "classes": largest.indices.int().numpy(), **columns}


class AnswerTable:
    """A model's answers to every row, in memory or mapped from a file; `table[row]` is the row's logits."""

    def __init__(self, columns: Columns, layout: Layout) -> None:
        self.columns, self.layout = columns, layout

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, row: int) -> np.ndarray:
        if not self.layout.sparse:
            return self.columns["logits"][row]
        logits = np.full(self.layout.width, -np.inf, dtype=np.float32)  # what was not kept is minus infinity
        logits[self.columns["classes"][row]] = self.columns["values"][row]
        return logits

    def feature(self, row: int) -> np.ndarray:
        """The features of one row."""
        return self.columns["features"][row]

    def in_memory(self, column: str) -> np.ndarray:
        """A whole column that no longer depends on the file."""
        return np.array(self.columns[column])


def load_or_compute(
    path: Path | None,
    layout: Layout,
    rows: int,
    fill: Fill,
    *,
    check: Callable[[RowAnswers], None] | None = None,
    together: bool = False,
    must_keep: bool = False,
) -> AnswerTable:
    """The table at `path`; computed first, each process of a machine its share, when it is not there or is damaged.

    `check` may refuse answers as they come. Without a path nothing is kept, and neither is a table with NaN in it.
    Each process then computes the whole table in memory, because its rows may not be the other processes' rows; with
    `together` they are known to be the same, and the work is shared. Where the file cannot be written, answers are
    not kept either, and a warning says so; with `must_keep` that is an error, for tables that may not fit in memory.
    """
    state = PartialState()
    if path is None:
        own = fill if together else lambda _: fill(Share())
        columns = _in_memory(layout, rows, lambda share: _checked(own(share), check), state, together)
        return AnswerTable(columns, layout)
    sound = not state.is_local_main_process or _is_sound(path)
    if not _everywhere(sound and _open(path, layout, rows) is not None, state):
        unfit = _compute(path, layout, rows, lambda share: _checked(fill(share), check), state, must_keep)
        if unfit is not None:
            return AnswerTable(unfit, layout)
    opened = _open(path, layout, rows)
    if opened is None:
        raise OSError(f"{path} was written a moment ago and cannot be read. Is the disk full, or the folder shared?")
    return AnswerTable(opened, layout)


def _compute(
    path: Path, layout: Layout, rows: int, fill: Fill, state: PartialState, must_keep: bool
) -> Columns | None:
    """Fill a file under a name that nobody looks for, and give it its own name when every process is done.

    Answers that cannot be kept, or have NaN among them, are returned instead.
    """
    workers = int(os.environ.get("LOCAL_WORLD_SIZE", state.num_processes))
    machine = state.process_index // max(workers, 1)  # machines may share a disk: each writes a file of its own
    tokens = gather_object([uuid.uuid4().hex]) if state.num_processes > 1 else [uuid.uuid4().hex]
    unfinished = path.with_name(f".{path.name}.{tokens[0]}.{machine}.locked.partial")
    with ExitStack() as stack:
        made = not state.is_local_main_process or _create(unfinished, layout, rows, stack, must_keep)
        if not _everywhere(made, state):  # also waits for everyone
            return _in_memory(layout, rows, fill, state)
        columns, numbers = _open(unfinished, layout, rows, "r+"), True
        if columns is None:
            raise OSError(f"{unfinished} cannot be written. Is the disk full?")
        for answers in fill(Share(state.local_process_index, workers)):
            numbers = numbers and not np.isnan(answers.logits).any()
            _store(columns, layout, answers)
        for column in columns.values():
            if isinstance(column, np.memmap):
                column.flush()
        numbers = _everywhere(bool(numbers), state)  # also waits for everyone
        kept = numbers and (not state.is_local_main_process or _keep(unfinished, path, rows))
        if not _everywhere(kept, state):
            unfit = {name: np.array(column) for name, column in columns.items()}
            state.wait_for_everyone()
            return unfit
        return None


def _in_memory(layout: Layout, rows: int, fill: Fill, state: PartialState, together: bool = True) -> Columns:
    """The whole table without a file, the work shared where the rows are the same in all processes."""
    columns = {name: np.empty((rows, size), dtype=_KINDS[kind]) for name, (kind, size) in layout.columns.items()}
    parts = fill(Share(state.process_index, state.num_processes))
    for answers in gather_object(list(parts)) if together and state.num_processes > 1 else parts:
        _store(columns, layout, answers)
    return columns


def _checked(answers: Iterable[RowAnswers], check: Callable[[RowAnswers], None] | None) -> Iterator[RowAnswers]:
    for part in answers:
        if check is not None:
            check(part)
        yield part


def _store(columns: Columns, layout: Layout, answers: RowAnswers) -> None:
    places: Any = answers.rows
    places = slice(places.start, places.stop) if isinstance(places, range) else list(places)
    for name, values in layout.encode(answers).items():
        columns[name][places] = values


# ---- the file


def _create(path: Path, layout: Layout, rows: int, stack: ExitStack, must_keep: bool) -> bool:
    """A file of the right size with real space behind it, still without numbers, locked until the stack is closed.

    False where it cannot be made: the answers are then computed all the same, and not kept.
    """
    header: JsonObject = {"__metadata__": {"format": "hf_pct answers", "checksum": _NO_CHECKSUM}}
    end = 0
    for name, (kind, size) in layout.columns.items():
        start, end = end, end + rows * size * _KINDS[kind].itemsize
        header[name] = {"dtype": kind, "shape": [rows, size], "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_left_behind(path.parent)
        stack.enter_context(held(path))
        stack.callback(path.unlink, missing_ok=True)
        reserve(path, 8 + len(text) + end)
        with open(path, "r+b") as file:
            file.write(len(text).to_bytes(8, "little") + text)
    except OSError as error:
        if must_keep:
            raise OutputError(
                f"The reference's answers cannot be kept: {error} Free some space, or choose another folder "
                "(reference_cache_dir, or HF_PCT_CACHE)."
            ) from error
        logger.warning("Answers are not kept for the next run: %s", error)
        return False
    return True


def _keep(unfinished: Path, path: Path, rows: int) -> bool:
    """Give a complete file its checksum and its name; where that fails, its numbers are used all the same."""
    try:
        _seal(unfinished)
        os.replace(unfinished, path)
    except OSError as error:
        logger.warning("Answers are not kept for the next run: %s", error)
        return False
    logger.info("Answers to %d rows written to %s", rows, path)
    return True


def _seal(path: Path) -> None:
    """Put the checksum of the numbers into the header, in the place that was left for it."""
    start, header = _header(path)
    with open(path, "r+b") as file:
        file.seek(8)
        file.write(header.replace(_NO_CHECKSUM.encode(), _checksum(path, start).encode(), 1))


def _is_sound(path: Path) -> bool:
    """Whether a table holds the numbers that were written; a warning names one that does not. False without a file."""
    if not path.exists():
        return False
    try:
        start, header = _header(path)
        recorded = json.loads(header)["__metadata__"]["checksum"]
        sound = recorded == _checksum(path, start)
    except (OSError, ValueError, KeyError, TypeError, OverflowError, MemoryError):
        sound = False
    if not sound:
        logger.warning("%s is damaged: its checksum is not that of its contents. It is computed again.", path)
    return sound


def _header(path: Path) -> tuple[int, bytes]:
    """Where the numbers begin, and the header before them."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if 8 + length > path.stat().st_size:
            raise ValueError(f"{path} is too short for its header")
        return 8 + length, file.read(length)


def _checksum(path: Path, start: int) -> str:
    digest = xxhash.xxh3_128()
    with open(path, "rb") as file:
        file.seek(start)
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _open(path: Path, layout: Layout, rows: int, mode: Literal["r", "r+"] = "r") -> Columns | None:
    """The columns of a file; None when it is not there, damaged, or of another size."""
    try:
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(length))
        columns: Columns = {}
        for name, (kind, size) in layout.columns.items():
            entry = header[name]
            start, end = entry["data_offsets"]
            if entry["dtype"] != kind or entry["shape"] != [rows, size] or 8 + length + end > path.stat().st_size:
                return None
            shape, dtype = (rows, size), _KINDS[kind]
            if end == start:
                columns[name] = np.empty(shape, dtype)
            else:
                columns[name] = np.memmap(path, dtype, mode, 8 + length + start, shape)
    except (OSError, ValueError, KeyError, TypeError, OverflowError, MemoryError):
        return None
    return columns


# ---- numbers that can be used


def check_logits(values: np.ndarray, width: int, what: str, rows: Sequence[int] | None = None) -> None:
    """Refuse logits of the wrong width, and NaN or infinity among them."""
    check_width(values, width, what)
    bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if len(bad):
        first = rows[bad[0]] if rows is not None else bad[0]
        raise ValueError(
            f"{what} has NaN or infinite logits in {len(bad)} rows, the first at row {first}. "
            "Compute them again in float32 from a model whose weights are finite."
        )


def check_width(values: np.ndarray | torch.Tensor, width: int, what: str) -> None:
    """Refuse logits that are not one per class."""
    if values.ndim != 2 or values.shape[1] != width:
        shape = values.shape[1] if values.ndim == 2 else f"shape {tuple(values.shape[1:])}"
        raise ValueError(
            f"{what} has {shape} logits per row, expected {width}: one for each class of the old model. If the old "
            "model has other classes than the new one, name it (old_model=) or its classes (old_label_names=[...])."
        )


def _everywhere(flag: bool, state: PartialState) -> bool:
    """Whether `flag` holds in every process, so that all of them take the same way."""
    if state.num_processes == 1:
        return flag
    return bool(gather(torch.tensor([int(flag)], device=state.device)).all())
