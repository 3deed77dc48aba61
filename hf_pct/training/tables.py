"""Tables of reference logits: one line a row (or a view of a row), computed once, kept on disk, never half written.

A table is a plain `.npy` file that is mapped and not read: a training run touches only the lines it needs. Its name is
a hash of everything that the numbers depend on, so a table that no longer fits has another name and is not found.
"""

from __future__ import annotations

import hashlib
import logging
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list
from torch import Tensor

from ..predict import default_cache_dir
from .rows import ReferenceRows

logger = logging.getLogger(__name__)
_LAYOUT = 1  # raise it when tables are laid out in another way


def table_dir(chosen: str | os.PathLike | None = None) -> Path:
    """Where tables are kept: the folder chosen, or `references` in the kit's cache beside the datasets cache."""
    return Path(chosen) if chosen is not None else default_cache_dir() / "references"


def table_name(*parts: Any) -> str:
    """A file name that changes when any of the parts does; `parts` must have a `repr` that tells them apart."""
    digest = hashlib.sha256(repr((_LAYOUT, *parts)).encode()).hexdigest()
    return f"{digest[:32]}.npy"


def load_or_compute(
    path: Path | None, rows: ReferenceRows, width: int, logits: Callable[[list[Mapping[str, Any]]], Tensor], batch: int
) -> np.ndarray:
    """The table at `path`; computed first, each process of a machine its share of the rows, when it is not there.

    Without a path (a dataset that cannot be identified) the table is computed for this run only, in memory.
    """
    state = PartialState()
    lines = len(rows) * max(rows.views, 1)
    if path is None:
        table = np.empty((lines, width), dtype=np.float32)
        _fill(table, range(lines), rows, logits, batch)
        return table
    if not _everywhere(path.exists(), state):
        _compute(path, (lines, width), rows, logits, batch, state)
    table = np.load(path, mmap_mode="r", allow_pickle=False)
    if table.shape != (lines, width):
        raise ValueError(
            f"The cached reference logits in {path} have shape {table.shape}, expected {(lines, width)}. "
            "Delete that file and run again."
        )
    return table


def _compute(
    path: Path, shape: tuple[int, int], rows: ReferenceRows, logits: Callable, batch: int, state: PartialState
) -> None:
    """Fill a file under a name that no run looks for, and give it its own name when every process is done."""
    token = broadcast_object_list([uuid.uuid4().hex])[0] if state.num_processes > 1 else uuid.uuid4().hex
    partial = path.with_name(f".{path.name}.{token}.partial")
    if state.is_local_main_process:
        path.parent.mkdir(parents=True, exist_ok=True)
        np.lib.format.open_memmap(partial, mode="w+", dtype=np.float32, shape=shape).flush()
    state.wait_for_everyone()
    try:
        table = np.load(partial, mmap_mode="r+")
        workers = int(os.environ.get("LOCAL_WORLD_SIZE", state.num_processes))
        bounds = np.linspace(0, shape[0], workers + 1).astype(int)
        share = range(bounds[state.local_process_index], bounds[state.local_process_index + 1])
        _fill(table, share, rows, logits, batch)
        table.flush()
        state.wait_for_everyone()
        if state.is_local_main_process:
            os.replace(partial, path)
            logger.info("Reference logits of %d rows written to %s", shape[0], path)
        state.wait_for_everyone()
    finally:
        if state.is_local_main_process:
            partial.unlink(missing_ok=True)


def _fill(table: np.ndarray, lines: range, rows: ReferenceRows, logits: Callable, batch: int) -> None:
    from tqdm.auto import tqdm

    starts = range(lines.start, lines.stop, batch)
    quiet = not PartialState().is_local_main_process or len(starts) < 20
    for start in tqdm(starts, desc="Reference logits", disable=quiet, leave=False):
        block = range(start, min(start + batch, lines.stop))
        fetched = [rows.view(line) for line in block] if rows.views else rows.__getitems__(list(block))
        values = logits(fetched).float().cpu().numpy()
        check_logits(values, table.shape[1], "The old model's output", first_row=start)
        table[block.start : block.stop] = values


def column_table(dataset: Any, column: str, width: int) -> np.ndarray:
    """A dataset's own column of logits as a table; wrong width and NaN are refused before anything is trained."""
    blocks: list[np.ndarray] = []
    plain = dataset.with_format("numpy", columns=[column]) if hasattr(dataset, "with_format") else dataset
    for start in range(0, len(dataset), 4096):
        stop = min(start + 4096, len(dataset))
        values: Sequence = (
            plain[start:stop][column] if plain is not dataset else [plain[i][column] for i in range(start, stop)]
        )
        try:
            block = np.asarray(values, dtype=np.float32)
        except ValueError as error:
            raise ValueError(
                f"Column {column!r} has rows of different lengths, expected {width} logits each."
            ) from error
        check_logits(block, width, f"Column {column!r}", first_row=start)
        blocks.append(block)
    return np.concatenate(blocks) if blocks else np.empty((0, width), dtype=np.float32)


def check_logits(values: np.ndarray, width: int, what: str, first_row: int = 0) -> None:
    """Refuse logits of the wrong width, and NaN or infinity among them."""
    if values.ndim != 2 or values.shape[1] != width:
        found = values.shape[1] if values.ndim == 2 else f"shape {values.shape[1:]}"
        raise ValueError(
            f"{what} has {found} logits a row, expected {width}: one for each class of the old model. If the old "
            "model has other classes than the new one, name it (old_model=) or its classes (old_label_names=[...])."
        )
    bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if len(bad):
        raise ValueError(
            f"{what} has NaN or infinite logits in {len(bad)} rows, the first at row {first_row + bad[0]}. "
            "Compute them again in float32 from a model whose weights are finite."
        )


def _everywhere(flag: bool, state: PartialState) -> bool:
    """Whether `flag` holds in every process, so that all of them take the same way."""
    if state.num_processes == 1:
        return flag
    from accelerate.utils import gather

    return bool(gather(torch.tensor([int(flag)], device=state.device)).all())


def describe_collator(collate: Any) -> str | None:
    """What a collator does to rows, as text for a table's name; `None` when it cannot be told."""
    from datasets.fingerprint import Hasher
    from transformers import DataCollatorWithPadding

    if isinstance(collate, DataCollatorWithPadding):  # a tokenizer's own hash changes when it is first used
        tokenizer = collate.tokenizer
        return repr((tokenizer.pad_token_id, tokenizer.padding_side, collate.padding, collate.max_length))
    try:
        return str(Hasher.hash(collate))
    except Exception:  # whatever a closure holds that cannot be hashed, the answer is the same: keep nothing
        return None
