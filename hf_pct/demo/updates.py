"""The three updates that the demo shows: more sentences, another architecture, and the next version of a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from datasets import DatasetDict

from ..models.types import Processor
from .digits import NEWER_ARCHITECTURE, digit_splits, new_digit_model
from .intents import intent_splits, new_intent_model

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    NewModel = Callable[[int], tuple[PreTrainedModel, Processor]]

DEVELOPMENT_ROWS = 500


@dataclass(frozen=True)
class DemoUpdate:
    """One update to show: the data, the model that is trained on it, and how.

    `newer` makes the new model where it has another architecture than the old one.
    """

    name: str
    title: str
    splits: DatasetDict
    new_model: NewModel
    epochs: int
    learning_rate: float
    newer: NewModel | None = None
    keep_columns: tuple[str, ...] = ()
    members: int = 3
    budget: float = 1

    def headline(self) -> str:
        sizes = {side: len(self.splits[f"{side}_train"]) for side in ("old", "new")}
        return self.title.format(classes=self.splits["test"].features["label"].num_classes, **sizes)

    def shortened(self) -> DemoUpdate:
        """Hardly any data, one epoch and two members: enough to see that everything runs."""
        rows = {"old_train": 64, "new_train": 96, "development": 60, "test": 200}
        parts = {part: self.splits[part].select(range(most)) for part, most in rows.items()}
        return replace(self, splits=DatasetDict(parts), epochs=1, members=2)


def intents_update(seed: int) -> DemoUpdate:
    splits = _with_development(intent_splits(test_size=1600, seed=seed))
    names = splits["test"].features["label"].names
    title = (
        "A voice assistant: {classes} intents, sentences generated from a real grammar; MiniLM fine-tuned on {old} of "
        "them, then on {new}"
    )
    new_model = partial(new_intent_model, names)
    return DemoUpdate("intents", title, splits, new_model, 4, 6e-4, keep_columns=("text", "domain"))


def digits_update(seed: int) -> DemoUpdate:
    title = (
        "Handwritten digits, and another architecture: a small ResNet trained on {old} images is replaced by an "
        "EfficientNet trained on {new}"
    )
    splits = _with_development(digit_splits(old_size=150, new_size=200, test_size=1597, seed=seed))
    newer = partial(new_digit_model, architecture=NEWER_ARCHITECTURE)
    return DemoUpdate("digits", title, splits, new_digit_model, 30, 3e-3, newer, budget=4)


def students_update(seed: int) -> DemoUpdate:
    title = (
        "The digits again: a ResNet trained on {old} images, then on {new}, ready for updates that nobody knows yet"
    )
    splits = _with_development(digit_splits(old_size=100, new_size=150, test_size=1647, seed=seed))
    return DemoUpdate("students", title, splits, new_digit_model, 10, 3e-3)


def _with_development(splits: DatasetDict) -> DatasetDict:
    """Some of the held-out rows to choose on; what is reported is measured on the others."""
    held_out = splits["test"]
    development = held_out.select(range(DEVELOPMENT_ROWS))
    test = held_out.select(range(DEVELOPMENT_ROWS, len(held_out)))
    return DatasetDict({**splits, "development": development, "test": test})
