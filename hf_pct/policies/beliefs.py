"""What several versions' answers say about each row: a posterior over classes, updated version by version.

Two forms of the same thing. `DenseBeliefs` keeps a matrix of rows by classes and takes any confusion. With thousands
of classes that matrix is too large, and a confusion cannot be estimated anyway: `SparseBeliefs` assumes that a wrong
answer is any other class with the same probability. Then only the answered classes differ from what all rows share.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np


class Beliefs(Protocol):
    """The posterior of every row, as far as policies ask about it."""

    def observe(self, version: int, rows: np.ndarray) -> None:
        """Take the version's answers to these rows (a mask) into account."""

    def entropy(self) -> np.ndarray:
        """How unsure the posterior of each row is, in nats."""

    def best(self) -> np.ndarray:
        """The most probable class of each row."""

    def log_probability(self, classes: np.ndarray) -> np.ndarray:
        """The log of the posterior of one class per row."""


class DenseBeliefs:
    """A log posterior per row and class."""

    def __init__(self, answers: np.ndarray, log_prior: np.ndarray, log_confusions: Sequence[np.ndarray]) -> None:
        """`log_confusions[v][answer, label]` is how probable version v's answer is for a row of that label."""
        self.answers, self.confusions = answers, log_confusions
        self.logs = np.tile(log_prior.astype(np.float64), (answers.shape[1], 1))

    def observe(self, version: int, rows: np.ndarray) -> None:
        self.logs[rows] += self.confusions[version][self.answers[version][rows]]
        self.logs[rows] -= _log_sum(self.logs[rows])[:, None]

    def entropy(self) -> np.ndarray:
        probability = np.exp(self.logs)
        return -(probability * np.where(probability > 0, self.logs, 0.0)).sum(-1)

    def best(self) -> np.ndarray:
        return self.logs.argmax(-1)

    def log_probability(self, classes: np.ndarray) -> np.ndarray:
        return self.logs[np.arange(len(classes)), classes]


@dataclass(frozen=True)
class _Group:
    """Rows that the same versions have answered. They share the posterior apart from the answered classes' own shares.

    `boosts` are those shares, by version and row: an answer that several versions gave has its share with the first of
    them, which leads.
    """

    rows: np.ndarray
    answers: np.ndarray
    boosts: np.ndarray
    leads: np.ndarray
    base: np.ndarray
    likeliest: np.ndarray  # classes by `base`: as many as answers can hide, and one more

    def sums(self) -> tuple[np.ndarray, np.ndarray]:
        """The sum of all weights of each row, and the sum of weight times log weight."""
        weights = np.exp(self.base)
        total = np.full(len(self.rows), weights.sum())
        weighted = np.full(len(self.rows), (weights * self.base).sum())
        for answers, boosts in zip(self.answers, np.where(self.leads, self.boosts, 0.0), strict=True):
            before = self.base[answers]
            after = before + boosts
            total += np.exp(after) - np.exp(before)
            weighted += np.exp(after) * after - np.exp(before) * before
        return total, weighted

    def best(self) -> np.ndarray:
        """The most probable class of each row; of two equals the first, as `argmax` over all classes takes it."""
        answered = np.where(self.leads, self.answers, -1)
        hidden = (self.likeliest[:, None, None] == answered[None]).any(1)
        winner = self.likeliest[hidden.argmin(0)]
        height = np.where(hidden.all(0), -np.inf, self.base[winner])
        for answers, boosts, leads in zip(self.answers, self.boosts, self.leads, strict=True):
            own = np.where(leads, self.base[answers] + boosts, -np.inf)
            better = (own > height) | ((own == height) & (answers < winner))
            winner, height = np.where(better, answers, winner), np.where(better, own, height)
        return winner


class SparseBeliefs:
    """The same for confusions of the form "right with probability r, else any other class alike"."""

    def __init__(self, answers: np.ndarray, log_prior: np.ndarray, right: Sequence[np.ndarray]) -> None:
        """`right[v][label]` is how often version v is right on rows of that label."""
        self.answers = answers
        self.prior = log_prior.astype(np.float64)
        self.wrong = [np.log1p(-rates) - np.log(max(len(log_prior) - 1, 1)) for rates in right]
        self.gain = [np.log(rates) - wrong for rates, wrong in zip(right, self.wrong, strict=True)]
        self.seen = np.zeros(answers.shape, dtype=bool)

    def observe(self, version: int, rows: np.ndarray) -> None:
        self.seen[version] |= rows

    def entropy(self) -> np.ndarray:
        entropy = np.empty(self.answers.shape[1])
        for group in self._groups():
            total, weighted = group.sums()
            entropy[group.rows] = np.log(total) - weighted / total
        return entropy

    def best(self) -> np.ndarray:
        best = np.empty(self.answers.shape[1], dtype=self.answers.dtype)
        for group in self._groups():
            best[group.rows] = group.best()
        return best

    def log_probability(self, classes: np.ndarray) -> np.ndarray:
        logs = np.empty(self.answers.shape[1])
        for group in self._groups():
            asked = classes[group.rows]
            boost = np.where((group.answers == asked) & group.leads, group.boosts, 0.0).sum(0)
            logs[group.rows] = group.base[asked] + boost - np.log(group.sums()[0])
        return logs

    def _groups(self) -> Iterator[_Group]:
        """Rows by which versions they have seen."""
        weights = 1 << np.arange(len(self.seen), dtype=np.int64)
        patterns = weights @ self.seen
        for pattern in np.unique(patterns):
            versions = np.flatnonzero(weights & pattern)
            rows = np.flatnonzero(patterns == pattern)
            base = self.prior + sum((self.wrong[version] for version in versions), np.zeros_like(self.prior))
            base = base - base.max()
            answers = self.answers[np.ix_(versions, rows)]
            boosts, leads = np.zeros(answers.shape), np.zeros(answers.shape, dtype=bool)
            for place, version in enumerate(versions):
                leader = (answers == answers[place]).argmax(0)
                boosts[leader, np.arange(len(rows))] += self.gain[version][answers[place]]
                leads[leader, np.arange(len(rows))] = True
            likeliest = np.argsort(-base, kind="stable")[: len(versions) + 1]
            yield _Group(rows, answers, boosts, leads, base, likeliest)


def _log_sum(logs: np.ndarray) -> np.ndarray:
    top = logs.max(-1)
    return top + np.log(np.exp(logs - top[:, None]).sum(-1))
