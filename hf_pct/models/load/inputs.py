"""Rows as a Trainer takes them: prepared by the model's own task, with labels as its indices."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ...core.decode import JsonObject
from ..data import Rows
from .model import LoadedModel


def model_rows(loaded: LoadedModel, rows: Rows, names: Sequence[str] | None = None) -> list[JsonObject]:
    """Rows in their order as the model takes them; labels count within `names`, the model's own by default."""
    number = {name: i for i, name in enumerate(names or loaded.label_names or ())}
    unknown = sorted({label for label in rows.labels if label not in number})
    if unknown:
        raise ValueError(
            f"The data has labels that the new model lacks: {unknown[:5]}; it has {sorted(number)[:5]} ..."
        )
    prepared = loaded.task.prepare(rows.inputs(range(len(rows))))
    return [{**row, "labels": number[label]} for row, label in zip(prepared, rows.labels, strict=True)]


class Collator:
    """The task's own collating, with labels beside it."""

    def __init__(self, loaded: LoadedModel) -> None:
        self.task = loaded.task

    def __call__(self, rows: list[JsonObject]) -> dict[str, torch.Tensor]:
        inputs = [{name: value for name, value in row.items() if name != "labels"} for row in rows]
        return {**self.task.collate(inputs), "labels": torch.tensor([row["labels"] for row in rows])}
