"""How the demo's models are made: plain fine-tuning, an update by contract, and ELODI.

One function per way, for text and for images alike; what differs between them is what a reader should see.
"""

from __future__ import annotations

import shutil
import sys
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
from ..models.load import load_model
from ..models.load.declared import fixed
from ..models.quiet import quiet
from ..models.types import Collate, Inputs, Processor, Row
from ..training.arguments import PCTArguments
from ..training.elodi import ELODIArguments, ELODITrainer
from ..update import Contract, Update
from ..update.run import update as run_update
from .updates import DemoUpdate

if TYPE_CHECKING:
    from transformers import TrainerState

Say = Callable[[str], None]


def fine_tune(
    model: PreTrainedModel,
    processor: Processor,
    train_dataset: Dataset,
    output_dir: Path,
    *,
    seed: int,
    epochs: int,
    learning_rate: float,
    description: str = "train",
) -> Path:
    """Train a text or an image classifier on its `label` column, and save it with its processor into a folder."""
    settings = _settings(output_dir, seed, epochs, learning_rate)
    with quiet():
        collate = _collator(model, processor, train_dataset)
        _train(Trainer(model, TrainingArguments(**settings), collate, train_dataset), description)
        model.save_pretrained(output_dir)
        processor.save_pretrained(output_dir)
    return output_dir


def update_by_contract(update: DemoUpdate, folder: Path, *, margin: float, seed: int, announce: Say) -> Update:
    """What `hf-pct update` does: from the old model, rows and a contract to the model to ship, in `folder / "v2"`."""
    base = None
    if update.newer is not None:  # another architecture: what a model that is trained anew starts from
        base = folder / "base"
        model, processor = update.newer(seed + 1)
        with quiet():
            model.save_pretrained(base)
            processor.save_pretrained(base)
    for name in ("v2", "v2-candidates"):
        shutil.rmtree(folder / name, ignore_errors=True)  # an earlier demo's
    parts = update.splits
    return run_update(
        folder / "old",
        parts["new_train"],
        parts["development"],
        test_dataset=parts["test"],
        contract=Contract(margin=margin),
        budget=update.budget,
        base_model=None if base is None else str(base),
        training={**_RECIPE, "num_train_epochs": update.epochs, "learning_rate": update.learning_rate},
        output_dir=folder / "v2",
        seed=seed,
        progress=sys.stderr.isatty(),
        announce=lambda line: None if line.startswith("plan:") else announce(line),
    )


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


_RECIPE: JsonObject = {"per_device_train_batch_size": 16, "weight_decay": 0.01, "warmup_steps": 0.1}
"""What every training of the demo shares, the kit's own included."""


def _settings(output_dir: Path, seed: int, epochs: int, learning_rate: float) -> JsonObject:
    return {
        "output_dir": str(output_dir),
        "num_train_epochs": epochs,
        "learning_rate": learning_rate,
        **_RECIPE,
        "per_device_eval_batch_size": 32,
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
