"""Items that were run several times on either side: which of them regressed, and whether all together did.

An item's rate of right answers is a proportion of its runs. Whether one item regressed is Fisher's exact test on its
runs, corrected by Benjamini and Hochberg because there are many items; whether the update as a whole did is a test in
which old and new runs of the same item change places.
"""

from dataclasses import dataclass

import numpy as np
from scipy import special

from ...stats import benjamini_hochberg

_DRAWS = 4_999
_CELLS = 20_000_000  # numbers drawn at once, and the most that are drawn in all is 25 times that


@dataclass(frozen=True)
class WithinItems:
    """P-values for 'old and new runs of an item are alike': two-sided, and against 'the new ones are worse'."""

    p_value: float
    p_worse: float
    method: str


def fisher_worse(
    old_right: np.ndarray, old_runs: np.ndarray, new_right: np.ndarray, new_runs: np.ndarray
) -> np.ndarray:
    """One-sided exact p per item: with this many right runs in all, how often has the new side so few of them?

    Example:
        >>> fisher_worse(np.array([5]), np.array([5]), np.array([0]), np.array([5])).round(5).tolist()
        [0.00397]
    """
    tables = np.stack([old_right, old_runs, new_right, new_runs], axis=1).astype(np.int64)
    distinct, place = np.unique(tables, axis=0, return_inverse=True)
    return np.array([_fisher(*table) for table in distinct.tolist()])[place.reshape(-1)]


def _fisher(old_right: int, old_runs: int, new_right: int, new_runs: int) -> float:
    chances = hypergeometric(old_right + new_right, old_runs, new_runs)
    return float(min(1.0, chances[: new_right + 1].sum()))


def hypergeometric(right: int, old_runs: int, new_runs: int) -> np.ndarray:
    """The chance that 0, 1, ... of the new runs are right when `right` of all runs are and nothing else is known."""
    new = np.arange(new_runs + 1)
    old = right - new
    possible = (old >= 0) & (old <= old_runs)
    logs = _log_choose(new_runs, new) + _log_choose(old_runs, np.where(possible, old, 0))
    return np.where(possible, np.exp(logs - _log_choose(old_runs + new_runs, right)), 0.0)


def _log_choose(total: int, part: np.ndarray | int) -> np.ndarray:
    return special.gammaln(total + 1) - special.gammaln(part + 1.0) - special.gammaln(total - part + 1.0)


def regressed_items(old: np.ndarray, new: np.ndarray, right_at: float, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Corrected p-values of all items, and which of them are below `level`: items that regressed."""
    counts = (*_right_runs(old, right_at), *_right_runs(new, right_at))
    corrected = benjamini_hochberg(fisher_worse(*counts).tolist())
    return corrected, corrected < level


def _right_runs(scores: np.ndarray, right_at: float) -> tuple[np.ndarray, np.ndarray]:
    return (scores >= right_at).sum(axis=1), (~np.isnan(scores)).sum(axis=1)


def permute_within_items(old: np.ndarray, new: np.ndarray, *, seed: int = 0) -> WithinItems:
    """Whether the mean over items of (new mean - old mean) is further from 0 than runs changing places would bring it.

    Exact for 0/1 scores with the same number of runs in every item, drawn otherwise.
    """
    full = not (np.isnan(old).any() or np.isnan(new).any())
    together = np.concatenate([old, new], axis=1)
    if full and bool(((together == 0) | (together == 1)).all()):
        return _exact(together.sum(axis=1).astype(int), int(new.sum()), old.shape[1], new.shape[1])
    return _drawn(together, old.shape[1], np.random.default_rng(seed))


def _exact(right: np.ndarray, new_right: int, old_runs: int, new_runs: int) -> WithinItems:
    """Items are independent, so the number of right new runs is a sum of hypergeometric numbers: convolve them."""
    size = len(right) * new_runs + 1
    spectrum = np.ones(size // 2 + 1, complex)
    for count, items in zip(*np.unique(right, return_counts=True), strict=True):
        spectrum = spectrum * np.fft.rfft(hypergeometric(int(count), old_runs, new_runs), size) ** items
    chances = np.clip(np.fft.irfft(spectrum, size), 0.0, None)
    expected = right.sum() * new_runs / (old_runs + new_runs)
    sums = np.arange(size)
    far = np.abs(sums - expected) >= abs(new_right - expected) - 1e-9
    worse = chances[: new_right + 1].sum()
    return WithinItems(float(min(1.0, chances[far].sum())), float(min(1.0, worse)), "exact")


def _drawn(together: np.ndarray, old_runs: int, rng: np.random.Generator) -> WithinItems:
    draws = int(np.clip(25 * _CELLS // together.size, 199, _DRAWS))
    observed = _item_gain(together, old_runs)
    sums = np.array([_item_gain(_shuffled(together, rng), old_runs) for _ in range(draws)])
    slack = 1e-9 * max(1.0, abs(observed))
    worse = (np.count_nonzero(sums <= observed + slack) + 1) / (draws + 1)
    far = (np.count_nonzero(np.abs(sums) >= abs(observed) - slack) + 1) / (draws + 1)
    return WithinItems(far, worse, "drawn")


def _shuffled(together: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Runs of an item change places; a run that was not made stays where it is, so that both sides keep their size."""
    made = ~np.isnan(together)
    keys = np.where(made, rng.random(together.shape), np.inf)
    order = np.argsort(keys, axis=1)
    shuffled = np.full_like(together, np.nan)
    slots = np.argsort(~made, axis=1, kind="stable")
    np.put_along_axis(shuffled, slots, np.take_along_axis(together, order, axis=1), axis=1)
    return shuffled


def _item_gain(together: np.ndarray, old_runs: int) -> float:
    return float((np.nanmean(together[:, old_runs:], axis=1) - np.nanmean(together[:, :old_runs], axis=1)).sum())
