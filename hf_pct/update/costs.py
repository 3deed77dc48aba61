"""What a plan costs: time from a few timed steps, memory and disk from sizes."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace

import torch
from transformers import PrinterCallback, TrainerCallback

from ..models.batchnorm import batchnorm_layers
from ..models.data import Rows
from ..models.load.inputs import Collator, model_rows
from ..training.memory import estimate_memory
from .candidates import COARSE
from .planning.plan import Costs, Plan
from .planning.recipes import Recipe
from .processes import process_count
from .training import Workshop, rows_per_step

TIMED_STEPS, UNTIMED_STEPS = 3, 2
_FORWARD_ROWS = 64


def estimate_sizes(plan: Plan, workshop: Workshop) -> Costs:
    """Disk for all candidates and the written model, and memory for the largest training."""
    sizes = [_parameters(workshop, recipe) for recipe in plan.recipes] or [_parameters(workshop, None)]
    disk = 4 * max(sizes) * (plan.trainings + 1)
    memory = 0
    for recipe, size in zip(plan.recipes, sizes, strict=False):
        arguments = workshop.arguments(recipe, workshop.folder)
        live = bool(recipe.uses)  # members of an ensemble run beside the student
        memory = max(memory, estimate_memory(arguments, size, live=live, classes=len(workshop.data.names)).total)
    return Costs(disk, memory)


def _parameters(workshop: Workshop, recipe: Recipe | None) -> int:
    loaded = workshop.old if recipe is None else workshop.loaded(recipe)
    return sum(parameter.numel() for parameter in loaded.model.parameters())


def time_plan(plan: Plan, workshop: Workshop) -> Plan:
    """The plan with times, from a few steps of the first recipe without references, and one forward of some rows."""
    first = replace(plan.first, method="none", uses=(), settings={})
    per_step, steps = _time_steps(workshop, first)
    per_row = _time_forward(workshop, first)
    alphas = len(COARSE) if first.start == "old" else 1
    costs = replace(
        plan.costs,
        seconds_per_training=per_step * steps,
        seconds_per_measurement=per_row * len(workshop.data.dev) * alphas,
    )
    return replace(plan, costs=costs)


class _Timer(TrainerCallback):
    """When each step ended."""

    def __init__(self) -> None:
        self.ended: list[float] = []

    def on_step_end(self, *args: object, **kwargs: object) -> None:
        self.ended.append(time.monotonic())


def _time_steps(workshop: Workshop, recipe: Recipe) -> tuple[float, int]:
    """Seconds per step, and the steps of one training."""
    scratch = workshop.folder.parent / f".{workshop.folder.name}.timing"
    existed = workshop.folder.parent.exists()
    batch = rows_per_step(workshop.arguments(recipe, scratch))
    wanted = min(len(workshop.data.train), batch * (TIMED_STEPS + UNTIMED_STEPS))
    some = first_rows(workshop.data.train, wanted)
    trainer = workshop.trainer(recipe, scratch, some, max_steps=TIMED_STEPS + UNTIMED_STEPS, report_to="none")
    timer = _Timer()
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(timer)
    trainer.train()
    shutil.rmtree(scratch, ignore_errors=True)
    if not existed and workshop.folder.parent.is_dir() and not any(workshop.folder.parent.iterdir()):
        workshop.folder.parent.rmdir()
    timed = timer.ended[UNTIMED_STEPS - 1 :]
    return (timed[-1] - timed[0]) / max(len(timed) - 1, 1), workshop.steps(recipe)


def _time_forward(workshop: Workshop, recipe: Recipe) -> float:
    """Seconds per row without gradients."""
    loaded = workshop.loaded(recipe)
    some = first_rows(workshop.data.dev, _FORWARD_ROWS)
    rows = [{**row, "labels": 0} for row in model_rows(loaded, some, workshop.data.names)]
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch = {name: value.to(device) for name, value in Collator(loaded)(rows).items() if name != "labels"}
    loaded.model.to(device)
    with torch.inference_mode():
        loaded.logits(batch)
        began = time.monotonic()
        loaded.logits(batch).cpu()
    seconds = time.monotonic() - began
    loaded.model.cpu()
    return seconds / len(rows)


def one_row_problems(plan: Plan, workshop: Workshop) -> list[str]:
    """Why the last batch of an epoch cannot be trained on: BatchNorm over one value has no variance."""
    arguments = workshop.arguments(plan.first, workshop.folder)
    rows, size = len(workshop.data.train), arguments.train_batch_size
    if process_count() > 1 or arguments.dataloader_drop_last or rows % size != 1:
        return []
    model, loaded = workshop.start(plan.first), workshop.loaded(plan.first)
    if not batchnorm_layers(model):
        return []
    row = {**model_rows(loaded, first_rows(workshop.data.train, 1), workshop.data.names)[0]}
    batch = {name: value for name, value in Collator(loaded)([row]).items() if name != "labels"}
    try:
        with torch.no_grad():
            model(**batch)
    except ValueError:
        return [
            f"{rows} training rows in batches of {size} leave one row over, and BatchNorm cannot train on a single "
            "row: give dataloader_drop_last, or another per_device_train_batch_size"
        ]
    return []


def first_rows(rows: Rows, count: int) -> Rows:
    """The first of some rows, as rows."""
    chosen = list(range(min(count, len(rows))))
    transformed = None if rows.transformed is None else rows.transformed.select(chosen)
    return replace(
        rows,
        dataset=rows.dataset.select(chosen),
        ids=rows.ids[: len(chosen)],
        labels=rows.labels[: len(chosen)],
        fingerprint=f"{rows.fingerprint}-{len(chosen)}",
        transformed=transformed,
    )
