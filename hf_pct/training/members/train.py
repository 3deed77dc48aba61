"""The members of an ensemble, trained with cross-entropy into folders that appear when they are complete.

    output_dir/members/0, 1, ...         a finished member each: a model that can be loaded by itself
    output_dir/members/.1.unfinished/    checkpoints of one in work; a stopped run goes on from the last of them

Every member has a record of how it was trained. One that was trained in another way is not taken for this run's.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import shutil
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from transformers import set_seed
from transformers.trainer import TRAINING_ARGS_NAME

from ..._version import __version__
from ...core.decode import JsonObject
from ...core.files import write_text
from ...core.run_checkpoints import last_complete_checkpoint
from ...models.fingerprints import Digest
from ...models.load import label_names_of, load_weights
from ...models.types import RowSource
from ..arguments import PCTArguments
from .join import with_adapter
from .separate import separate_state
from .student import Student

logger = logging.getLogger(__name__)
RECORD = "pct_member.json"

# what makes two trainings the same, beside data, model and seed
_RECIPE = (
    "learning_rate", "num_train_epochs", "max_steps", "optim", "optim_args", "weight_decay", "adam_beta1",
    "adam_beta2", "adam_epsilon", "max_grad_norm", "lr_scheduler_type", "lr_scheduler_kwargs", "warmup_steps",
    "label_smoothing_factor", "fp16", "bf16",
)  # fmt: skip
# a member is trained with cross-entropy alone, and by its own folder and seed
_PLAIN: JsonObject = {
    "old_model": None, "earlier_models": None, "old_adapter": None, "reference": "auto", "cached_views": 0,
    "eval_strategy": "no", "eval_on_start": False, "load_best_model_at_end": False, "metric_for_best_model": None,
    "push_to_hub": False, "resume_from_checkpoint": None, "save_total_limit": 1, "report_to": "none",
    "data_seed": None,
}  # fmt: skip


class Members:
    """Trains the members of `trainer` that are not there yet, one after another or each process some of them."""

    def __init__(self, trainer: Student) -> None:
        self.trainer, self.args = trainer, trainer.args
        self.folder = Path(self.args.output_dir) / "members"

    @property
    def paths(self) -> list[Path]:
        return [self.folder / str(number) for number in range(self.args.num_members)]

    @property
    def base(self) -> Path:
        """The backbone that LoRA members share."""
        return self.folder / "base"

    @property
    def finished(self) -> bool:
        return not self.missing

    @property
    def missing(self) -> list[Path]:
        """The folders of members that are still to be trained."""
        return [path for path in self.paths if not (path / RECORD).is_file()]

    def seed(self, number: int) -> int:
        """A member's own seed. Seeds that only count up would give runs with neighbouring seeds the same members."""
        return int(np.random.SeedSequence([self.args.seed, number]).generate_state(1)[0]) % 2**31

    def train(self) -> list[Path]:
        """The folders of all members; what is finished is checked and kept, what is missing is trained."""
        self.check()
        state = self.args.distributed_state
        processes = 1 if state is None else state.num_processes
        spread = self.args.spread_members and processes > 1
        for number, path in enumerate(self.paths):
            mine = not spread or number % processes == self.args.process_index
            if mine and path in self.missing:
                self._train_one(number, path, processes if spread else 1)
        if spread:
            self._wait()
        self.trainer.accelerator.wait_for_everyone()
        return self.paths

    def check(self) -> None:
        """Refuse members in this folder that were trained in another way than this run would train them."""
        expected, problems = self.recipe(), []
        for path in (path for path in self.paths if path not in self.missing):
            recorded = json.loads((path / RECORD).read_text(encoding="utf-8"))["recipe"]
            changed = [
                f"{key} was {recorded.get(key)!r} and is now {expected.get(key)!r}"
                for key in sorted({*recorded, *expected})
                if recorded.get(key) != expected.get(key)
            ]
            problems += [f"{path}: {'; '.join(changed)}"] if changed else []
        if problems:
            raise ValueError(
                "Members of an earlier run are in the output folder, and were trained in another way:\n  "
                + "\n  ".join(problems)
                + "\nChoose another output_dir, move these folders away, or pass them as they are: members=[...]."
            )

    def recipe(self) -> JsonObject:
        """Everything that decides how a member is trained, as JSON."""
        args, model, values = self.args, self.trainer.model, self.settings(0)
        settings = {name: values[name] for name in _RECIPE} | {
            "seed": args.seed,
            "members": args.member_kind,
            "same_start": args.same_start,
            "lora_rank": args.member_lora_rank if args.member_kind == "lora" else None,
            "batch": args.train_batch_size * args.gradient_accumulation_steps * args.world_size,
            "model": type(model).__name__,
            "start": getattr(model.config, "_name_or_path", None) or None,
            "parameters": sum(value.numel() for value in model.parameters()),
            "classes": list(label_names_of(model)),
            "data": _labels_digest(self.trainer.train_dataset),
        }
        return json.loads(json.dumps(settings, default=lambda value: getattr(value, "value", str(value))))

    def settings(self, number: int, alone_of: int = 1) -> JsonObject:
        """The student's settings for a member. One process alone accumulates what all of them would do together."""
        args = self.args
        values = {entry.name: getattr(args, entry.name) for entry in dataclasses.fields(PCTArguments) if entry.init}
        values |= {name: entry.default for name, entry in PCTArguments.declared.items()}  # nothing holds its weights
        values |= _PLAIN | {
            "output_dir": str(self._unfinished(number)),
            "seed": self.seed(number + 1),
            "num_train_epochs": args.epochs_of_members,
            "learning_rate": args.member_learning_rate or args.learning_rate,
            "gradient_accumulation_steps": args.gradient_accumulation_steps * alone_of,
        }
        if args.member_kind == "cycles":
            values |= {"lr_scheduler_type": "cosine", "warmup_steps": args.warmup_steps if number == 0 else 0}
        return values

    # ---- one member

    def _train_one(self, number: int, path: Path, alone_of: int) -> None:
        logger.info("Member %d of %d is trained", number + 1, self.args.num_members)
        unfinished = self._unfinished(number)
        began = time.perf_counter()
        with separate_state(alone=alone_of > 1):
            args = PCTArguments(**self.settings(number, alone_of))
            _stay_on_device(args, alone_of, self.args.device)
            model = self._start(number)
            set_seed(args.seed)  # the start may be shared: from here on each goes its own way
            member = self.trainer.member_trainer(model, args)
            last = last_complete_checkpoint(unfinished)
            result = member.train(resume_from_checkpoint=last)
            final = unfinished / "final"
            member.save_model(str(final))
            cost = {
                "seconds": time.perf_counter() - began,
                "steps": int(result.global_step),
                "rows": int(result.global_step) * args.train_batch_size * args.gradient_accumulation_steps
                * args.world_size,
            }  # fmt: skip
            if member.is_world_process_zero():
                self._finish(number, final, path, cost)
            member.accelerator.wait_for_everyone()
            member.accelerator.free_memory()

    def _finish(self, number: int, final: Path, path: Path, cost: JsonObject) -> None:
        record = {"format": "hf_pct.member", "format_version": 1, "number": number, "seed": self.seed(number + 1)}
        record |= {"recipe": self.recipe(), "cost": cost, "hf_pct": __version__}
        (final / TRAINING_ARGS_NAME).unlink(missing_ok=True)  # pickled; the record says what it says
        write_text(final / RECORD, json.dumps(record, indent=2) + "\n", overwrite=True)
        if path.exists():
            raise FileExistsError(f"{path} is in the way of a finished member, and is not one. Move it away.")
        final.rename(path)
        shutil.rmtree(self._unfinished(number))

    def _start(self, number: int) -> nn.Module:
        """The model that a member's training starts from."""
        kind = self.args.member_kind
        if kind == "cycles" and number > 0:
            return load_weights(str(self.paths[number - 1]))[0]
        set_seed(self.seed(0 if self.args.same_start else number + 1))
        model = self.trainer.call_model_init()
        return with_adapter(model, self.args.member_lora_rank, self.base) if kind == "lora" else model

    def _unfinished(self, number: int) -> Path:
        return self.folder / f".{number}.unfinished"

    def _wait(self) -> None:
        """Wait until the other processes have finished theirs; a barrier would time out after some minutes."""
        said = time.monotonic()
        while not self.finished:
            time.sleep(0.2)
            if time.monotonic() - said > 60:
                said = time.monotonic()
                logger.info("Waiting for members %s", ", ".join(path.name for path in self.missing))


def _stay_on_device(args: PCTArguments, alone_of: int, device: torch.device) -> None:
    """A process that trains by itself keeps the GPU that it was given, and takes no others."""
    if alone_of > 1 and device.type == "cuda":
        args.__dict__["_setup_devices"], args._n_gpu = device, 1
        torch.cuda.set_device(device)


def _labels_digest(dataset: RowSource) -> str:
    """What is known of a training set that may be augmented at random: its labels, row by row."""
    names = getattr(dataset, "column_names", None) or []
    column = next((name for name in ("labels", "label") if name in names), None)
    digest = Digest().add(len(dataset) if hasattr(dataset, "__len__") else "unknown length")
    if column is not None and hasattr(dataset, "with_format"):
        digest.add([str(value) for value in dataset.with_format(None)[column]])
    return digest.hex()
