"""A merged cell: old and new weights at an alpha that is given, or chosen on development rows by the contract."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from table_data import Task
from table_models import kept_model
from table_specs import Cell
from table_store import Store


def merge_answers(cell: Cell, store: Store, task: Task, folder: Path) -> tuple[np.ndarray, float]:
    """Answers on the test set, and the alpha that they belong to."""
    from hf_pct.merging.selection import Contract, select_alpha
    from hf_pct.merging.sweep import ensemble_answers

    spec = cell.spec
    merger, test = _merger(cell, store, task, folder)
    probability, alpha = spec["method"] == "probability", spec["alpha"]
    if alpha == "contract":
        sweep = merger.sweep()
        alpha = select_alpha(sweep.ensemble if probability else sweep.curve, Contract()).alpha
    if not probability:
        return merger.logits_at(float(alpha), test)[0].argmax(-1), float(alpha)
    old, new = (merger.logits_at(end, test)[0].copy() for end in (1.0, 0.0))
    added = np.setdiff1d(np.arange(old.shape[-1]), merger.sides.match.new_index)
    old[:, added] = -np.inf  # the old model cannot answer with a class that it does not have
    return ensemble_answers(old, new, float(alpha)), float(alpha)


def _merger(cell: Cell, store: Store, task: Task, folder: Path) -> tuple[Any, Any]:
    from transformers import PrinterCallback

    from hf_pct.merging.args import BCWIArguments
    from hf_pct.merging.merger import BCWIMerger

    spec = cell.spec
    if task.dev is None:
        raise ValueError(
            f"The data {spec['data']['name']!r} have no development rows to choose alpha on; give dev: N."
        )
    olds, news = ([str(store.folder(each)) for each in spec[side]] for side in ("old", "new"))
    processor = kept_model(store.folder(spec["new"][0]))[1]
    method = "linear" if spec["method"] == "probability" else spec["method"]
    rows, _ = task.part("all")
    merger = BCWIMerger(
        olds[0],
        news,
        BCWIArguments(
            str(folder / "run"), method=method, use_cpu=True, report_to="none", disable_tqdm=True,
            save_strategy="no", per_device_eval_batch_size=64,
        ),
        train_dataset=task.dataset(rows, task.names, processor),
        eval_dataset=task.dataset(task.dev, task.names, processor),
        data_collator=task.collator(processor),
    )  # fmt: skip
    merger.remove_callback(PrinterCallback)
    return merger, task.dataset(task.test, task.names, processor)
