"""One cell: train it, average it or merge it with the kit, and write down what it answers to the test set."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.tables.inputs.models import fresh_model, kept_model
from benchmarks.tables.inputs.tasks import Rows, Task, load_task
from benchmarks.tables.merges import merge_answers
from benchmarks.tables.specs import Cell
from benchmarks.tables.store import ANSWERS, LOGITS, TEST, Answers, Store, read_answers, write_answers

BATCH = 128


def run_cell(cell: Cell, store: Store) -> None:
    """Compute a cell into its folder. Seconds are processor time, which neighbours on the machine change little."""
    _prepare()  # like the data, once a process and not a part of any cell's cost
    task = load_task(cell.spec["data"])
    began = time.process_time()
    with store.unfinished(cell.id) as folder:
        kind = {"train": _train, "mean": _mean, "merge": _merge}[cell.spec["kind"]]
        answers, classes, alpha = kind(cell, store, task, folder)
        seconds = time.process_time() - began
        kept = {
            (cell.id, part): Answers(rows.ids, rows.labels, answers[part], classes, seconds, alpha)
            for part, rows in task.judged.items()
            if part in answers
        }
        write_answers(folder / ANSWERS, kept)


@lru_cache(maxsize=1)
def _prepare() -> None:
    """Imports that would otherwise fall into the first cell, one thread, and no bars or load reports."""
    import datasets
    from transformers.utils import logging

    torch.set_num_threads(1)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    datasets.disable_progress_bars()


Result = tuple[dict[str, np.ndarray], np.ndarray, float]  # answers by part, classes, alpha


def _train(cell: Cell, store: Store, task: Task, folder: Path) -> Result:
    from transformers import set_seed

    spec = cell.spec
    rows, names = task.part(spec["part"])
    if "rows" in spec:
        rows = rows.select(np.arange(spec["rows"]))
    set_seed(spec["seed"])
    if spec["start"]:
        model, processor = _go_on(store.folder(spec["start"]), names, spec)
    else:
        model, processor = fresh_model(spec["model"], names, spec.get("drop_rate"))
    if task.kind == "image":
        model.to(memory_format=torch.channels_last)  # as the batches are; a step takes 0.85 of the time
    trainer = build_trainer(cell, store, task, folder, model, processor, rows, names)
    trainer.train()
    model = trainer.model
    shutil.rmtree(folder / "run", ignore_errors=True)  # cached references, and members that nobody else needs
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    logits = {part: logits_of(model, task, rows, names, processor) for part, rows in task.judged.items()}
    np.savez(folder / LOGITS, **{part: values.astype(np.float16) for part, values in logits.items()})
    classes = task.indices(names)
    return {part: classes[values.argmax(-1)] for part, values in logits.items()}, classes, float("nan")


def _go_on(folder: Path, names: Sequence[str], spec: dict[str, Any]) -> tuple[Any, Any]:
    """The model that fine-tuning starts from, with rows of its head for classes that it did not have.

    With `head_seed` these rows begin alike in all runs: a soup of runs that began apart has too small a mean of them.
    """
    from transformers import set_seed

    from hf_pct.merging.sides import widened

    old, processor = kept_model(folder)
    if "head_seed" in spec:
        set_seed(spec["head_seed"])
    model = widened(old, names)
    if "head_seed" in spec:
        set_seed(spec["seed"])
    if hasattr(model.config, "label_names"):  # a timm config that was loaded writes these, and not id2label
        model.config.label_names = list(names)
    return model, processor


def build_trainer(
    cell: Cell, store: Store, task: Task, folder: Path, model: Any, processor: Any, rows: Rows, names: Sequence[str]
) -> Any:
    """The kit's trainer for this cell; what it keeps on disk while it trains goes away with `folder`."""
    from transformers import PrinterCallback

    from hf_pct.training.arguments import ELODIArguments, FocalDistillArguments
    from hf_pct.training.elodi import ELODITrainer
    from hf_pct.training.focal_distill import FocalDistillTrainer

    spec = cell.spec
    options: dict[str, Any] = {
        "train_dataset": task.dataset(rows, names, processor, training=True),
        "data_collator": task.collator(processor),
        "processing_class": processor,
    }
    olds = [str(store.folder(cell)) for cell in spec["old"]]
    if olds:
        options["old_model"] = olds if len(olds) > 1 else olds[0]
    if "independent" in spec:
        options["references"] = {"independent": _independent(spec["independent"], store, folder)}
    values = training_values(spec, folder / "run")
    if spec["method"] == "elodi":
        arguments = ELODIArguments(**values)
        if spec["members"]:
            options |= {"model": model, "members": [str(store.folder(cell)) for cell in spec["members"]]}
        else:
            options["model_init"] = lambda: fresh_model(spec["model"], names, spec.get("drop_rate"))[0]
        trainer: Any = ELODITrainer(args=arguments, **options)
        trainer.member_trainer_class = _quiet_member
    else:
        arguments = FocalDistillArguments(method=spec["method"], **values)
        trainer = FocalDistillTrainer(model, arguments, **options)
    trainer.remove_callback(PrinterCallback)
    if spec.get("keep_head"):
        from hf_pct.merging.head_rows import KeepHeadRows

        trainer.add_callback(KeepHeadRows(kept_model(store.folder(spec["start"]))[0]))
    return trainer


def _independent(asked: str | list[str], store: Store, folder: Path) -> str:
    """The folder of an untreated new model, or of an ensemble of several."""
    if isinstance(asked, str):
        return str(store.folder(asked))
    from hf_pct.models.ensembles.folders import save_ensemble

    home = folder / "run" / "independent"
    save_ensemble(home, [store.folder(cell).resolve() for cell in asked])
    return str(home)


def _quiet_member(*arguments: Any, **options: Any) -> Any:
    """A member's trainer that prints nothing."""
    from transformers import PrinterCallback

    from hf_pct.training.trainer import PCTrainer

    trainer = PCTrainer(*arguments, **options)
    trainer.remove_callback(PrinterCallback)
    return trainer


def training_values(spec: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The recipe and the method's settings as keyword arguments, and what makes a run quiet and local."""
    return {
        "output_dir": str(folder), "seed": spec["seed"], "use_cpu": True, "save_strategy": "no", "report_to": "none",
        "eval_strategy": "no", "logging_strategy": "no", "disable_tqdm": True, "dataloader_num_workers": 0,
        "per_device_eval_batch_size": BATCH, "reference_cache_dir": str(folder / "references"), **spec["recipe"],
        **spec["settings"],
    }  # fmt: skip


@torch.inference_mode()
def logits_of(model: Any, task: Task, rows: Rows, names: Sequence[str], processor: Any) -> np.ndarray:
    """float32 logits of the rows in their order; texts are batched by length, so that padding costs nothing."""
    from hf_pct.models.load import logits_of as output

    model.eval()
    data, collate = task.dataset(rows, names, processor), task.collator(processor)
    lengths = [0] * len(data)
    if task.kind == "text":
        data = data.remove_columns(["text"])
        lengths = [len(row) for row in data["input_ids"]]
    order = np.argsort(lengths, kind="stable")
    logits = np.empty((len(order), len(names)), dtype=np.float32)
    for start in range(0, len(order), BATCH):
        places = order[start : start + BATCH]
        batch = collate([data[int(place)] for place in places])
        batch.pop("labels")
        logits[places] = output(model(**batch)).float().numpy()
    return logits


def _mean(cell: Cell, store: Store, task: Task, folder: Path) -> Result:
    """The ensemble of cells with the same classes, from their logits on the test set."""
    from hf_pct.flips.studies.ensemble import mean_predictions
    from hf_pct.flips.tables.predictions import Predictions

    members = cell.spec["members"]
    first = read_answers(store.folder(members[0]) / ANSWERS)[members[0], TEST]
    names = [task.names[int(index)] for index in first.classes]
    truth = [task.names[int(label)] for label in first.labels]
    tables = []
    for member in members:
        with np.load(store.folder(member) / LOGITS) as parts:
            logits = parts[TEST].astype(np.float32)
        tables.append(Predictions(first.ids, truth, logits=logits, label_names=names))
    mean = mean_predictions(tables)
    if mean.logits is None:
        raise RuntimeError("The mean of the members has no logits.")
    return {TEST: first.classes[np.asarray(mean.logits).argmax(-1)]}, first.classes, float("nan")


def _merge(cell: Cell, store: Store, task: Task, folder: Path) -> Result:
    answers, alpha = merge_answers(cell, store, task, folder)
    return answers, np.arange(len(task.names)), alpha
