"""How the demo's models come about: plain fine-tuning, the same with focal distillation, and merging back.

One function each, for text and for images alike; what differs between the three is what a reader should see.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from tqdm.auto import tqdm
from transformers import PreTrainedModel, PrinterCallback, Trainer, TrainerCallback, TrainingArguments

from ..merging.args import BCWIArguments
from ..merging.merger import BCWIMerger
from ..tasks import load_model
from ..training.args import FocalDistillArguments
from ..training.focal_distill import FocalDistillTrainer
from .quiet import quiet


def fine_tune(
    model: PreTrainedModel,
    processor: Any,
    train_dataset: Dataset,
    output_dir: Path,
    *,
    seed: int,
    epochs: int,
    learning_rate: float,
    old_model: Path | None = None,
    focal_weight: float = 1.0,
    description: str = "train",
) -> Path:
    """Train a text or an image classifier on its `label` column, and save it with its processor into a folder.

    Given an `old_model`, a `FocalDistillTrainer` takes the place of `Trainer`. Nothing else changes.
    """
    collate = _collator(model, processor, train_dataset)
    settings = _settings(output_dir, seed, epochs, learning_rate)
    with quiet():
        if old_model is None:
            trainer = Trainer(model, TrainingArguments(**settings), collate, train_dataset)
        else:
            arguments = FocalDistillArguments(**settings, pc_weight=focal_weight)
            trainer = FocalDistillTrainer(model, arguments, collate, train_dataset, old_model=str(old_model))
        _train(trainer, description)
        model.save_pretrained(output_dir)
        processor.save_pretrained(output_dir)
    return output_dir


def merge_by_contract(old: Path, new: Path, development: Dataset, output_dir: Path, margin: float) -> BCWIMerger:
    """Merge a model that was fine-tuned from the old one back toward it: the fewest flips at a loss of `margin`.

    The merger is returned at the chosen alpha, with its sweep over all of them; the model is saved with its processor.
    """
    with quiet():
        loaded = load_model(old)
        merger = BCWIMerger(
            loaded.model,
            [str(new)],
            BCWIArguments(**_settings(output_dir, seed=0, epochs=0, learning_rate=0.0), margin=margin),
            eval_dataset=development,
            data_collator=_collator(loaded.model, loaded.processor, development),
            processing_class=loaded.processor,
        )
        merger.merge()
        merger.save_merged(output_dir)
    return merger


def _train(trainer: Trainer, description: str) -> None:
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(ProgressBar(description))
    trainer.train()


def _collator(model: Any, processor: Any, dataset: Dataset) -> Callable[[list[dict[str, Any]]], dict[str, Any]]:
    task = load_model(model, processor=processor).task
    column = next(name for name in task.usual_columns if name in dataset.column_names)

    def collate(rows: list[dict[str, Any]]) -> dict[str, Any]:
        inputs = task.collate(task.prepare([row[column] for row in rows]))
        return {**inputs, "labels": torch.tensor([row["label"] for row in rows])}

    return collate


def _settings(output_dir: Path, seed: int, epochs: int, learning_rate: float) -> dict[str, Any]:
    return {
        "output_dir": str(output_dir),
        "num_train_epochs": epochs,
        "learning_rate": learning_rate,
        "per_device_train_batch_size": 16,
        "per_device_eval_batch_size": 32,
        "weight_decay": 0.01,
        "warmup_steps": 0.1,
        "seed": seed,
        "remove_unused_columns": False,  # the collator picks the columns
        "save_strategy": "no",
        "logging_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "dataloader_pin_memory": torch.cuda.is_available(),
    }


class ProgressBar(TrainerCallback):
    """One bar a model with its name on it; Trainer's own bar has no name and prints a dict at the end."""

    def __init__(self, description: str) -> None:
        self.description = description

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.bar = tqdm(total=state.max_steps, desc=self.description, unit="step")

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.bar.update()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.bar.close()
