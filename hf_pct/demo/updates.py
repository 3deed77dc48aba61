"""The two updates that the demo shows: a voice assistant's intents and handwritten digits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from datasets import DatasetDict

from ..models.types import Processor
from .digits import digit_splits, new_digit_model
from .intents import intent_splits, new_intent_model

if TYPE_CHECKING:
    from transformers import PreTrainedModel


DEVELOPMENT_ROWS = 400


@dataclass(frozen=True)
class DemoUpdate:
    """One update to show: the data, the model that is trained on it, and how."""

    name: str
    title: str
    splits: DatasetDict
    new_model: Callable[[int], tuple[PreTrainedModel, Processor]]
    epochs: int
    learning_rate: float
    focal_weight: float
    keep_columns: tuple[str, ...] = ()
    members: int = 3

    def headline(self) -> str:
        sizes = {side: len(self.splits[f"{side}_train"]) for side in ("old", "new")}
        return self.title.format(classes=self.splits["test"].features["label"].num_classes, **sizes)

    def shortened(self) -> DemoUpdate:
        """Hardly any data, one epoch and two members: enough to see that everything runs."""
        rows = {"old_train": 64, "new_train": 96, "development": 60, "test": 200}
        parts = {part: self.splits[part].select(range(most)) for part, most in rows.items()}
        return replace(self, splits=DatasetDict(parts), epochs=1, members=2)


def intents_update(seed: int) -> DemoUpdate:
    splits = _with_development(intent_splits(seed=seed))
    names = splits["test"].features["label"].names
    title = (
        "A voice assistant: {classes} intents, sentences generated from a real grammar; MiniLM fine-tuned on {old} of "
        "them, then on {new}"
    )
    return DemoUpdate("intents", title, splits, lambda s: new_intent_model(names, s), 4, 6e-4, 1.0, ("text", "domain"))


def digits_update(seed: int) -> DemoUpdate:
    title = "Handwritten digits: a small timm ResNet trained on {old} images, then on {new}"
    splits = _with_development(digit_splits(seed=seed))
    # an old model that saw a hundred images has much to unlearn: hold the new one only lightly
    return DemoUpdate("digits", title, splits, new_digit_model, 10, 3e-3, 0.1)


def _with_development(splits: DatasetDict) -> DatasetDict:
    """Some of the held-out rows to choose on; what is reported is measured on the others."""
    held_out = splits["test"]
    development = held_out.select(range(DEVELOPMENT_ROWS))
    test = held_out.select(range(DEVELOPMENT_ROWS, len(held_out)))
    return DatasetDict({**splits, "development": development, "test": test})
