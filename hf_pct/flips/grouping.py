"""Flips by class and by slice, with the p-values corrected for having looked at many."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .stats import CORRECTIONS, clopper_pearson, mcnemar, upper_bound


@dataclass(frozen=True)
class GroupFlips:
    """The flips among the rows of one class or one slice.

    `p_value` is the exact McNemar test that the new model breaks as many rows of the group as it fixes;
    `p_corrected` the same, corrected for the number of groups; `nfr_upper` the one-sided bound on the group's NFR.
    """

    name: str
    rows: int
    old_accuracy: float
    new_accuracy: float
    negative_flips: int
    positive_flips: int
    nfr: float
    nfr_low: float
    nfr_high: float
    nfr_upper: float
    p_value: float
    p_corrected: float


def group_flips(
    groups: np.ndarray,
    names: Sequence[str],
    old_right: np.ndarray,
    new_right: np.ndarray,
    *,
    confidence: float,
    correction: str,
) -> list[GroupFlips]:
    """One entry for each group that has rows, the most negative flips first. `groups` holds codes of `names`."""
    size = len(names)
    # one pass: the group and the two outcomes make one of 4 x groups cells
    outcome = (groups * 4 + old_right.view(np.uint8) * 2).astype(np.int64, copy=False)
    outcome += new_right.view(np.uint8)
    both_wrong, fixed, broken, both_right = np.bincount(outcome, minlength=4 * size).reshape(size, 4).T
    rows = both_wrong + fixed + broken + both_right
    present = np.flatnonzero(rows)
    p_values = [mcnemar(int(broken[code]), int(fixed[code])).exact for code in present]
    corrected = CORRECTIONS[correction](p_values)
    found = []
    for code, p_value, p_corrected in zip(present.tolist(), p_values, corrected.tolist(), strict=True):
        total, negative, positive = int(rows[code]), int(broken[code]), int(fixed[code])
        interval = clopper_pearson(negative, total, confidence)
        found.append(
            GroupFlips(
                name=names[code],
                rows=total,
                old_accuracy=(int(both_right[code]) + negative) / total,
                new_accuracy=(int(both_right[code]) + positive) / total,
                negative_flips=negative,
                positive_flips=positive,
                nfr=negative / total,
                nfr_low=interval.low,
                nfr_high=interval.high,
                nfr_upper=upper_bound(negative, total, confidence),
                p_value=p_value,
                p_corrected=p_corrected,
            )
        )
    return sorted(found, key=lambda group: (-group.negative_flips, -group.nfr, group.name))
