"""How sure the flips of one comparison are: every interval, bound and test of a report, by row or by cluster."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .counts import FlipCounts
from .report import NoiseFloor, WeightedFlips
from .stats import (
    Clusters,
    Interval,
    McNemar,
    NonInferiority,
    accuracy_gain_interval,
    clopper_pearson,
    clustered_gain,
    clustered_mcnemar,
    clustered_non_inferiority,
    effective_size,
    gain_rows,
    mcnemar,
    non_inferiority,
    paired_bootstrap,
    rate_of,
    upper_bound,
)


@dataclass(frozen=True)
class Evidence:
    """Which rows each model got right, how many there are of each kind, and which rows belong together."""

    counts: FlipCounts
    old_right: np.ndarray
    new_right: np.ndarray
    clusters: Clusters | None
    confidence: float

    @cached_property
    def broken(self) -> np.ndarray:
        return self.old_right & ~self.new_right

    @cached_property
    def fixed(self) -> np.ndarray:
        return self.new_right & ~self.old_right

    @cached_property
    def _by_cluster(self) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Rows, broken rows and fixed rows of each cluster."""
        if self.clusters is None:
            return None
        return self.clusters.sizes, self.clusters.sums(self.broken), self.clusters.sums(self.fixed)

    def _rate(self, values: np.ndarray) -> Interval:
        if self.clusters is None:
            return clopper_pearson(int(values.sum()), len(values), self.confidence)
        return self.clusters.rate(values, self.confidence).interval

    def intervals(self) -> dict[str, Interval]:
        """The two-sided intervals of the rates that a report shows."""
        rows = {"nfr": self.broken, "pfr": self.fixed, "old_accuracy": self.old_right, "new_accuracy": self.new_right}
        intervals = {name: self._rate(values) for name, values in rows.items()}
        if self._by_cluster is None:
            gain = accuracy_gain_interval(*self._flips, int(self.counts.total), self.confidence)
        else:
            gain = clustered_gain(*self._by_cluster, self.confidence)
        return intervals | {"accuracy_gain": gain}

    @property
    def _flips(self) -> tuple[int, int]:
        return int(self.counts.negative_flips), int(self.counts.positive_flips)

    def nfr_upper(self) -> float:
        """The one-sided bound on NFR."""
        if self.clusters is None:
            return upper_bound(self.counts.negative_flips, self.counts.total, self.confidence)
        return self.clusters.rate(self.broken, self.confidence).upper

    def mcnemar(self) -> McNemar:
        """Does the new model break as many rows as it fixes?"""
        return mcnemar(*self._flips) if self._by_cluster is None else clustered_mcnemar(*self._by_cluster[1:])

    def non_inferiority(self, margin: float) -> NonInferiority:
        """Is accuracy kept up to `margin`?"""
        if self._by_cluster is None:
            return non_inferiority(*self._flips, int(self.counts.total), margin, self.confidence)
        return clustered_non_inferiority(*self._by_cluster, margin, self.confidence)

    def effective_rows(self) -> dict[str, float]:
        """How many independent rows stand behind the one-sided bounds; empty when every row is independent."""
        if self.clusters is None or self._by_cluster is None:
            return {}
        return {
            "nfr_upper": self.clusters.rate(self.broken, self.confidence).upper_rows,
            "non_inferiority": gain_rows(*self._by_cluster, self.confidence),
        }

    def noise_floor(self, floor: np.ndarray) -> NoiseFloor:
        """What a second run of the old recipe breaks (`floor`), and how much the new model breaks beyond it."""
        groups = None if self.clusters is None else self.clusters.codes
        beyond = paired_bootstrap(self.broken, floor, groups, confidence=self.confidence)
        return NoiseFloor(
            nfr=float(floor.mean()),
            interval=self._rate(floor),
            excess_nfr=beyond.estimate,
            excess_interval=beyond.interval,
            p_value=beyond.p_value,
        )

    def weighted(self, column: str, weights: np.ndarray, counts: FlipCounts) -> tuple[WeightedFlips, list[str]]:
        """The flips with every row weighted, and what a reader must know about the interval."""
        row_size = effective_size(weights)
        if self.clusters is None:
            sizes, sums = weights, weights * self.broken
        else:
            sizes, sums = self.clusters.sums(weights), self.clusters.sums(weights * self.broken)
        rate = rate_of(sizes[sizes > 0], sums[sizes > 0], row_size, self.confidence, power=2)
        notes = []
        if rate.interval_rows < 0.9 * row_size:
            notes.append(
                f"The NFR weighted by {column} is as uncertain as that of {rate.interval_rows:,.0f} equal rows, not "
                f"of the {row_size:,.0f} that its weights alone amount to: few or heavy rows decide it, and its "
                "interval is widened accordingly."
            )
        return WeightedFlips(column, counts, rate.interval_rows, rate.interval), notes
