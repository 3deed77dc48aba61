"""A merged cell: old and new weights at one alpha, or at the alpha that the contract chooses on development rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.tables.inputs.models import kept_model
from benchmarks.tables.inputs.tasks import Task
from benchmarks.tables.specs import Cell
from benchmarks.tables.store import Store


def merge_answers(cell: Cell, store: Store, task: Task, folder: Path) -> tuple[dict[str, np.ndarray], float]:
    """Answers by part of the data, and the alpha that they belong to."""
    from hf_pct.merging.selection import Contract, select_alpha

    spec = cell.spec
    processor = kept_model(store.folder(spec["new"][0]))[1]
    merger = _merger(cell, store, task, folder, processor)
    probability, alpha = spec["method"] == "probability", spec["alpha"]
    if alpha == "contract":
        sweep = merger.sweep()
        alpha = select_alpha(sweep.ensemble if probability else sweep.curve, Contract(risk=None)).alpha
    answer = _mixed_answers if probability else _answers
    data = {part: task.dataset(rows, task.names, processor) for part, rows in task.judged.items()}
    return {part: answer(merger, float(alpha), rows) for part, rows in data.items()}, float(alpha)


def _answers(merger: Any, alpha: float, rows: Any) -> np.ndarray:
    return merger.logits_at(alpha, rows)[0].argmax(-1)


def _mixed_answers(merger: Any, alpha: float, rows: Any) -> np.ndarray:
    """Both models' probabilities, mixed: two models at every request."""
    from hf_pct.merging.sweep import ensemble_answers

    old, new = (merger.logits_at(end, rows)[0].copy() for end in (1.0, 0.0))
    added = np.setdiff1d(np.arange(old.shape[-1]), merger.sides.match.new_index)
    old[:, added] = -np.inf  # the old model cannot answer with a class that it does not have
    return ensemble_answers(old, new, alpha)


def _merger(cell: Cell, store: Store, task: Task, folder: Path, processor: Any) -> Any:
    from transformers import PrinterCallback

    from hf_pct.merging.arguments import BCWIArguments
    from hf_pct.merging.merger import BCWIMerger

    spec = cell.spec
    if task.dev is None:
        raise ValueError(
            f"The data {spec['data']['name']!r} have no development rows to choose alpha on; give dev: N."
        )
    old = str(store.folder(spec["old"][0]))
    news: list[Any] = [str(store.folder(name)) for name in spec["new"]]
    if spec["method"] == "rebased":
        news = [_rebased(store, spec["old"][0], spec["new"][0])]
    rows, _ = task.part("all")
    merger = BCWIMerger(
        old,
        news,
        BCWIArguments(
            str(folder / "run"), method=_METHODS.get(spec["method"], spec["method"]), use_cpu=True, report_to="none",
            disable_tqdm=True, save_strategy="no", per_device_eval_batch_size=64,
        ),
        train_dataset=task.dataset(rows, task.names, processor),
        eval_dataset=task.dataset(task.dev, task.names, processor),
        data_collator=task.collator(processor),
    )  # fmt: skip
    merger.remove_callback(PrinterCallback)
    return merger


_METHODS = {"probability": "linear", "rebased": "linear"}
"""What the merger is asked for where the tables have a word of their own."""


def _rebased(store: Store, old: str, new: str) -> Any:
    """The new model with its units renumbered to lie closest to the old one's."""
    from hf_pct.merging import align_model

    return align_model(kept_model(store.folder(old))[0], kept_model(store.folder(new))[0])
