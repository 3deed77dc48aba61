"""NFR, PFR and the accuracy gain of traffic, from labels of differing rows alone."""

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from ..stats import Interval, clopper_pearson, lower_bound, non_inferiority, upper_bound
from .sampling import mixture_bounds, sequence_bounds, total_bounds


@dataclass(frozen=True)
class StratumLabels:
    """The labels of one stratum: `differ` rows answered differently, and how many of those labelled are what."""

    name: str
    differ: int
    old: int = 0
    new: int = 0
    neither: int = 0
    unsure: int = 0

    def __post_init__(self) -> None:
        counts = (self.old, self.new, self.neither, self.unsure)
        if min(counts) < 0 or sum(counts) > self.differ:
            raise ValueError(
                f"The stratum {self.name!r} has {sum(counts)} labels {counts} of {self.differ} differing rows, "
                "expected counts that are not negative and sum to at most the differing rows."
            )

    @property
    def labelled(self) -> int:
        return self.old + self.new + self.neither + self.unsure


@dataclass(frozen=True)
class Estimate:
    """A rate of the traffic: its value, a two-sided interval, and the one-sided bounds at the same confidence."""

    value: float
    interval: Interval
    lower: float
    upper: float


@dataclass(frozen=True)
class TrafficLabels:
    """The counts from which everything is computed: rows of the traffic, and labels per stratum.

    A label "unsure" may be anything: it counts as the worst case on either side of every interval. `sequential` says
    that someone looked after every label; bounds then hold at any time. `future` asks for rates of future traffic
    from the same source instead of those of these very rows.
    """

    rows: int
    strata: tuple[StratumLabels, ...]
    confidence: float = 0.95
    future: bool = False
    sequential: bool = False

    def __post_init__(self) -> None:
        if self.differ > self.rows:
            raise ValueError(f"{self.differ} of {self.rows} rows differ, expected at most all of them.")
        if self.sequential and len(self.strata) > 1:
            raise ValueError(
                f"A verdict after every label needs a uniform plan, but these labels come from {len(self.strata)} "
                "strata. Make the plan with --strategy uniform."
            )
        if self.differ and not self.labelled:
            raise ValueError("No row is labelled yet, expected at least one label.")
        if not self.sequential and any(not stratum.labelled for stratum in self.strata):
            empty = [stratum.name for stratum in self.strata if not stratum.labelled]
            raise ValueError(f"{len(empty)} strata have no label yet: {', '.join(empty[:5])}. Label on.")

    @property
    def differ(self) -> int:
        return sum(stratum.differ for stratum in self.strata)

    @property
    def labelled(self) -> int:
        return sum(stratum.labelled for stratum in self.strata)

    @property
    def decided(self) -> int:
        """The labels that say who is right."""
        return self.labelled - sum(stratum.unsure for stratum in self.strata)

    @property
    def churn(self) -> float:
        return self.differ / self.rows

    def _count(self, side: str, unsure: bool = False) -> np.ndarray:
        """The labels of one kind in each stratum, with those that may be of this kind."""
        return np.array([getattr(s, side) + (s.unsure if unsure else 0) for s in self.strata], dtype=float)

    def share(self, side: str) -> float:
        """Of the differing rows, how many have this side right: each stratum counts by its size."""
        sure = self._count("old") + self._count("new") + self._count("neither")
        sizes = np.array([stratum.differ for stratum in self.strata], dtype=float)
        known = sure > 0
        if not known.any():
            return 0.0
        return float(sizes[known] @ (self._count(side)[known] / sure[known]) / sizes[known].sum())

    def rate(self, side: str) -> Estimate:
        """NFR for side "old", PFR for side "new"."""
        if not self.differ:
            nothing = upper_bound(0, self.rows, self.confidence) if self.future else 0.0
            return Estimate(0.0, Interval(0.0, nothing, self.confidence), 0.0, nothing)
        tail = 1 - self.confidence
        low, high = self._bound(side, tail / 2, False), self._bound(side, tail / 2, True)
        if self.sequential:  # both sides share one error, whoever looks at one of them only
            return Estimate(self.churn * self.share(side), Interval(low, high, self.confidence), low, high)
        one_sided = self._bound(side, tail, False), self._bound(side, tail, True)
        return Estimate(self.churn * self.share(side), Interval(low, high, self.confidence), *one_sided)

    def _bound(self, side: str, tail: float, above: bool) -> float:
        """One end of the interval of a rate; `tail` is the chance that the truth lies beyond it."""
        if not self.future:
            return self._share_bound(side, tail, above) * self.churn
        churn = upper_bound if above else lower_bound
        return self._share_bound(side, tail / 2, above) * churn(self.differ, self.rows, 1 - tail / 2)

    def _share_bound(self, side: str, tail: float, above: bool) -> float:
        """The same for the share of the differing rows."""
        counts, labels = self._count(side, unsure=above), self._labels()
        if len(self.strata) > 1:
            return self._stratified_bound(counts, tail, above)
        count, labelled = int(counts[0]), int(labels[0])
        if self.sequential:
            error = 2 * tail  # a confidence sequence has one error for both ends
            if self.future:
                return mixture_bounds(count, labelled, error)[above]
            return sequence_bounds(count, labelled, self.differ, error)[above] / self.differ
        if self.future:
            return (upper_bound if above else lower_bound)(count, labelled, 1 - tail)
        return total_bounds(count, labelled, self.differ, tail)[above] / self.differ

    def _labels(self) -> np.ndarray:
        return np.array([stratum.labelled for stratum in self.strata], dtype=float)

    def _stratified_bound(self, counts: np.ndarray, tail: float, above: bool) -> float:
        sizes = np.array([stratum.differ for stratum in self.strata], dtype=float)
        share = float(sizes @ (counts / self._labels()) / sizes.sum())
        rows = self._effective_labels(counts, np.zeros_like(counts), 1 - tail)
        if math.isinf(rows):
            return share
        return (upper_bound if above else lower_bound)(share * rows, rows, 1 - tail)

    def _effective_labels(self, plus: np.ndarray, minus: np.ndarray, level: float) -> float:
        """How many labels of a uniform sample tell as much as these about the mean of (plus - minus)."""
        sizes, labels = np.array([s.differ for s in self.strata], dtype=float), self._labels()
        weights = sizes / sizes.sum()
        finite = np.zeros_like(sizes) if self.future else labels / sizes
        if (finite == 1).all():
            return math.inf  # every differing row is labelled
        least = 1 / float((weights / labels).max())
        # a stratum whose few labels agree is not free of spread: one more label as in all strata together
        up, down = (float(weights @ (counts / labels)) for counts in (plus, minus))
        more, less = (plus + up) / (labels + 1), (minus + down) / (labels + 1)
        spread = more + less - (more - less) ** 2
        variance = float((weights**2 * (1 - finite) * spread / labels).sum())
        pooled = up + down - (up - down) ** 2
        if pooled <= 0 or variance <= 0:
            return least
        degrees = max(float(labels.sum()) - len(labels), 1.0)
        doubt = float(special.ndtri(level) / special.stdtrit(degrees, level)) ** 2
        return max(pooled / variance * doubt, least)

    def gain(self) -> Estimate:
        """New minus old accuracy on the traffic."""
        value = self.churn * (self.share("new") - self.share("old"))
        if not self.differ:
            rate = self.rate("old")
            return Estimate(0.0, Interval(-rate.upper, rate.upper, self.confidence), -rate.upper, rate.upper)
        if self.sequential:
            halved = TrafficLabels(self.rows, self.strata, (1 + self.confidence) / 2, self.future, True)
            old, new = halved.rate("old").interval, halved.rate("new").interval
            low, high = new.low - old.high, new.high - old.low
            return Estimate(value, Interval(low, high, self.confidence), low, high)
        tail = 1 - self.confidence
        ends = [self._gain_bound(part, above) for part in (tail / 2, tail) for above in (False, True)]
        return Estimate(value, Interval(ends[0], ends[1], self.confidence), ends[2], ends[3])

    def _gain_bound(self, tail: float, above: bool) -> float:
        """One end of the interval of the gain; the other end is the same question with the models swapped."""
        better, worse = ("old", "new") if above else ("new", "old")
        plus, minus = self._count(better), self._count(worse, unsure=True)
        part = tail / 2 if self.future else tail
        if len(self.strata) > 1:
            rows = self._effective_labels(plus, minus, 1 - part)
        else:
            labelled = float(self.labelled)
            left = self.differ - labelled
            rows = labelled if self.future else labelled * (self.differ - 1) / left if left else math.inf
        labels, sizes = self._labels(), np.array([s.differ for s in self.strata], dtype=float)
        up, down = (float(sizes @ (counts / labels) / sizes.sum()) for counts in (plus, minus))
        if math.isinf(rows):
            bound = up - down
        else:
            bound = non_inferiority(down * rows, up * rows, rows, 0.0, 1 - part).lower_bound
        churn = self.churn
        if self.future:  # a loss is largest where churn is, a gain smallest where it is not
            ends = clopper_pearson(self.differ, self.rows, 1 - 2 * part)
            churn = ends.high if bound < 0 else ends.low
        return -bound * churn if above else bound * churn

    def random_labels(self) -> int:
        """How many labels of random rows of the traffic would give an NFR interval as narrow as this one."""
        estimate = self.rate("old")
        width = estimate.interval.high - estimate.interval.low
        share = (estimate.interval.low + estimate.interval.high) / 2 if not estimate.value else estimate.value
        if width <= 0:
            return self.rows
        low, high = 1, 2
        while _width(share, high, self.confidence) > width and high < 10**9:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if _width(share, middle, self.confidence) > width else (low, middle)
        return high if self.future else math.ceil(high / (1 + (high - 1) / self.rows))


def _width(share: float, labels: int, confidence: float) -> float:
    interval = clopper_pearson(share * labels, labels, confidence)
    return interval.high - interval.low
