"""Rates, tests and margins for rows that belong together: the utterances of a user, the sentences of a document."""

from dataclasses import dataclass

import numpy as np

from ...core.errors import NotComparableError
from .accuracy import NonInferiority, accuracy_gain_interval, non_inferiority
from .binomial import Interval
from .effective import Rate, effective_rows, rate_of
from .paired import Alternative, McNemar, sign_flip

MIN_CLUSTERS = 10


@dataclass(frozen=True)
class Clusters:
    """Which cluster each row belongs to (`codes`, from 0), and how many rows each cluster has (`sizes`)."""

    codes: np.ndarray
    sizes: np.ndarray

    @classmethod
    def of(cls, column: np.ndarray, name: str = "cluster") -> "Clusters":
        """The clusters of a column; refuses fewer than 10, of which no interval with a meaning can be made."""
        codes, sizes = cluster_codes(column)
        if len(sizes) < MIN_CLUSTERS:
            raise NotComparableError(
                f"The column {name!r} has {len(sizes)} different values in {len(codes)} rows, expected at least "
                f"{MIN_CLUSTERS} clusters: how much fewer differ from each other cannot be estimated. Compare on data "
                "of more of them, or without a cluster column (--cluster) if the rows are independent."
            )
        return cls(codes, sizes)

    def sums(self, values: np.ndarray) -> np.ndarray:
        """The sum of `values`, one per row, in each cluster."""
        return np.bincount(self.codes, weights=values, minlength=len(self.sizes))

    def rate(self, values: np.ndarray, confidence: float) -> Rate:
        """The mean of `values` (0 or 1 per row) with bounds by cluster."""
        return rate_of(self.sizes, self.sums(values), len(self.codes), confidence)


def cluster_codes(column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Codes and sizes of a column's values; missing values are one cluster, as any other value."""
    values = np.asarray(column)
    if values.dtype == object:  # mixed types do not sort; None and numbers are distinguished by their text
        values = np.array([f"{type(value).__name__}:{value}" for value in values.tolist()])
    _, codes, sizes = np.unique(values, return_inverse=True, return_counts=True)
    return codes.reshape(-1), sizes.astype(np.float64)


def clustered_mcnemar(broken: np.ndarray, fixed: np.ndarray, alternative: Alternative = "two-sided") -> McNemar:
    """Does the new model break more than it fixes? `broken` and `fixed` hold the number of rows in each cluster."""
    return sign_flip(np.asarray(broken) - np.asarray(fixed), alternative)


def gain_rows(sizes: np.ndarray, broken: np.ndarray, fixed: np.ndarray, level: float) -> float:
    """How many independent rows the accuracy gain of these clusters amounts to, at a one-sided level."""
    rows = float(sizes.sum())
    gain = (fixed.sum() - broken.sum()) / rows
    variance = (fixed.sum() + broken.sum()) / rows - gain**2
    return effective_rows(sizes, fixed - broken, float(variance), rows, level)


def clustered_gain(sizes: np.ndarray, broken: np.ndarray, fixed: np.ndarray, confidence: float) -> Interval:
    """Tango's interval for new minus old accuracy, on the number of rows that the clusters amount to."""
    effective = gain_rows(sizes, broken, fixed, (1 + confidence) / 2)
    share = effective / float(sizes.sum())
    return accuracy_gain_interval(share * broken.sum(), share * fixed.sum(), effective, confidence)


def clustered_non_inferiority(
    sizes: np.ndarray, broken: np.ndarray, fixed: np.ndarray, margin: float, confidence: float
) -> NonInferiority:
    """Is accuracy kept up to `margin`? Tango's test on the number of rows that the clusters amount to."""
    effective = gain_rows(sizes, broken, fixed, confidence)
    share = effective / float(sizes.sum())
    return non_inferiority(share * broken.sum(), share * fixed.sum(), effective, margin, confidence)
