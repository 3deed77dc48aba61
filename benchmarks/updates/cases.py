"""The updates that are judged: data, models and recipes, each by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from datasets import ClassLabel, Dataset

from benchmarks.tables.inputs.models import fresh_model
from benchmarks.tables.inputs.tasks import HELD_BACK, data_folder

TEXT = {
    "learning_rate": 5e-4, "per_device_train_batch_size": 32, "warmup_steps": 0.1, "weight_decay": 0.01,
    "adam_beta2": 0.98, "adam_epsilon": 1e-6, "max_grad_norm": 5.0, "optim": "adamw_torch_fused",
}  # fmt: skip
CIFAR = {
    "learning_rate": 0.1, "per_device_train_batch_size": 128, "warmup_steps": 0.2, "weight_decay": 5e-4,
    "optim": "sgd", "optim_args": "momentum=0.9,nesterov=true", "lr_scheduler_type": "cosine", "max_grad_norm": 0.0,
}  # fmt: skip
CIFAR_ON = {**CIFAR, "learning_rate": 0.02}  # a model that goes on needs a smaller rate than a fresh one
PHOTOS = {
    "learning_rate": 1e-3, "per_device_train_batch_size": 16, "warmup_steps": 0.1, "weight_decay": 0.01,
    "optim": "adamw_torch_fused", "lr_scheduler_type": "cosine", "max_grad_norm": 1.0,
}  # fmt: skip


@dataclass(frozen=True)
class UpdateCase:
    """One update: its data, its models by name, how long each side trains, and on how many rows."""

    data: str
    old_rows: int
    new_rows: int
    model: str = "minilm-l3"
    new_model: str | None = None
    old_epochs: float = 8
    new_epochs: float = 4
    recipe: Mapping[str, Any] = field(default_factory=lambda: TEXT)
    test_rows: int = 4000
    added: tuple[str, ...] = ()
    old_recipe: Mapping[str, Any] | None = None
    dev_rows: int = 500


CASES: dict[str, UpdateCase] = {
    "massive": UpdateCase("massive", 1000, 1500, "minilm-l3", None, 16, 6),
    "massive-short": UpdateCase("massive", 1000, 1500, "minilm-l6", test_rows=2000),
    "clinc150": UpdateCase("clinc150", 1500, 3000, old_epochs=16, dev_rows=1000),
    "clinc150-short": UpdateCase("clinc150", 1500, 3000, new_epochs=3, test_rows=2000),
    "massive-classes": UpdateCase("massive_en", 1000, 1500, "minilm-l3", None, 16, 6, test_rows=2000, added=HELD_BACK),
    "massive-classes-short": UpdateCase("massive_en", 1000, 1500, test_rows=2000, added=HELD_BACK),
    "behind": UpdateCase("clinc150", 750, 2000, old_epochs=16, test_rows=2000, dev_rows=667),
    "far": UpdateCase("clinc150", 750, 2000, test_rows=2000),
    "cifar10": UpdateCase("cifar10", 10000, 15000, "resnet10", None, 8, 4, CIFAR_ON, old_recipe=CIFAR, dev_rows=2000),
    "cifar10-deeper": UpdateCase("cifar10", 10000, 10000, "resnet10", "resnet18", 6, 6, CIFAR, dev_rows=2000),
    "grocery": UpdateCase("grocery_store", 800, 800, "lite0", "lite2", 4, 4, PHOTOS, 1000, dev_rows=296),
}
"""Small models, so that a seed takes minutes on one processor thread; a third as many development as training
rows where the data has them, as in MASSIVE's split. In the short ones models are not trained to the end: much of
what an update gains is more training, and little can be undone for nothing."""


def load_parts(case: UpdateCase, seed: int) -> dict[str, Dataset]:
    """Rows of `old`, `new` (the old ones first), `dev` and `test`."""
    if case.data == "massive":
        return _massive(case)
    names = {"massive_en": ("train", "validation", "test"), "clinc150": ("train", "val", "test")}
    kind = "parquet" if case.data in ("cifar10", "grocery_store") else "jsonl"
    train, dev, test = (
        _read(data_folder(case.data), part, kind) for part in names.get(case.data, ("train", "val", "test"))
    )
    order = np.random.default_rng(seed).permutation(len(train))
    labels = np.array([str(label) for label in train["label"]])[order]
    known = ~np.isin(labels, case.added)
    old = order[known][: case.old_rows]
    more = order[~known] if case.added else order[known][case.old_rows :]
    new = np.concatenate([old, more[: case.new_rows - case.old_rows]])
    trained = {str(label) for label in train.select(new)["label"]}
    dev, test = (_known(rows, trained) for rows in (dev, test))
    return {
        "old": train.select(old), "new": train.select(new), "dev": _some(dev, case.dev_rows),
        "test": _some(test, case.test_rows),
    }  # fmt: skip


def _read(folder: Path, part: str, kind: str) -> Dataset:
    path = folder / f"{part}.{kind}"
    if folder.name == "cifar10" and part != "test":  # it has no development rows: the last training rows are
        whole = Dataset.from_parquet(str(folder / "train.parquet"))
        cut = len(whole) - 2000
        return whole.select(range(cut) if part == "train" else range(cut, len(whole)))
    return Dataset.from_parquet(str(path)) if kind == "parquet" else Dataset.from_json(str(path))


def _massive(case: UpdateCase) -> dict[str, Dataset]:
    folder = data_folder("massive_bcwi")
    files = {"old": "old/train", "new": "updated/train", "dev": "updated/dev", "test": "updated/test"}
    parts = {name: Dataset.from_json(str(folder / f"{path}.jsonl")) for name, path in files.items()}
    return {**parts, "test": _some(parts["test"], case.test_rows)}


def _known(rows: Dataset, trained: set[str]) -> Dataset:
    """Rows of classes that have training rows; few sentences leave rare classes out."""
    return rows.select([place for place, label in enumerate(rows["label"]) if str(label) in trained])


def _some(rows: Dataset, count: int) -> Dataset:
    if len(rows) <= count:
        return rows
    return rows.select(np.sort(np.random.default_rng(0).permutation(len(rows))[:count]))


def class_names(rows: Dataset) -> list[str]:
    feature = rows.features["label"]
    return list(feature.names) if isinstance(feature, ClassLabel) else sorted(set(rows["label"]))


def save_fresh(name: str, labels: list[str], folder: Path, seed: int) -> str:
    """A pretrained or fresh model with a new head for these classes, as a folder."""
    import torch

    if not (folder / "config.json").is_file():
        torch.manual_seed(seed)
        model, processor = fresh_model(name, labels)
        model.save_pretrained(folder)
        processor.save_pretrained(folder)
    return str(folder)
