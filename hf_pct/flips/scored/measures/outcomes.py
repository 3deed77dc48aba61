"""What became of each row when it is scored instead of labelled: six outcomes, counted and measured.

All functions take scores of which more is better; the caller turns those of which less is better around.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

OUTCOMES = ("same", "changed", "better", "worse", "fixed", "broken")
SAME, CHANGED, BETTER, WORSE, FIXED, BROKEN = range(6)
MEANINGS = {
    "broken": "right before, not right now",
    "fixed": "not right before, right now",
    "changed": "another answer, still right",
    "worse": "lower by more than the tolerance, no flip",
    "better": "higher by more than the tolerance, no flip",
    "same": "everything else",
}
# Differences of decimal fractions end a rounding error beside them: 0.8 - 0.7 is not more than 0.1.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Rule:
    """When a score is right (None: such scores have no right and wrong) and which drop counts."""

    right_at: float | None
    tolerance: float = 0.0


@dataclass(frozen=True)
class RunPair:
    """One run of the old and one of the new version on the same rows; `changed` tells where the answers differ."""

    old: np.ndarray
    new: np.ndarray
    changed: np.ndarray | None = None


def outcome_codes(pair: RunPair, rule: Rule) -> np.ndarray:
    """The outcome of every row, as a place in `OUTCOMES`. A flip is a flip, however small the difference.

    Example:
        >>> pair = RunPair(np.array([1.0, 0.0, 1.0]), np.array([0.0, 0.0, 1.0]), np.array([True, False, True]))
        >>> [OUTCOMES[code] for code in outcome_codes(pair, Rule(right_at=1.0))]
        ['broken', 'same', 'changed']
    """
    codes = np.full(len(pair.old), SAME, np.int8)
    dropped, risen = moved(pair, rule.tolerance)
    if rule.right_at is None:
        codes[risen], codes[dropped] = BETTER, WORSE
        return codes
    old_right, new_right = pair.old >= rule.right_at, pair.new >= rule.right_at
    if pair.changed is not None:
        codes[pair.changed & old_right & new_right] = CHANGED
    codes[risen], codes[dropped] = BETTER, WORSE
    codes[new_right & ~old_right] = FIXED
    codes[old_right & ~new_right] = BROKEN
    return codes


def moved(pair: RunPair, tolerance: float) -> tuple[np.ndarray, np.ndarray]:
    """Which rows dropped and which rose by more than the tolerance."""
    difference = pair.new - pair.old
    reach = tolerance + _ROUNDING * max(1.0, tolerance)
    return difference < -reach, difference > reach


@dataclass(frozen=True)
class Shift:
    """The rows that moved one way by more than the tolerance: how many, and by how much on average."""

    rows: float
    mean: float


def shifts(pair: RunPair, tolerance: float) -> tuple[Shift, Shift]:
    """Regressions and gains: the rows beyond the tolerance either way, and their mean size."""
    size = np.abs(pair.new - pair.old)
    return tuple(  # type: ignore[return-value]
        Shift(int(rows.sum()), float(size[rows].mean()) if rows.any() else 0.0) for rows in moved(pair, tolerance)
    )


def run_pairs(
    old: np.ndarray, new: np.ndarray, old_answers: np.ndarray | None, new_answers: np.ndarray | None
) -> Iterator[tuple[RunPair, np.ndarray]]:
    """Every run of the old version beside every run of the new one, with the rows in which both were made.

    `old` and `new` hold one row per item and one column per run, NaN where an item was run less often.
    """
    for first in range(old.shape[1]):
        for second in range(new.shape[1]):
            made = ~(np.isnan(old[:, first]) | np.isnan(new[:, second]))
            changed = None
            if old_answers is not None and new_answers is not None:
                changed = old_answers[:, first] != new_answers[:, second]
            yield RunPair(old[:, first], new[:, second], changed), made


@dataclass(frozen=True)
class Shares:
    """How much of each item's pairs of runs had each outcome.

    `outcomes` has one row per outcome and one column per item. With one run on either side every share is 0 or 1: it
    is then the code of each item's outcome, and sums over items are plain counts.
    """

    outcomes: np.ndarray
    old_right: np.ndarray
    new_right: np.ndarray
    dropped: np.ndarray
    risen: np.ndarray
    changed_answers: np.ndarray | None
    regressions: Shift
    gains: Shift

    def of(self, outcome: str) -> np.ndarray:
        """The share of one outcome, item by item."""
        code = OUTCOMES.index(outcome)
        return (self.outcomes == code).astype(np.float64) if self.outcomes.ndim == 1 else self.outcomes[code]

    def main(self) -> np.ndarray:
        """The outcome that most pairs of runs of each item had, as its code."""
        return self.outcomes if self.outcomes.ndim == 1 else self.outcomes.argmax(axis=0)

    def counts(self) -> dict[str, float]:
        """The number of rows of each outcome; fractions of a row when items were run several times."""
        if self.outcomes.ndim == 1:
            totals = np.bincount(self.outcomes, minlength=len(OUTCOMES)).astype(np.float64)
        else:
            totals = self.outcomes.sum(axis=1)
        return {name: float(totals[OUTCOMES.index(name)]) for name in reversed(OUTCOMES)}
