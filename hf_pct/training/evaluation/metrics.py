"""Flips against the old model at every evaluation, beside whatever metrics the caller computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from transformers import EvalPrediction

from ...flips.counts import count_flips
from ...methods.base import IGNORED, OLD

if TYPE_CHECKING:
    from torch import Tensor

Metrics = dict[str, float]


RATES = ("nfr", "pfr", "relative_nfr", "old_accuracy")
"""What an evaluation reports about each old model."""

UNKNOWN = -2
"""The answer of a reference that was not asked; -1 is an answer that is no class of the new model's."""


class FlipMetrics:
    """`compute_metrics` for a trainer whose label ids are `(labels, answers of each reference in turn)`.

    `known` has the references in that order, with the classes of the new model that each of them knows. The one called
    `old` gives `nfr` and the related rates, another old model the same with its name behind (`nfr_old_1`), others
    their accuracy. Flips are counted on rows whose class the old model knows; accuracy is over all rows, and rows of
    added classes get an accuracy of their own. Rows labelled -100 are left out of everything. The caller's own
    metrics see plain labels, and win where names collide.
    """

    def __init__(self, known: Mapping[str, np.ndarray], user: Callable[..., Metrics] | None = None) -> None:
        self.known, self.user = known, user
        self._pending: list[tuple[np.ndarray, np.ndarray, list[np.ndarray]]] = []

    def __call__(self, prediction: EvalPrediction, compute_result: bool | None = None) -> Metrics:
        labels, references = split_labels(prediction.label_ids)
        answers = np.asarray(first_array(prediction.predictions))
        answers = answers.argmax(-1) if answers.ndim > 1 else answers
        self._pending.append((answers, first_array(labels), [first_array(reference) for reference in references]))
        plain = EvalPrediction(prediction.predictions, labels, prediction.inputs, prediction.losses)
        user: Metrics = {}
        if self.user is not None:
            user = self.user(plain) if compute_result is None else self.user(plain, compute_result=compute_result)
        if compute_result is False:  # more batches of this evaluation are to come
            return user or {}
        return {**self._measure(), **(user or {})}

    def _measure(self) -> Metrics:
        pending, self._pending = self._pending, []
        answers = np.concatenate([new for new, _, _ in pending])
        labels = np.concatenate([label for _, label, _ in pending])
        labelled = labels != IGNORED
        answers, labels = answers[labelled], labels[labelled]
        metrics: Metrics = {"accuracy": _mean(answers == labels)}
        if any(len(references) < len(self.known) for _, _, references in pending):
            return metrics
        for number, (name, classes) in enumerate(self.known.items()):
            theirs = np.concatenate([references[number] for _, _, references in pending])[labelled]
            if (theirs == UNKNOWN).any():
                continue
            if name != OLD and not name.startswith(f"{OLD}_"):
                metrics[f"{name}_accuracy"] = _mean(theirs == labels)
                continue
            metrics |= _flips(theirs, answers, labels, classes[labels], name.removeprefix(OLD))
        return metrics


def _flips(old: np.ndarray, new: np.ndarray, labels: np.ndarray, known: np.ndarray, suffix: str) -> Metrics:
    metrics: Metrics = {}
    if known.any():  # where only added classes are evaluated, nothing can flip
        metrics = flip_rates(old[known], new[known], labels[known])
    if not known.all():
        metrics["added_accuracy"] = _mean(new[~known] == labels[~known])
    return {f"{name}_old{suffix}" if suffix else name: value for name, value in metrics.items()}


def flip_rates(old: np.ndarray, new: np.ndarray, labels: np.ndarray) -> Metrics:
    """The rates that an evaluation reports."""
    flips = count_flips(old, new, labels)
    return {name: getattr(flips, name) for name in RATES}


class PlainLabels:
    """A caller's `preprocess_logits_for_metrics`, which knows nothing of answers that travel beside the labels."""

    def __init__(self, user: Callable[[Tensor, Tensor], object]) -> None:
        self.user = user

    def __call__(self, logits: Tensor, labels: Tensor | tuple[Tensor, ...]) -> object:
        return self.user(logits, split_labels(labels)[0])


def split_labels(label_ids: object) -> tuple[object, tuple[object, ...]]:
    """Labels, and the references' answers where they came along."""
    return (label_ids[0], tuple(label_ids[1:])) if isinstance(label_ids, tuple) else (label_ids, ())


def first_array(values: object) -> np.ndarray:
    """The array, or the first of several: a model may return more than logits."""
    values = values[0] if isinstance(values, tuple) else values
    return values.cpu().numpy() if hasattr(values, "cpu") else np.asarray(values)


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else 0.0
