"""How the demo's models are made: plain fine-tuning, the same with focal distillation, merging back, and ELODI.

One function per way, for text and for images alike; what differs between them is what a reader should see.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from datasets import Dataset
from tqdm.auto import tqdm
from transformers import PreTrainedModel, PrinterCallback, Trainer, TrainerCallback, TrainingArguments

from ..core.decode import JsonObject
from ..merging.arguments import BCWIArguments
from ..merging.merger import BCWIMerger
from ..models.load import load_model
from ..models.load.declared import fixed
from ..models.types import Collate, Inputs, Processor, Row
from ..training.arguments import ELODIArguments, FocalDistillArguments, PCTArguments
from ..training.elodi import ELODITrainer
from ..training.focal_distill import FocalDistillTrainer
from .quiet import quiet

if TYPE_CHECKING:
    from transformers import TrainerState


def fine_tune(
    model: PreTrainedModel,
    processor: Processor,
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
            arguments = FocalDistillArguments(**settings, **_kept_beside(output_dir), reference_weight=focal_weight)
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


def train_elodi(
    new_model: Callable[[int], tuple[PreTrainedModel, Processor]],
    train_dataset: Dataset,
    output_dir: Path,
    *,
    seed: int,
    members: int,
    epochs: int,
    learning_rate: float,
    description: str = "train",
) -> Path:
    """Train members and then a student near the mean of their logits; save it with its processor into a folder.

    Members are trained as `fine_tune` trains a new model. The student has twice the epochs at twice the rate: with a
    fifth of the weight on the labels, and logits to match, the same number would leave it unfinished.
    """
    model, processor = new_model(seed)
    shutil.rmtree(output_dir / "members", ignore_errors=True)  # an earlier demo's, which may have had another seed
    with quiet():
        trainer = NamedMembersELODI(
            # the seed that the trainer has set, another one for each member
            model_init=lambda: new_model(torch.initial_seed())[0],
            args=ELODIArguments(
                **_settings(output_dir, seed, 2 * epochs, 2 * learning_rate),
                **_kept_beside(output_dir),
                num_members=members,
                member_epochs=epochs,
                member_learning_rate=learning_rate,
                reference="cached",  # the pictures are not augmented, so the members are asked once and then freed
            ),
            data_collator=_collator(model, processor, train_dataset),
            train_dataset=train_dataset,
            processing_class=processor,
        )
        trainer.description = description
        _train(trainer, f"{description} student")
        trainer.model.save_pretrained(output_dir)
        processor.save_pretrained(output_dir)
    return output_dir


class NamedMembersELODI(ELODITrainer):
    """`ELODITrainer` whose members each have a progress bar with their name."""

    description = "train"

    @cached_property
    def _numbers(self) -> Iterator[int]:
        return count(1)

    def member_trainer(self, model: torch.nn.Module, args: PCTArguments) -> Trainer:
        return _with_bar(super().member_trainer(model, args), f"{self.description} member {next(self._numbers)}")


def _train(trainer: Trainer, description: str) -> None:
    _with_bar(trainer, description).train()


def _with_bar(trainer: Trainer, description: str) -> Trainer:
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(ProgressBar(description))
    return trainer


def _collator(model: PreTrainedModel, processor: Processor, dataset: Dataset) -> Collate:
    task = load_model(model, processor=processor).task
    column = next(name for name in task.usual_columns if name in dataset.column_names)

    def collate(rows: list[Row]) -> Inputs:
        inputs = task.collate(task.prepare([row[column] for row in rows]))
        return {**inputs, "labels": torch.tensor([row["label"] for row in rows])}

    return fixed(collate)


def _settings(output_dir: Path, seed: int, epochs: int, learning_rate: float) -> JsonObject:
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


def _kept_beside(output_dir: Path) -> JsonObject:
    """Where logits of other models go: the demo writes nowhere but into its own folder, not even into a cache."""
    return {"reference_cache_dir": str(output_dir.parent / "reference_logits")}


class ProgressBar(TrainerCallback):
    """One bar per model with its name on it; Trainer's own bar has no name and prints a dict at the end."""

    def __init__(self, description: str) -> None:
        self.description = description

    def on_train_begin(self, args: object, state: TrainerState, control: object, **kwargs: object) -> None:
        self.bar = tqdm(total=state.max_steps, desc=self.description, unit="step", disable=None)  # not into a file

    def on_step_end(self, args: object, state: TrainerState, control: object, **kwargs: object) -> None:
        self.bar.update()

    def on_train_end(self, args: object, state: TrainerState, control: object, **kwargs: object) -> None:
        self.bar.close()
