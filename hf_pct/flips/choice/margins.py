"""Margins: how far every row is from another answer, which says more of accuracy than whether it is right.

A row's margin is the logit of its label minus the largest other one, so accuracy is the share of margins above zero.
Counting them forgets how near zero they are: on 500 rows the difference of two models' accuracies is off by most of a
point. Smoothed, a row near zero counts in part, so that two models that differ little on it differ little in the sum:
the difference has nearly the same mean and little more than half of the error, see
`python -m benchmarks.updates --margins`.

It is used to choose, never to prove: a certificate and a gate count rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

WIDTH = 0.35
"""Of the smoothing, in standard deviations of a model's own margins: its logits may be of any scale."""
DOUBT = 0.0015
"""By how much the mean of a smoothed difference is usually off; fitted where the pooled rows of updates show it."""
PLAIN_DISAGREEMENT = 3.0
"""Standard errors between what was counted and what was smoothed beyond which the count alone is believed."""
MOST_SHARED = 0.8
"""The largest part of a count's information that a smoothed difference is taken to tell again."""


def row_margins(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The logit of each row's label minus the largest other one; NaN where the label is none of the columns.

    Example:
        >>> from hf_pct.flips.choice.margins import row_margins
        >>> row_margins([[0.5, 2.0], [0.5, 2.0]], [1, 0]).tolist()
        [1.5, -1.5]
    """
    logits, labels = np.array(logits, dtype=np.float32), np.asarray(labels, dtype=int)
    places, known = np.arange(len(labels)), (labels >= 0) & (labels < logits.shape[1])
    columns = np.where(known, labels, 0)
    own = logits[places, columns].copy()
    logits[places, columns] = -np.inf
    with np.errstate(invalid="ignore"):  # infinite logits have no difference
        return np.where(known, own - logits.max(1), np.nan)


@dataclass(frozen=True)
class SmoothedGains:
    """Accuracy over the yardstick's at some alphas (`at` are their places), from margins, with its covariance."""

    at: np.ndarray
    gains: np.ndarray
    covariance: np.ndarray

    def log_likelihood(self, gains: np.ndarray) -> np.ndarray:
        """Of each draw of the gains at all alphas (alphas by draws)."""
        off = np.linalg.solve(np.linalg.cholesky(self.covariance), gains[self.at] - self.gains[:, None])
        return -0.5 * (off**2).sum(0)


def smoothed_gains(margins: np.ndarray | None, yardstick: np.ndarray | None) -> SmoothedGains | None:
    """What margins along alpha say of accuracy beside the yardstick's; None where they are missing or mislead.

    Alphas at which the model is the yardstick itself say nothing, and rows of NaN are alphas without margins.
    """
    if margins is None or yardstick is None or not np.isfinite(yardstick).all():
        return None
    at = np.flatnonzero(np.isfinite(margins).all(1) & (margins != yardstick).any(1))
    if not len(at):
        return None
    own, other = margins[at], yardstick[None]
    soft = smoothed(own) - smoothed(other)
    hard = (own > 0).astype(float) - (other > 0)
    rows = soft.shape[1]
    apart = (hard - soft).mean(1)
    error = np.sqrt((hard - soft).var(1) / rows + DOUBT**2)
    if (np.abs(apart) > PLAIN_DISAGREEMENT * error).any():
        return None
    # the same rows are counted by the fit, so only what smoothing tells beyond the count is new
    shared = min(soft.var(1).mean() / max(hard.var(1).mean(), 1e-12), MOST_SHARED)
    covariance = np.atleast_2d(np.cov(soft)) / (rows * (1 - shared)) + DOUBT**2 * (0.5 + 0.5 * np.eye(len(at)))
    return SmoothedGains(at, soft.mean(1), covariance)


def smoothed(margins: np.ndarray) -> np.ndarray:
    """Each row's part in accuracy, from 0 to 1, by its margin in units of its model's own."""
    spread = np.maximum(margins.std(1, keepdims=True), 1e-9)
    return special.ndtr(margins / (WIDTH * spread))
