"""Flips by class and by slice, with the p-values corrected for having looked at many."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .stats import CORRECTIONS, Clusters, Rate, clopper_pearson, clustered_mcnemar, mcnemar, rate_of, upper_bound


@dataclass(frozen=True)
class GroupFlips:
    """The flips among the rows of one class or one slice.

    `p_value` tests that the new model breaks as many rows of the group as it fixes, `p_corrected` is the same
    corrected for the number of groups. `p_worse` is one-sided and corrected: small only if the group breaks more than
    it fixes, so a group is marked as regressed by it. `nfr_upper` is the one-sided bound on the group's NFR. Where
    rows belong together all of these are by cluster, and `effective_rows` is the number of independent rows behind
    `nfr_upper`.
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
    p_worse: float | None = None  # None in reports of versions before this test
    effective_rows: float | None = None  # None where rows are independent

    def regressed(self, level: float = 0.05) -> bool:
        """Whether the group breaks more than it fixes, at this level after the correction for many groups."""
        if self.p_worse is None:
            return self.negative_flips > self.positive_flips and self.p_corrected < level
        return self.p_worse < level

    def improved(self, level: float = 0.05) -> bool:
        """Whether the group fixes more than it breaks, at this level after the correction for many groups."""
        return self.positive_flips > self.negative_flips and self.p_corrected < level


@dataclass(frozen=True)
class _Tests:
    """One group's two-sided and one-sided p-value, and its rate when rows belong together."""

    two_sided: float
    worse: float
    rate: Rate | None = None


def group_flips(
    groups: np.ndarray,
    names: Sequence[str],
    old_right: np.ndarray,
    new_right: np.ndarray,
    *,
    confidence: float,
    correction: str,
    clusters: Clusters | None = None,
) -> list[GroupFlips]:
    """One entry for each group that has rows, the most negative flips first. `groups` holds codes of `names`."""
    size = len(names)
    # one pass: the group and the two outcomes make one of 4 x groups cells
    outcome = (groups * 4 + old_right.view(np.uint8) * 2).astype(np.int64, copy=False)
    outcome += new_right.view(np.uint8)
    cells = np.bincount(outcome, minlength=4 * size).reshape(size, 4)
    present = np.flatnonzero(cells.sum(1))
    if clusters is None:
        tests = [_row_tests(int(broken), int(fixed)) for _, fixed, broken, _ in cells[present]]
    else:
        tests = _cluster_tests(groups, clusters, old_right & ~new_right, new_right & ~old_right, confidence)
    corrected = CORRECTIONS[correction]([test.two_sided for test in tests]).tolist()
    worse = CORRECTIONS[correction]([test.worse for test in tests]).tolist()
    entries = [
        _entry(names[code], cells[code].tolist(), test, confidence, (p_corrected, p_worse))
        for code, test, p_corrected, p_worse in zip(present.tolist(), tests, corrected, worse, strict=True)
    ]
    return sorted(entries, key=lambda group: (-group.negative_flips, -group.nfr, group.name))


def _row_tests(broken: int, fixed: int) -> _Tests:
    return _Tests(mcnemar(broken, fixed).exact, mcnemar(broken, fixed, "worse").exact)


def _cluster_tests(
    groups: np.ndarray, clusters: Clusters, broken: np.ndarray, fixed: np.ndarray, confidence: float
) -> list[_Tests]:
    """The tests of every group that has rows, in the order of their codes: each group's own part of each cluster."""
    count = len(clusters.sizes)
    parts, part_of_row = np.unique(groups.astype(np.int64) * count + clusters.codes, return_inverse=True)
    sizes, lost, won = (
        np.bincount(part_of_row, weights=values, minlength=len(parts)) for values in (None, broken, fixed)
    )
    starts = np.unique(parts // count, return_index=True)[1]
    tests = []
    for own in (slice(*ends) for ends in zip(starts, [*starts[1:], len(parts)], strict=True)):
        rate = rate_of(sizes[own], lost[own], float(sizes[own].sum()), confidence)
        two_sided, worse = (clustered_mcnemar(lost[own], won[own], side).exact for side in ("two-sided", "worse"))
        tests.append(_Tests(two_sided, worse, rate))
    return tests


def _entry(
    name: str, cells: Sequence[int], test: _Tests, confidence: float, corrected: tuple[float, float]
) -> GroupFlips:
    _, fixed, broken, both_right = cells
    rows, rate = sum(cells), test.rate
    interval = rate.interval if rate else clopper_pearson(broken, rows, confidence)
    return GroupFlips(
        name=name,
        rows=rows,
        old_accuracy=(both_right + broken) / rows,
        new_accuracy=(both_right + fixed) / rows,
        negative_flips=broken,
        positive_flips=fixed,
        nfr=broken / rows,
        nfr_low=interval.low,
        nfr_high=interval.high,
        nfr_upper=rate.upper if rate else upper_bound(broken, rows, confidence),
        p_value=test.two_sided,
        p_corrected=corrected[0],
        p_worse=corrected[1],
        effective_rows=rate.upper_rows if rate else None,
    )
