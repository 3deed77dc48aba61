"""Flips in a trainer that is not the kit's: a `compute_metrics` function, and a callback.

`flip_metrics` serves `Trainer` and whatever evaluates as it does. `FlipCallback` asks the model itself, and so serves
trainers that evaluate in their own way: sentence-transformers' CrossEncoder, SetFit, TRL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from transformers import EvalPrediction, TrainerCallback

from ...core.decode import JsonObject
from ...flips.tables.predictions import Predictions
from ...methods.base import IGNORED
from ...models.predict import predict
from ...models.types import ModelSource, Processor, RowSource
from .metrics import Metrics, first_array, flip_rates

if TYPE_CHECKING:
    import torch
    from torch import nn
    from transformers import TrainerState

# a table or its file, class indices, or logits
OldAnswers: TypeAlias = "Predictions | str | Path | Sequence[int] | np.ndarray | torch.Tensor"


def flip_metrics(
    old_predictions: OldAnswers | None = None,
    *,
    old_model: ModelSource | None = None,
    dataset: RowSource | None = None,
    label_names: Sequence[str] | None = None,
    compute_metrics: Callable[..., Metrics] | None = None,
    **options: object,
) -> Callable[..., Metrics]:
    """A `compute_metrics` for any `Trainer`, also batch by batch: accuracy, and flips against an old model.

    Args:
        old_predictions: the old model's answers to the evaluation rows, in their order: a `Predictions` table or its
            file, class indices of the new model, or logits over its classes.
        old_model: the old model itself instead (a Hub id, a folder or a module); it answers once, now.
        dataset: the evaluation rows for `old_model`.
        label_names: the new model's classes in the order of its logits; those of the old model when unset.
        compute_metrics: your own function; its metrics are added, and win where names collide.
        options: passed to `predict` with `old_model`: `processor`, `input_column`, `label_column`, ...

    Example:
        >>> import numpy as np
        >>> from hf_pct import flip_metrics
        >>> from transformers import EvalPrediction
        >>> measure = flip_metrics([0, 1, 1])
        >>> measure(EvalPrediction(np.array([[2.0, 1.0], [0.0, 1.0], [3.0, 0.0]]), np.array([0, 1, 1])))["nfr"]
        0.3333333333333333
    """
    old = _old_table(old_predictions, old_model, dataset, options)
    answers = _indices(old, label_names)
    pending: list[tuple[np.ndarray, np.ndarray]] = []

    def measure(prediction: EvalPrediction, compute_result: bool | None = None) -> Metrics:
        pending.append((np.asarray(first_array(prediction.label_ids)), _answers(first_array(prediction.predictions))))
        own: Metrics = {}
        if compute_metrics is not None:
            more = {} if compute_result is None else {"compute_result": compute_result}
            own = compute_metrics(prediction, **more) or {}
        if compute_result is False:  # more batches of this evaluation are to come
            return own
        labels, new = (np.concatenate(parts) for parts in zip(*pending, strict=True))
        pending.clear()
        _check_rows(old, answers, labels, label_names)
        return {**_measure(answers, new, labels, labels != IGNORED), **own}

    return measure


class FlipCallback(TrainerCallback):
    """Adds `eval_nfr` and the related rates to every evaluation of any trainer that calls `on_evaluate`.

    Put it before callbacks that use these metrics (early stopping); `metric_for_best_model="eval_nfr"` works with
    `greater_is_better=False`.

    Args:
        old_predictions: the old model's table of `Predictions` (or its file): ids, labels and answers.
        old_model: the old model itself instead; it answers `dataset` once, now.
        dataset: the rows to measure on, as `predict` takes them. Needed unless `answer` is given with a table.
        answer: how the model in training answers these rows: a function of the model that returns class names, class
            indices in the order of `label_names`, or scores per class; `None` while it cannot answer yet (SetFit
            evaluates before its head is fitted). By default `predict(model, dataset)`.
        label_names: the new model's classes in the order of its scores; those of the old table when unset.
        options: passed to `predict`: `processor`, `input_column`, `label_column`, ...

    Example:
        >>> from hf_pct import FlipCallback, Predictions
        >>> from transformers import TrainerState
        >>> old = Predictions(ids=[1, 2], labels=["yes", "no"], predictions=["yes", "no"])
        >>> callback = FlipCallback(old, answer=lambda model: ["yes", "yes"])
        >>> metrics = {}
        >>> callback.on_evaluate(None, TrainerState(), None, metrics)
        >>> metrics["eval_nfr"]
        0.5
    """

    def __init__(
        self,
        old_predictions: OldAnswers | None = None,
        *,
        old_model: ModelSource | None = None,
        dataset: RowSource | None = None,
        answer: Callable[[nn.Module], object] | None = None,
        label_names: Sequence[str] | None = None,
        metric_key_prefix: str = "eval",
        **options: object,
    ) -> None:
        if answer is None and dataset is None:
            raise ValueError("Neither dataset nor answer was given: the new model must be asked on some rows.")
        old = _old_table(old_predictions, old_model, dataset, options)
        if not isinstance(old, Predictions):
            raise TypeError("old_predictions must be a Predictions table or its file: bare answers have no labels.")
        self.old, self.dataset, self.answer, self.options = old, dataset, answer, options
        self.label_names, self.prefix = label_names or old.label_names, metric_key_prefix

    def on_evaluate(
        self, args: object, state: TrainerState, control: object, metrics: Metrics | None = None, **kwargs: object
    ) -> None:
        model = kwargs.get("model")
        processor = kwargs.get("processing_class")
        answer = self._ask(model, processor)
        if answer is None:
            return
        names = _new_names(answer, self.label_names, len(self.old))
        rates = _measure(self.old.predictions, names, self.old.labels, np.ones(len(self.old), bool))
        added = {f"{self.prefix}_{name}": value for name, value in rates.items()}
        if metrics is not None:
            metrics.update({name: value for name, value in added.items() if name not in metrics})
        if state.log_history and state.log_history[-1].get("step") == state.global_step:
            state.log_history[-1].update(added)
        else:
            state.log_history.append({**added, "step": state.global_step})

    def _ask(self, model: nn.Module, processor: Processor) -> object:
        training = getattr(model, "training", False)
        if training:
            model.eval()
        try:
            if self.answer is not None:
                return self.answer(model)
            options = {"processor": processor, **self.options, "use_cache": False, "progress": False}
            return predict(model, self.dataset, **options)
        finally:
            if training:
                model.train()


def _old_table(
    old_predictions: OldAnswers | None, old_model: ModelSource | None, dataset: RowSource, options: JsonObject
) -> Predictions | np.ndarray:
    """The old answers as a table, or as an array where that is what was given."""
    if (old_predictions is None) == (old_model is None):
        raise ValueError("Expected exactly one of old_predictions and old_model.")
    if old_model is not None:
        if dataset is None:
            raise ValueError("old_model needs dataset, the rows that it is asked.")
        return predict(old_model, dataset, **options)
    if isinstance(old_predictions, str | Path):
        return Predictions.load(old_predictions)
    return old_predictions if isinstance(old_predictions, Predictions) else _answers(first_array(old_predictions))


def _answers(values: object) -> np.ndarray:
    values = np.asarray(values)
    return values.argmax(-1) if values.ndim > 1 else values


def _indices(old: Predictions | np.ndarray, label_names: Sequence[str] | None) -> np.ndarray:
    """The old answers as classes of the new model; -1 for a class that it lacks."""
    if not isinstance(old, Predictions):
        return old
    names = label_names or old.label_names
    if names is None:
        raise ValueError("The old table does not name its classes in order: pass label_names, the new model's.")
    index = {name: number for number, name in enumerate(names)}
    return np.array([index.get(name, -1) for name in old.predictions])


def _check_rows(
    old: Predictions | np.ndarray, answers: np.ndarray, labels: np.ndarray, label_names: Sequence[str] | None
) -> None:
    if len(answers) != len(labels):
        raise ValueError(
            f"There are {len(answers)} old answers and {len(labels)} evaluation rows: expected one answer per row of "
            "the evaluation set, in its order. With several evaluation sets use a FlipCallback for each."
        )
    names = label_names or getattr(old, "label_names", None)
    if isinstance(old, Predictions) and names is not None:
        known = labels != IGNORED
        differ = int(sum(names[label] != own for label, own in zip(labels[known], old.labels[known], strict=True)))
        if differ:
            raise ValueError(
                f"{differ} of {len(labels)} labels are not those of the old table: these are other rows, or another "
                "order of rows or classes. Pass label_names, the new model's classes in the order of its logits."
            )


def _new_names(answer: object, label_names: Sequence[str] | None, rows: int) -> np.ndarray:
    """Answers of any kind as class names."""
    values = answer.predictions if isinstance(answer, Predictions) else _answers(first_array(answer))
    if len(values) != rows:
        raise ValueError(f"The model gave {len(values)} answers to {rows} rows: expected one per row, in their order.")
    if values.dtype.kind in "iu":
        if label_names is None:
            raise ValueError("The model answers with indices: pass label_names, its classes in their order.")
        values = np.asarray(label_names)[values]
    return np.asarray([str(value) for value in values])


def _measure(old: np.ndarray, new: np.ndarray, labels: np.ndarray, kept: np.ndarray) -> Metrics:
    old, new, labels = old[kept], new[kept], labels[kept]
    accuracy = float((new == labels).mean()) if len(labels) else 0.0
    return {"accuracy": accuracy, **(flip_rates(old, new, labels) if len(labels) else {})}
