"""The one loop that runs a model over rows: predictions, reference tables, sweeps, reports and calibration use it.

Batches are formed once, over all rows, and each process takes every n-th of them. So the batches, and with them the
last bits of the logits, are the same for one process as for eight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from accelerate import PartialState
from accelerate.utils import gather_object
from torch import Tensor, nn
from tqdm.auto import tqdm

from .features import FeatureTap
from .load import ask
from .types import Collate, Inputs

Model: TypeAlias = nn.Module | Callable[[Inputs], object]
"""A module, or a function from a batch of inputs to logits, or to logits and features."""


class Share(NamedTuple):
    """The part of the batches that one process takes: every `of`-th, starting at `number`."""

    number: int = 0
    of: int = 1

    def takes(self, batch: int) -> bool:
        return batch % self.of == self.number


@dataclass(frozen=True)
class RowBatch:
    """Inputs as the model takes them, the rows of the result that they are for, and labels that travel along."""

    rows: Sequence[int]
    inputs: Inputs
    labels: np.ndarray | None = None


Batches = Callable[[Share], Iterable[RowBatch]]
"""All batches of some rows, of which a process makes only its share."""


class RowAnswers(NamedTuple):
    """What a model answers to one batch, or to all rows; features are what goes into its last layer."""

    rows: Sequence[int]
    logits: np.ndarray
    features: np.ndarray | None = None
    labels: np.ndarray | None = None


def run(
    model: Model,
    batches: Iterable[RowBatch],
    *,
    device: torch.device | str | None = None,
    features: bool = False,
) -> Iterator[RowAnswers]:
    """The model's answers, batch by batch, in float32.

    A module is put on `device` (where accelerate says, by default) and into evaluation mode, and is in its old mode
    afterwards. A function is called as it is.
    """
    device = device_of(model) if device is None else device
    with _evaluating(model, device), FeatureTap(model) if features else nullcontext() as tap:
        for batch in batches:
            with torch.no_grad():
                logits, taken = _answer(model, batch.inputs, device, tap)
            yield RowAnswers(batch.rows, as_array(logits), None if taken is None else as_array(taken), batch.labels)


def _answer(model: Model, inputs: Inputs, device: torch.device | str, tap: FeatureTap | None) -> tuple[object, object]:
    if not isinstance(model, nn.Module):
        answer = model(inputs)
        return answer if isinstance(answer, tuple) else (answer, None)
    placed = {name: value.to(device) if hasattr(value, "to") else value for name, value in inputs.items()}
    logits = ask(model, placed)
    return logits, None if tap is None else tap.take(placed, logits)


def collect(
    model: Model,
    batches: Batches,
    count: int,
    *,
    device: torch.device | str | None = None,
    features: bool = False,
    progress: str | None = None,
) -> RowAnswers:
    """The answers to all `count` rows, in their order, on every process: each process runs its share."""
    state = PartialState()
    share = Share(state.process_index, state.num_processes)
    answers = run(model, batches(share), device=device, features=features)
    parts = list(watched(answers, count, progress, share))
    parts = gather_object(parts) if state.num_processes > 1 else parts
    if not parts:
        raise ValueError("There are no rows to run the model on, expected at least one.")
    logits = _placed([part.logits for part in parts], parts, count)
    kept = None if parts[0].features is None else _placed([part.features for part in parts], parts, count)
    labels = None if parts[0].labels is None else _placed([part.labels for part in parts], parts, count)
    return RowAnswers(range(count), logits, kept, labels)


def watched(
    answers: Iterable[RowAnswers], count: int, title: str | None, share: Share, in_files: bool = False
) -> Iterator[RowAnswers]:
    """The same answers with a progress bar, on the main process of a terminal or, with `in_files`, of any output."""
    hidden: bool | None = True
    if title is not None and PartialState().is_local_main_process:
        hidden = False if in_files else None  # tqdm hides itself on None when the output is a file
    with tqdm(total=count, desc=title, unit="row", disable=hidden, leave=False) as bar:
        for answer in answers:
            yield answer
            bar.update(min(len(answer.rows) * share.of, count - bar.n))


def sized(rows: Any) -> Any:
    """Rows that can be counted and asked for by number; a stream is read to its end."""
    return rows if hasattr(rows, "__len__") and hasattr(rows, "__getitem__") else list(rows)


def collated(rows: Sequence[object], collate: Collate, size: int, prepare: Callable[[Any], Inputs] = dict) -> Batches:
    """Batches of a dataset's rows in their order, through a data collator; `labels` go beside the inputs.

    `prepare` is what a trainer does to a batch before the model sees it.
    """

    def batches(share: Share) -> Iterator[RowBatch]:
        fetch = getattr(rows, "__getitems__", None)
        for number, start in enumerate(range(0, len(rows), size)):
            if share.takes(number):
                lines = range(start, min(start + size, len(rows)))
                batch = dict(collate(fetch(list(lines)) if fetch else [rows[line] for line in lines]))
                labels = batch.pop("labels", None)
                yield RowBatch(lines, prepare(batch), None if labels is None else np.asarray(labels))

    return batches


def device_of(model: Model) -> torch.device:
    """Where accelerate says; a module that someone has put on an accelerator already stays there."""
    first = next(model.parameters(), None) if isinstance(model, nn.Module) else None
    return PartialState().device if first is None or first.device.type in ("cpu", "meta") else first.device


def as_array(values: Tensor | np.ndarray) -> np.ndarray:
    """Numbers of any precision and place as float32 in memory; labels, which are no numbers, as they are."""
    if isinstance(values, Tensor):
        return values.float().cpu().numpy()
    return values if values.dtype == object else np.asarray(values, dtype=np.float32)


@contextmanager
def _evaluating(model: Model, device: torch.device | str) -> Iterator[None]:
    if not isinstance(model, nn.Module):
        yield
        return
    modes = [(module, module.training) for module in model.modules()]
    model.to(device).eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def _placed(values: Sequence[np.ndarray | None], parts: Sequence[RowAnswers], count: int) -> np.ndarray:
    """One array of the values of all parts, each row at its place."""
    present = [value for value in values if value is not None]
    placed = np.empty((count, *present[0].shape[1:]), dtype=present[0].dtype)
    for value, part in zip(present, parts, strict=True):
        placed[list(part.rows)] = value
    return placed
