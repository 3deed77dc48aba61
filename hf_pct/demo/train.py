"""Plain fine-tuning with `transformers.Trainer`: how the demo's old and new models come about.

Nothing here knows of flips. It is the training that people have today, one function for text and for images.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from tqdm.auto import tqdm
from transformers import (
    PreTrainedModel,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from ..tasks import load_model
from .quiet import quiet


def fine_tune(
    model: PreTrainedModel,
    processor: Any,
    train_dataset: Dataset,
    output_dir: str | Path,
    *,
    seed: int,
    epochs: int,
    learning_rate: float,
    batch_size: int = 16,
    description: str = "train",
) -> Path:
    """Train a text or an image classifier on its `label` column, and save it with its processor into a folder."""
    task = load_model(model, processor=processor).task
    column = next(name for name in task.usual_columns if name in train_dataset.column_names)

    def collate(rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        inputs = task.collate(task.prepare([row[column] for row in rows]))
        return {**inputs, "labels": torch.tensor([row["label"] for row in rows])}

    arguments = TrainingArguments(
        output_dir=str(output_dir),
        num_train_epochs=epochs,
        learning_rate=learning_rate,
        per_device_train_batch_size=batch_size,
        weight_decay=0.01,
        warmup_steps=0.1,
        seed=seed,
        remove_unused_columns=False,  # the collator picks the columns
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=torch.cuda.is_available(),
    )
    with quiet():
        progress = ProgressBar(description)
        trainer = Trainer(model, arguments, collate, train_dataset, callbacks=[progress])
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        model.save_pretrained(output_dir)
        processor.save_pretrained(output_dir)
    return Path(output_dir)


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
