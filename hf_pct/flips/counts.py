"""The flips between two models on the same rows: every rate, and every edge case decided once.

A row is one of five things. Both models are right; the new one breaks it (a negative flip); the new one fixes it (a
positive flip); both are wrong with the same answer; both are wrong with different answers. All rates follow from these
five numbers. Definitions: Yan et al., CVPR 2021 (NFR, relative NFR), Cai et al. 2022 (NFI), Srivastava et al. 2020
(BTC, BEC), Dutta et al., NeurIPS 2024 (flips, all flips), Echterhoff et al. 2024 (NFR for multiple choice).
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..core.moved import renamed
from .tables.columns import check_same_kind, check_same_length, label_column, weight_column

Amount = int | float  # rows, or their weight

# Rows compared at a time: the three masks of a block stay in the processor's cache, so that ten million rows need no
# more memory than sixty thousand, and the counting costs almost nothing beside the comparing.
_BLOCK = 1 << 16


@dataclass(frozen=True)
class FlipCounts:
    """How many rows (or how much weight) each of the five outcomes has, and every rate that follows.

    Rates are fractions. Where a rate divides by something that may be zero, its docstring says what it is then; a
    comparison without rows has every rate 0 and nothing broken.

    Example:
        >>> from hf_pct import FlipCounts
        >>> counts = FlipCounts(
        ...     both_right=90, negative_flips=2, positive_flips=5, both_wrong_same=3, both_wrong_different=0
        ... )
        >>> counts.nfr, counts.old_accuracy, counts.new_accuracy
        (0.02, 0.92, 0.95)
    """

    both_right: Amount
    negative_flips: Amount
    positive_flips: Amount
    both_wrong_same: Amount
    both_wrong_different: Amount

    def __post_init__(self) -> None:
        negative = {name: count for name, count in asdict(self).items() if not count >= 0}
        if negative:
            raise ValueError(f"Counts cannot be negative or NaN, got {negative}.")

    def __add__(self, other: "FlipCounts") -> "FlipCounts":
        """The counts of two disjoint sets of rows together."""
        return FlipCounts(*(mine + theirs for mine, theirs in zip(self._cells(), other._cells(), strict=True)))

    def _cells(self) -> tuple[float, ...]:
        return tuple(asdict(self).values())

    def _share(self, count: float) -> float:
        return count / self.total if self.total else 0.0

    @property
    def total(self) -> float:
        """Rows compared, or their total weight."""
        return sum(self._cells())

    @property
    def both_wrong(self) -> float:
        """Rows that neither model gets right."""
        return self.both_wrong_same + self.both_wrong_different

    @property
    def nfr(self) -> float:
        """Negative flip rate: the share of all rows that the old model got right and the new one gets wrong."""
        return self._share(self.negative_flips)

    @property
    def pfr(self) -> float:
        """Positive flip rate: the share of all rows that the old model got wrong and the new one gets right."""
        return self._share(self.positive_flips)

    @property
    def old_accuracy(self) -> float:
        return self._share(self.both_right + self.negative_flips)

    @property
    def new_accuracy(self) -> float:
        return self._share(self.both_right + self.positive_flips)

    @property
    def accuracy_gain(self) -> float:
        """New accuracy minus old accuracy, which is PFR - NFR."""
        return self._share(self.positive_flips - self.negative_flips)

    @property
    def old_error_rate(self) -> float:
        return self._share(self.positive_flips + self.both_wrong)

    @property
    def new_error_rate(self) -> float:
        return self._share(self.negative_flips + self.both_wrong)

    @property
    def relative_nfr(self) -> float:
        """NFR over what independent models would show (Yan et al., eq. 11); 1 means no better than independent.

        0.0 when the old model is never right or the new never wrong: nothing could be broken.
        """
        expected = self.old_accuracy * self.new_error_rate
        return self.nfr / expected if expected else 0.0

    @property
    def nfi(self) -> float:
        """Negative flip impact: the share of the new model's errors that are new; 0.0 when it makes none."""
        return self.nfr / self.new_error_rate if self.new_error_rate else 0.0

    @property
    def btc(self) -> float:
        """Backward trust compatibility: the share of what the old model got right that is kept; 1.0 if nothing was."""
        return 1.0 - self.nfr / self.old_accuracy if self.old_accuracy else 1.0

    @property
    def bec(self) -> float:
        """Backward error compatibility: the share of new errors that are old ones; 1.0 when there are none."""
        return 1.0 - self.nfi

    @property
    def flip_rate(self) -> float:
        """NFR + PFR: the share of rows whose correctness changed."""
        return self._share(self.negative_flips + self.positive_flips)

    @property
    def all_flips(self) -> float:
        """Flips plus the rows that are wrong in another way than before; with one label per row this is the churn."""
        return self._share(self.negative_flips + self.positive_flips + self.both_wrong_different)

    @property
    def churn(self) -> float:
        """The share of rows on which the two models answer differently."""
        return self.all_flips

    @property
    def nfr_mc(self) -> float:
        """The share of rows with a wrong new answer that differs from the old one, whether or not that was right."""
        return self._share(self.negative_flips + self.both_wrong_different)

    def rates(self) -> dict[str, float]:
        """Every rate by name, for reports and trackers."""
        return {name: getattr(self, name) for name in RATES}

    def to_dict(self) -> dict[str, float]:
        """Counts, total and rates in one flat dict."""
        return {**asdict(self), "total": self.total, **self.rates()}

    as_dict = renamed("as_dict", to_dict)


RATES = (
    "nfr",
    "pfr",
    "relative_nfr",
    "old_accuracy",
    "new_accuracy",
    "accuracy_gain",
    "old_error_rate",
    "new_error_rate",
    "nfi",
    "btc",
    "bec",
    "flip_rate",
    "all_flips",
    "churn",
    "nfr_mc",
)


def count_flips(
    old_predictions: object, new_predictions: object, references: object, sample_weight: object = None
) -> FlipCounts:
    """Count the flips between two models' answers to the same rows, in the same order.

    Args:
        old_predictions: the old model's answer to each row: class indices or class names, as a list, a NumPy array, a
            torch tensor, a pandas series, an Arrow or a `datasets` column.
        new_predictions: the new model's answers, of the same kind.
        references: the right answers, of the same kind.
        sample_weight: how much each row counts (its traffic, its severity). The counts are then sums of weights.

    Example:
        >>> from hf_pct import count_flips
        >>> counts = count_flips(old_predictions=[0, 1, 1, 0], new_predictions=[0, 1, 0, 1], references=[0, 1, 1, 1])
        >>> counts.nfr, counts.pfr
        (0.25, 0.25)
    """
    columns = {
        "old_predictions": label_column(old_predictions, "old_predictions"),
        "new_predictions": label_column(new_predictions, "new_predictions"),
        "references": label_column(references, "references"),
    }
    length = check_same_length(columns)
    check_same_kind(columns)
    weights = None if sample_weight is None else weight_column(sample_weight, length)
    return _count(columns["old_predictions"], columns["new_predictions"], columns["references"], weights)


def _count(old: np.ndarray, new: np.ndarray, truth: np.ndarray, weights: np.ndarray | None) -> FlipCounts:
    old_right: Any = 0
    new_right: Any = 0
    both_right: Any = 0
    same_answer: Any = 0
    total: Any = 0
    for start in range(0, len(truth), _BLOCK):
        block = slice(start, start + _BLOCK)
        old_mask = old[block] == truth[block]
        new_mask = new[block] == truth[block]
        same_mask = old[block] == new[block]
        weigh = np.count_nonzero if weights is None else weights[block].__matmul__
        total += len(old_mask) if weights is None else weights[block].sum()
        old_right += weigh(old_mask)
        new_right += weigh(new_mask)
        same_answer += weigh(same_mask)
        both_right += weigh(np.logical_and(old_mask, new_mask, out=old_mask))
    # Two right answers are the same answer, so what is the same beyond them is the same mistake.
    cells = (
        both_right,
        old_right - both_right,
        new_right - both_right,
        same_answer - both_right,
        total - old_right - new_right - same_answer + 2 * both_right,
    )
    # Differences of float sums may end a rounding error below zero; whole counts cannot.
    return FlipCounts(*(int(cell) if weights is None else max(float(cell), 0.0) for cell in cells))
