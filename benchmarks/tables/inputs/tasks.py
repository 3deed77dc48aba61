"""The data of the tables, in memory: CIFAR-10, Grocery Store, CLINC150, MASSIVE in two updates, and a toy.

A task has a training set that can be asked for in parts (half the rows, half the classes), a test set, and where a
choice needs it a development set. Subsets are drawn by a seed of their own, the same for all cells, and are balanced:
any first part of them has as many rows of one class as of another.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import ROOT
from benchmarks.tables.inputs.images import ImageRows, normalised, read_images, stack_images
from hf_pct import fixed

# MASSIVE: the intents that the old model does not know (Schumann et al., add_classes)
HELD_BACK = (
    "email_querycontact", "takeaway_query", "recommendation_events", "iot_hue_lightchange", "iot_hue_lightdim",
    "play_game", "play_podcasts", "email_sendemail", "email_query", "recommendation_movies", "email_addcontact",
    "recommendation_locations", "takeaway_order",
)  # fmt: skip


@dataclass
class Rows:
    """Rows of one part: texts or pixels, and labels as indices into all class names of the task."""

    inputs: Any
    labels: np.ndarray
    ids: np.ndarray

    def select(self, chosen: Any) -> Rows:
        inputs = [self.inputs[i] for i in chosen] if isinstance(self.inputs, list) else self.inputs[chosen]
        return Rows(inputs, self.labels[chosen], self.ids[chosen])

    def __len__(self) -> int:
        return len(self.labels)


@dataclass
class Task:
    """Everything that a cell asks of its data."""

    kind: str  # image or text
    names: tuple[str, ...]
    train: Rows
    test: Rows
    dev: Rows | None = None
    few: tuple[str, ...] = ()  # the classes of the part with fewer classes
    old_rows: int = 0  # how many training rows, the first ones, the old model has; 0: all rows of the few classes
    augment: int = 0  # pixels of padding for random crops; 0: none, and no mirror

    @property
    def judged(self) -> dict[str, Rows]:
        """The rows that every cell answers, by the names that the store has for them."""
        return {"test": self.test} | ({} if self.dev is None else {"dev": self.dev})

    def part(self, name: str) -> tuple[Rows, tuple[str, ...]]:
        """Rows of a part of the training set, and the classes that a model trained on it has."""
        first = {"half_rows": len(self.train) // 2, "old": self.old_rows}.get(name)
        if first:
            return self.train.select(np.arange(first)), self.names
        if name in ("half_classes", "old"):
            return self.train.select(np.flatnonzero(np.isin(self.train.labels, self.indices(self.few)))), self.few
        return self.train, self.names

    def indices(self, names: Sequence[str]) -> np.ndarray:
        return np.array([self.names.index(name) for name in names])

    def dataset(self, rows: Rows, names: Sequence[str], processor: Any = None, training: bool = False) -> Any:
        """Rows as a trainer takes them; labels count within `names`."""
        number = {int(index): at for at, index in enumerate(self.indices(names))}
        labels = [number.get(int(label), -100) for label in rows.labels]
        if self.kind == "image":
            return ImageRows(rows.inputs, labels, self.augment if training else 0)
        from datasets import Dataset

        tokens = processor(list(rows.inputs), truncation=True, max_length=64)
        return Dataset.from_dict({**tokens, "labels": labels, "text": list(rows.inputs)})

    def collator(self, processor: Any) -> Any:
        if self.kind == "image":
            return fixed(stack_images)
        from transformers import DataCollatorWithPadding

        return DataCollatorWithPadding(processor)


def data_folder(name: str) -> Path:
    """The folder of a data set in ../shared/data, beside the repository."""
    folder = ROOT.parent / "shared" / "data" / name
    if not folder.is_dir():
        raise FileNotFoundError(f"No data in {folder.name}/: expected the folder ../shared/data/{name}/.")
    return folder


def load_task(spec: Mapping[str, Any]) -> Task:
    """The task that a cell's data describe; loaded once a process."""
    return _load(json.dumps(spec, sort_keys=True))


@lru_cache(maxsize=2)
def _load(text: str) -> Task:
    spec = json.loads(text)
    readers = {
        "cifar10": _cifar10, "grocery_store": _grocery, "clinc150": _clinc, "massive_classes": _massive_classes,
        "massive_rows": _massive_rows, "tiny": _tiny,
    }  # fmt: skip
    return readers[spec["name"]](spec)


def balanced(rows: Rows, count: int | None, seed: int) -> Rows:
    """`count` rows in an order in which the classes take turns: shuffled, then the first of each, the second..."""
    order = np.random.default_rng(seed).permutation(len(rows))
    turn = np.zeros(len(rows), dtype=int)
    seen: dict[int, int] = {}
    for place in order:
        label = int(rows.labels[place])
        turn[place] = seen[label] = seen.get(label, -1) + 1
    return rows.select(order[np.argsort(turn[order], kind="stable")][:count])


def _first(rows: Rows, count: int | None) -> Rows:
    """A fixed random part of a test set, in the order of the file; all of it by default."""
    if count is None or count >= len(rows):
        return rows
    return rows.select(np.sort(np.random.default_rng(0).permutation(len(rows))[:count]))


def _cifar10(spec: Mapping[str, Any]) -> Task:
    return _images("cifar10", 32, 4, spec)


def _grocery(spec: Mapping[str, Any]) -> Task:
    return _images("grocery_store", 128, 12, spec)


def _images(name: str, size: int, padding: int, spec: Mapping[str, Any]) -> Task:
    def read(part: str) -> tuple[Rows, tuple[str, ...]]:
        pixels, labels, names = read_images(data_folder(name) / f"{part}.parquet", size)
        return Rows(pixels, labels, np.arange(len(labels))), names

    (train, names), (test, _) = read("train"), read("test")
    train, test = balanced(train, spec.get("train"), spec["seed"]), _first(test, spec.get("test"))
    for rows in (train, test):
        rows.inputs = normalised(rows.inputs)  # after the choice of rows: four bytes for one
    return Task("image", names, train, test, few=names[: len(names) // 2], augment=padding)


def _clinc(spec: Mapping[str, Any]) -> Task:
    folder = data_folder("clinc150")
    train, test = _texts(folder / "train.jsonl"), _texts(folder / "test.jsonl")
    names = tuple(sorted({label for _, label in train})[: spec.get("classes")])
    train, test = ([row for row in part if row[1] in names] for part in (train, test))
    rows, tested = _text_rows(train, names), _text_rows(test, names)
    chosen = balanced(rows, spec.get("train"), spec["seed"])
    return Task("text", names, chosen, _first(tested, spec.get("test")), few=names[: len(names) // 2])


def _massive_rows(spec: Mapping[str, Any]) -> Task:
    """The paper's own update with more data: 1000 sentences, then 500 more of the same 60 intents; 4000 test rows."""
    folder = data_folder("massive_bcwi")
    names = tuple(json.loads((folder / "labels.json").read_text(encoding="utf-8")))
    parts = ("old/train", "updated/train", "updated/dev", "updated/test")
    old, train, dev, test = (_text_rows(_texts(folder / f"{part}.jsonl"), names) for part in parts)
    shuffled = np.random.default_rng(spec["seed"]).permutation(len(train))
    was_there = shuffled < len(old)  # the file of the update starts with the old one
    kept = round(spec["train"] * len(old) / len(train))
    order = np.concatenate([shuffled[was_there][:kept], shuffled[~was_there][: spec["train"] - kept]])
    return Task(
        "text", names, train.select(order), _first(test, spec.get("test")), dev=_first(dev, spec.get("dev")),
        old_rows=kept,
    )  # fmt: skip


def _massive_classes(spec: Mapping[str, Any]) -> Task:
    """The add-classes update at the paper's sizes: two thirds of the rows are of old intents, one third is new.

    The old model sees 1000 sentences of the intents that are not held back; the update adds 500 of those that are.
    Development rows likewise (333 and 167). The test set is the whole of MASSIVE's, 2974 rows (the paper has 4000).
    """
    folder = data_folder("massive_en")
    files = {part: _texts(folder / f"{part}.jsonl") for part in ("train", "validation", "test")}
    names = tuple(sorted({label for _, label in files["train"]}))
    few = tuple(name for name in names if name not in HELD_BACK)

    def drawn(part: str, count: int) -> Rows:
        rows = _text_rows(files[part], names)
        order = np.random.default_rng(spec["seed"]).permutation(len(rows))
        added = np.isin(rows.labels[order], [names.index(name) for name in HELD_BACK])
        old = round(count * 2 / 3)
        return rows.select(np.concatenate([order[~added][:old], order[added][: count - old]]))

    test = _text_rows([row for row in files["test"] if row[1] in names], names)
    return Task(
        "text", names, drawn("train", spec["train"]), _first(test, spec.get("test")),
        dev=drawn("validation", spec["dev"]), few=few,
    )  # fmt: skip


def _texts(path: Path) -> list[tuple[str, str]]:
    rows = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    return [(row["text"], row["label"]) for row in rows]


def _text_rows(rows: Sequence[tuple[str, str]], names: Sequence[str]) -> Rows:
    number = {name: index for index, name in enumerate(names)}
    labels = np.array([number[label] for _, label in rows])
    return Rows([text for text, _ in rows], labels, np.arange(len(rows)))


def _tiny(spec: Mapping[str, Any]) -> Task:
    """Blobs of colour in four classes, 16 by 16 pixels: for the tests of the engine, learnt in a moment."""
    import torch

    def rows(count: int, seed: int) -> Rows:
        generator = torch.Generator().manual_seed(seed)
        labels = torch.arange(count) % 4
        colours = torch.eye(4)[:, :3] * 0.8
        pixels = colours[labels][:, :, None, None] + torch.randn(count, 3, 16, 16, generator=generator)
        return Rows(pixels, labels.numpy(), np.arange(count))

    names = ("red", "green", "blue", "black")
    dev = rows(spec["dev"], 2) if "dev" in spec else None
    return Task("image", names, rows(spec["train"], 0), rows(spec["test"], 1), dev, few=names[:2], augment=2)
