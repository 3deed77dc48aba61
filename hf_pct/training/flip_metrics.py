"""Flips against the old model at every evaluation, beside whatever metrics the caller computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from transformers import EvalPrediction

from ..flips.counts import count_flips

Metrics = dict[str, Any]


class FlipMetrics:
    """`compute_metrics` for a trainer whose label ids are `(labels, old predictions)` where the old model is known.

    Flips are counted on rows whose class the old model knows; accuracy is over all rows, and rows of added classes get
    an accuracy of their own. The caller's own metrics see plain labels, and win where names collide.
    """

    def __init__(self, known: np.ndarray | None, user: Callable[..., Metrics] | None = None) -> None:
        self.known, self.user = known, user
        self._pending: list[tuple[np.ndarray, np.ndarray, np.ndarray | None]] = []

    def __call__(self, prediction: EvalPrediction, compute_result: bool | None = None) -> Metrics:
        labels, old = split_labels(prediction.label_ids)
        answers = np.asarray(_numpy(prediction.predictions))
        answers = answers.argmax(-1) if answers.ndim > 1 else answers
        self._pending.append((answers, _numpy(labels), None if old is None else _numpy(old)))
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
        metrics: Metrics = {"accuracy": _mean(answers == labels)}
        olds = [old for _, _, old in pending if old is not None]
        if len(olds) < len(pending) or self.known is None:
            return metrics
        known = self.known[labels]
        flips = count_flips(np.concatenate(olds)[known], answers[known], labels[known])
        metrics |= {
            "nfr": flips.nfr,
            "pfr": flips.pfr,
            "relative_nfr": flips.relative_nfr,
            "old_accuracy": flips.old_accuracy,
        }
        if not known.all():
            metrics["added_accuracy"] = _mean(answers[~known] == labels[~known])
        return metrics


def split_labels(label_ids: Any) -> tuple[Any, Any]:
    """Labels, and the old model's answers where they came along."""
    return label_ids if isinstance(label_ids, tuple) else (label_ids, None)


def _numpy(values: Any) -> np.ndarray:
    values = values[0] if isinstance(values, tuple) else values
    return values.cpu().numpy() if hasattr(values, "cpu") else np.asarray(values)


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else 0.0
