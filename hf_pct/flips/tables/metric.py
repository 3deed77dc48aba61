"""Metric: what a score is called, and whether a higher or a lower one is better."""

import re
from dataclasses import dataclass

import numpy as np

# A word of a metric's name that says that less of it is better.
_LOWER_WORDS = {"perplexity", "ppl", "bpb", "wer", "cer", "ter", "mer", "loss", "nll", "brier", "mae", "mse", "rmse"}
_LOWER_WORDS |= {"error", "errors", "latency", "cost", "distance", "hallucination", "toxicity", "bias"}


@dataclass(frozen=True)
class Metric:
    """A score's name, its direction and, where the tool that scored says so, from which score on a row is right."""

    name: str
    higher_is_better: bool = True
    right_at: float | None = None

    @property
    def sign(self) -> float:
        """What scores are multiplied with so that more is better."""
        return 1.0 if self.higher_is_better else -1.0


def named_metric(name: str, higher_is_better: bool | None = None, right_at: float | None = None) -> Metric:
    """The metric of this name; its direction, when nobody says it, from the usual names (perplexity, wer, loss, ...).

    Example:
        >>> named_metric("exact_match").higher_is_better, named_metric("word_perplexity").higher_is_better
        (True, False)
    """
    if higher_is_better is None:
        words = set(re.split(r"[^a-z0-9]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower()))
        higher_is_better = not (words & _LOWER_WORDS or "bits_per_byte" in name.lower())
    return Metric(name, higher_is_better, right_at)


def is_zero_one(scores: np.ndarray) -> bool:
    """Whether every score is 0 or 1: such scores say by themselves what is right."""
    return bool(((scores == 0) | (scores == 1)).all())
