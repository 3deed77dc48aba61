"""Corrected p-values, for when many classes, slices or tasks were looked at."""

from collections.abc import Sequence

import numpy as np


def holm(p_values: Sequence[float]) -> np.ndarray:
    """Holm's corrected p-values: below 0.05, the chance of even one false alarm among them is below 5 %."""
    p = _check_p_values(p_values)
    order = np.argsort(p)
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    return _restore(np.minimum(stepped, 1.0), order)


def benjamini_hochberg(p_values: Sequence[float]) -> np.ndarray:
    """Benjamini and Hochberg's corrected p-values: below 0.05, at most 5 % of the alarms are expected to be false."""
    p = _check_p_values(p_values)
    order = np.argsort(p)
    stepped = p[order] * len(p) / np.arange(1, len(p) + 1)
    return _restore(np.minimum(np.minimum.accumulate(stepped[::-1])[::-1], 1.0), order)


def _restore(values: np.ndarray, order: np.ndarray) -> np.ndarray:
    restored = np.empty_like(values)
    restored[order] = values
    return restored


def _check_p_values(p_values: Sequence[float]) -> np.ndarray:
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        raise ValueError("p-values must be a flat list of numbers between 0 and 1.")
    return p


CORRECTIONS = {"holm": holm, "bh": benjamini_hochberg}
