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
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list, gather_object
from torch import Tensor

from ..predict import default_cache_dir
from .rows import ReferenceRows, Table

logger = logging.getLogger(__name__)
_LAYOUT = 1  # raise it when tables are laid out in another way


def table_dir(chosen: str | os.PathLike | None = None) -> Path:
    """Where tables are kept: the folder chosen, or `references` in the kit's cache beside the datasets cache."""
    return Path(chosen) if chosen is not None else default_cache_dir() / "references"


def table_name(*parts: Any) -> str:
    """A file name that changes when any of the parts does; `parts` must have a `repr` that tells them apart."""
    digest = hashlib.sha256(repr((_LAYOUT, *parts)).encode()).hexdigest()
    return f"{digest[:32]}.npy"


def shared_identity(reference: str | None, data: str | None, inputs: str | None, what: str) -> tuple | None:
    """The hashes that a table is named by; `None` when one of them is not known, or not the same in every process.

    Processes that would look for different files must not wait for each other's: a dataset whose `map` could not be
    hashed has another fingerprint in each of them, and each then computes its own table.
    """
    mine = (reference, data, inputs)
    everywhere = gather_object([mine]) if PartialState().num_processes > 1 else [mine]
    if len({each[0] for each in everywhere}) > 1:
        raise ValueError(
            f"{what[0].upper()}{what[1:]} does not have the same weights in all {len(everywhere)} processes. Load the "
            "same checkpoint in each; where a part of it is new, call transformers.set_seed before from_pretrained."
        )
    if len(set(everywhere)) > 1:
        logger.warning(
            "By their fingerprints the rows are not the same in all processes: the output of %s is computed by each "
            "process for itself, and is not kept for the next run. A dataset.map whose function cannot be hashed does "
            "this; make the dataset once, save it, and load it in every process.",
            what,
        )
        return None
    return None if None in mine else mine


@dataclass(frozen=True)
class Layout:
    """What a line of a table holds: every logit, or only the `top_k` largest with the classes they belong to.

    A line of ten values and ten class numbers is fifty times smaller than one of a thousand logits, and is all that a
    loss over the reference's ten largest logits asks for.
    """

    width: int
    top_k: int | None = None

    @property
    def sparse(self) -> bool:
        return self.top_k is not None and self.top_k < self.width

    @property
    def dtype(self) -> np.dtype:
        if not self.sparse:
            return np.dtype(np.float32)
        return np.dtype([("values", np.float32, (self.top_k,)), ("classes", np.int32, (self.top_k,))])

    def shape(self, lines: int) -> tuple[int, ...]:
        return (lines,) if self.sparse else (lines, self.width)

    def encode(self, logits: np.ndarray) -> np.ndarray:
        """Lines of the table from rows of logits."""
        if not self.sparse:
            return logits
        lines = np.empty(len(logits), dtype=self.dtype)
        largest = torch.from_numpy(logits).topk(int(self.top_k or 0), dim=-1)
        lines["values"], lines["classes"] = largest.values.numpy(), largest.indices.numpy()
        return lines

    def open(self, lines: np.ndarray) -> Table:
        return SparseTable(lines, self.width) if self.sparse else lines


class SparseTable:
    """Lines of largest logits, read as rows of all of them; what was not kept is minus infinity."""

    def __init__(self, lines: np.ndarray, width: int) -> None:
        self.lines, self.width = lines, width

    def __getitem__(self, line: int) -> np.ndarray:
        kept = self.lines[line]
        row = np.full(self.width, -np.inf, dtype=np.float32)
        row[kept["classes"]] = kept["values"]
        return row


def load_or_compute(
    path: Path | None,
    rows: ReferenceRows,
    layout: Layout,
    logits: Callable[[list[Mapping[str, Any]]], Tensor],
    batch: int,
    what: str = "The output of the old model",
    progress: bool = True,
) -> Table:
    """The table at `path`; computed first, each process of a machine its share of the rows, when it is not there.

    Without a path (a dataset that cannot be identified) the table is computed for this run only, in memory.
    """
    state = PartialState()
    lines = len(rows) * max(rows.views, 1)
    fill = partial(_fill, rows=rows, layout=layout, logits=logits, batch=batch, what=what, progress=progress)
    if path is None:
        table = np.empty(layout.shape(lines), dtype=layout.dtype)
        fill(table, range(lines))
        return layout.open(table)
    if not _everywhere(path.exists(), state):
        _compute(path, lines, layout, fill, state)
    table = np.load(path, mmap_mode="r", allow_pickle=False)
    if (table.shape, table.dtype) != (layout.shape(lines), layout.dtype):
        raise ValueError(
            f"The cached reference logits in {path} have shape {table.shape}, expected {layout.shape(lines)}. "
            "Delete that file and run again."
        )
    return layout.open(table)


def _compute(path: Path, lines: int, layout: Layout, fill: Callable, state: PartialState) -> None:
    """Fill a file under a name that no run looks for, and give it its own name when every process is done."""
    token = broadcast_object_list([uuid.uuid4().hex])[0] if state.num_processes > 1 else uuid.uuid4().hex
    unfinished = path.with_name(f".{path.name}.{token}.partial")
    if state.is_local_main_process:
        path.parent.mkdir(parents=True, exist_ok=True)
        np.lib.format.open_memmap(unfinished, mode="w+", dtype=layout.dtype, shape=layout.shape(lines)).flush()
    state.wait_for_everyone()
    try:
        table = np.load(unfinished, mmap_mode="r+")
        workers = int(os.environ.get("LOCAL_WORLD_SIZE", state.num_processes))
        bounds = np.linspace(0, lines, workers + 1).astype(int)
        share = range(bounds[state.local_process_index], bounds[state.local_process_index + 1])
        fill(table, share)
        table.flush()
        state.wait_for_everyone()
        if state.is_local_main_process:
            os.replace(unfinished, path)
            logger.info("Reference logits of %d rows written to %s", lines, path)
        state.wait_for_everyone()
    finally:
        if state.is_local_main_process:
            unfinished.unlink(missing_ok=True)


def _fill(
    table: np.ndarray,
    lines: range,
    *,
    rows: ReferenceRows,
    layout: Layout,
    logits: Callable,
    batch: int,
    what: str,
    progress: bool,
) -> None:
    from tqdm.auto import tqdm

    starts = range(lines.start, lines.stop, batch)
    quiet = not (progress and PartialState().is_local_main_process and len(starts) >= 20)
    for start in tqdm(starts, desc="Reference logits", disable=quiet, leave=False):
        block = range(start, min(start + batch, lines.stop))
        fetched = [rows.view(line) for line in block] if rows.views else rows.__getitems__(list(block))
        values = logits(fetched).float().cpu().numpy()
        check_logits(values, layout.width, what, first_row=start)
        table[block.start : block.stop] = layout.encode(values)


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
