"""One recipe trained into a folder of its own: whole or not at all, once, whoever asks for it."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import PrinterCallback, TrainerCallback

from .. import training
from ..core.decode import JsonObject
from ..core.files import held, whole_folder, write_text
from ..flips.tables.predictions import Predictions
from ..hub.records import training_record, write_record
from ..methods.base import TrainingMethod, WeightMethod
from ..methods.registry import find_method, methods_of
from ..models.data import Rows
from ..models.fingerprints import Digest
from ..models.load import LoadedModel, load_model
from ..models.load.inputs import Collator, model_rows
from ..models.predict import predict
from ..training.arguments import PCTArguments
from ..training.trainer import PCTrainer
from .inputs.data import UpdateData
from .inputs.models import identity, with_classes
from .inputs.old_tables import OldTables
from .planning.recipes import Recipe
from .processes import agreed, is_main

RECORD = "pct_candidate.json"
OLD_LOGITS = "old_logits"
QUIET: JsonObject = {"save_strategy": "no", "logging_strategy": "no", "eval_strategy": "no", "report_to": "none"}
_WATCHING = ("report_to", "logging_strategy", "logging_steps", "logging_first_step")
ADDED_ROWS_SEED = 0
"""Options that say what is shown of a training, and change nothing in its weights."""


class PreparedRows(list[JsonObject]):
    """Rows as the model takes them, with the old model's logits in a column where they are needed."""

    @property
    def column_names(self) -> list[str]:
        return list(self[0]) if self else []

    def remove_columns(self, names: list[str]) -> PreparedRows:
        return PreparedRows({name: value for name, value in row.items() if name not in names} for row in self)


@dataclass(frozen=True)
class Workshop:
    """What every training of an update shares. With `tables` only answers of the old model are available, and `old` is
    the base model, for how rows are read."""

    old_folder: str
    old: LoadedModel
    base: LoadedModel | None
    data: UpdateData
    folder: Path
    options: Mapping[str, object]
    tables: OldTables | None = None
    _kept: dict[tuple[str, ...], Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def old_names(self) -> tuple[str, ...]:
        return tuple((self.tables.label_names if self.tables else self.old.label_names) or ())

    def loaded(self, recipe: Recipe) -> LoadedModel:
        """The model whose processor prepares the rows of a recipe."""
        return self.base if recipe.start == "anew" and self.base is not None else self.old

    # ---- rows and answers

    def prepared(self, loaded: LoadedModel, rows: Rows) -> list[JsonObject]:
        """Rows as a model takes them, prepared once for all trainings that read them in the same way."""
        key = ("rows", rows.fingerprint, "old" if loaded is self.old else "base")
        if key not in self._kept:
            self._kept[key] = model_rows(loaded, rows, self.data.names)
        return self._kept[key]

    def answers(self, model: str, rows: Rows) -> Predictions:
        """A model's answers to rows, computed once; all processes share the work."""
        key = ("answers", rows.fingerprint, model)  # a model's folder may be called "old" too
        if key not in self._kept:
            columns = {**self.data.columns, "input_column": list(rows.input_columns)}
            self._kept[key] = predict(model, rows.dataset, progress=False, **columns)
        return self._kept[key]

    def old_answers(self, rows: Rows) -> Predictions:
        """The old model's answers, asked of it or looked up."""
        return self.tables.rows(rows) if self.tables else self.answers(self.old_folder, rows)

    # ---- which folder

    def key(self, recipe: Recipe) -> str:
        """The content hash of everything that the trained weights depend on."""
        digest = Digest()
        options = {name: value for name, value in self.options.items() if name not in _WATCHING}
        values: JsonObject = {"recipe": recipe.to_dict(), "data": self.data.fingerprint, "options": options}
        values["old"] = self.tables.fingerprint if self.tables else self._identity(self.old)
        if recipe.start == "old" and set(self.data.names) - set(self.old_names):
            values["added_rows"] = ADDED_ROWS_SEED
        if self.loaded(recipe) is not self.old:
            values["base"] = self._identity(self.loaded(recipe))
        digest.add(json.dumps(values, sort_keys=True, default=str))
        return digest.hex()[:12]

    def _identity(self, loaded: LoadedModel) -> str:
        key = ("identity", "old" if loaded is self.old else "base")
        if key not in self._kept:
            self._kept[key] = identity(loaded)
        return self._kept[key]

    def place(self, recipe: Recipe) -> Path:
        name = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in recipe.name)
        return self.folder / f"{name.replace('--', '-')}-{self.key(recipe)}"

    def trained(self, recipe: Recipe) -> bool:
        return (self.place(recipe) / RECORD).is_file()

    # ---- training

    def train(self, recipe: Recipe, on_step: Callable[[], None] | None = None) -> Path:
        """The folder of the trained model; a second run that asks for it waits, and finds it there."""
        for used in recipe.uses:
            self.train(used, on_step)
        target = self.place(recipe)
        target.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            if is_main():  # one process of a run holds the lock for all of them
                stack.enter_context(held(target.parent / f".{target.name}.lock"))
            if not agreed(self.trained(recipe)):
                self._train(recipe, target, on_step)
        return target

    def _train(self, recipe: Recipe, target: Path, on_step: Callable[[], None] | None = None) -> None:
        began = time.monotonic()
        watched = self.options.get("report_to") not in (None, "none", ["none"])
        scratch = target.parent / ("runs" if watched else f".{target.name}.run") / (target.name if watched else "")
        trainer = self.trainer(recipe, scratch)
        trainer.remove_callback(PrinterCallback)
        if on_step:
            trainer.add_callback(EveryStep(on_step))
        trainer.train()
        end_tracked_runs(trainer)
        seconds = time.monotonic() - began
        if trainer.is_world_process_zero():
            with whole_folder(target) as partial:
                model: Any = trainer.accelerator.unwrap_model(trainer.model)
                model.save_pretrained(partial)
                self.loaded(recipe).processor.save_pretrained(partial)
                record = {**recipe.to_dict(), "seconds": round(seconds, 1), "options": dict(self.options)}
                write_text(partial / RECORD, json.dumps(record, indent=2, default=str) + "\n")
                write_record(partial, training_record(trainer, None if self.tables else self.old_folder))
            if not watched:
                shutil.rmtree(scratch, ignore_errors=True)
        trainer.accelerator.wait_for_everyone()

    def start(self, recipe: Recipe) -> nn.Module:
        """The model that training starts from, with a head for all classes."""
        if _method(recipe).needs.members:  # a student goes on from the first of its members
            torch.manual_seed(recipe.seed)
            return load_model(str(self.place(recipe.uses[0]))).model.train()
        if recipe.start == "anew" and self.base is None:
            raise ValueError("This recipe starts from a base model, and none was given.")
        return with_classes(self.loaded(recipe), self.data.names, self._head_seed(recipe)).train()

    def _head_seed(self, recipe: Recipe) -> int:
        """Rows of new classes begin alike in all trainings that may be averaged: their soup is a mean of weights."""
        return ADDED_ROWS_SEED if recipe.start == "old" else recipe.head_seed

    def arguments(self, recipe: Recipe, scratch: Path, **more: Any) -> PCTArguments:
        """The settings of a recipe's training."""
        options: JsonObject = {**QUIET, "use_cpu": not torch.cuda.is_available(), **self.options}
        for name in ("num_train_epochs", "max_steps"):
            if recipe.length != 1 and (name in options or name == "num_train_epochs"):
                longer = options.get(name, 3.0) * recipe.length
                options[name] = longer if name == "num_train_epochs" else round(longer)
        return _trainer_class(recipe).arguments_class(
            output_dir=str(scratch), method=recipe.method, seed=recipe.seed, disable_tqdm=True,
            remove_unused_columns=False, run_name=recipe.name,
            **{**recipe.settings, **options, **_replaced(recipe), **more},
        )  # fmt: skip

    def steps(self, recipe: Recipe) -> int:
        """How many steps the training of a recipe takes."""
        arguments = self.arguments(recipe, self.folder)
        if arguments.max_steps > 0:
            return arguments.max_steps
        per_epoch = -(-len(self.data.train) // rows_per_step(arguments))
        return max(1, round(arguments.num_train_epochs * per_epoch))

    def trainer(self, recipe: Recipe, scratch: Path, rows: Rows | None = None, **more: object) -> PCTrainer:
        """The trainer of a recipe, on all training rows or on these."""
        loaded, train = self.loaded(recipe), rows or self.data.train
        arguments = self.arguments(recipe, scratch, **more)
        prepared = PreparedRows(self.prepared(loaded, train))
        distils = recipe.method != "none"
        if distils:
            logits = self.old_answers(train).logits
            if logits is not None:
                prepared = PreparedRows(
                    {**row, OLD_LOGITS: line} for row, line in zip(prepared, logits, strict=True)
                )  # fmt: skip
        options: JsonObject = {
            "train_dataset": prepared,
            "data_collator": Collator(loaded),
            "processing_class": loaded.processor,
            "old_model": self.old_folder if arguments.anchored and not self.tables else None,
            "old_label_names": self.old_names if OLD_LOGITS in prepared.column_names else None,
        }
        folders = [str(self.place(used)) for used in recipe.uses]
        if _method(recipe).needs.members:
            options["members"] = folders
        else:
            options["references"] = {"independent": folders[0]} if folders else None
        return _trainer_class(recipe)(self.start(recipe), arguments, **options)


def rows_per_step(arguments: PCTArguments) -> int:
    """Rows of one step, over all processes and accumulated batches."""
    return max(1, arguments.train_batch_size * arguments.world_size * arguments.gradient_accumulation_steps)


def _method(recipe: Recipe) -> type[TrainingMethod]:
    return find_method(recipe.method, TrainingMethod)


def _replaced(recipe: Recipe) -> Mapping[str, float]:
    """Training arguments that a swept method takes the place of, whatever the user set for the others."""
    swept = {**methods_of(TrainingMethod), **methods_of(WeightMethod)}.get(recipe.sweep)
    return swept.replaces if swept else {}


def _trainer_class(recipe: Recipe) -> type[PCTrainer]:
    """The trainer that the method names."""
    return getattr(training, _method(recipe).trainer)


class EveryStep(TrainerCallback):
    """Calls a function after every step, for the bar over the whole plan."""

    def __init__(self, call: Callable[[], None]) -> None:
        self.call = call

    def on_step_end(self, *args: object, **kwargs: object) -> None:
        self.call()


def end_tracked_runs(trainer: PCTrainer) -> None:
    """Close what a tracker leaves open after a training, so that the next candidate is a run of its own."""
    for callback in trainer.callback_handler.callbacks:
        for name in ("_wandb", "_swanlab"):
            finish = getattr(getattr(callback, name, None), "finish", None)
            if finish is not None and os.environ.get("RANK", "0") == "0":
                finish()
