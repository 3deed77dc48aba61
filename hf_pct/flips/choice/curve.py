"""Accuracy and flips along alpha: what a sweep measured, row by row, and the numbers people read from it.

NumPy only. A row is one development sample; rows of classes that the old model did not have are counted in accuracy
but can never be flips, because the old model was never right on them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..stats import accuracy_gain_interval, clopper_pearson


@dataclass(frozen=True)
class AlphaCurve:
    """`correct[i, j]`: whether the model at `alphas[i]` is right on row j. The first alpha is 0, the new model.

    `margins`, if known, say how far each row is from another answer; an alpha without them is a row of NaN.

    Example:
        >>> from hf_pct.merging import AlphaCurve
        >>> curve = AlphaCurve.of([True, True, False], {0.0: [True, False, True], 0.5: [True, True, True]})
        >>> curve.nfr.tolist()
        [0.3333333333333333, 0.0]
    """

    alphas: np.ndarray
    old_correct: np.ndarray
    correct: np.ndarray
    margins: np.ndarray | None = None

    @classmethod
    def of(
        cls,
        old_correct: Sequence[bool] | np.ndarray,
        correct: Mapping[float, Sequence[bool] | np.ndarray],
        margins: Mapping[float, np.ndarray] | None = None,
    ) -> AlphaCurve:
        """From the correctness of the old model and of each alpha, over the same rows in the same order."""
        old = np.asarray(old_correct, dtype=bool)
        problems = []
        if old.ndim != 1 or not len(old):
            problems.append(f"the old model's correctness has shape {old.shape}, expected one entry per row")
        rows = {alpha: np.asarray(values, dtype=bool) for alpha, values in correct.items()}
        problems += [
            f"alpha {a}: {v.shape} entries, expected {old.shape}" for a, v in rows.items() if v.shape != old.shape
        ]
        problems += [f"alpha {alpha} is outside [0, 1]" for alpha in rows if not 0 <= alpha <= 1]
        if 0.0 not in rows:
            problems.append(f"alpha 0, the new model, is missing from {sorted(rows)}")
        if problems:
            raise ValueError("These rows make no curve: " + "; ".join(problems))
        alphas = np.array(sorted(rows), dtype=float)
        stacked = np.stack([rows[alpha] for alpha in sorted(rows)])
        if not margins:
            return cls(alphas, old, stacked)
        unknown = np.full(len(old), np.nan)
        return cls(alphas, old, stacked, np.stack([margins.get(alpha, unknown) for alpha in sorted(rows)]))

    @property
    def new_correct(self) -> np.ndarray:
        return self.correct[0]

    @property
    def new_margins(self) -> np.ndarray | None:
        return None if self.margins is None else self.margins[0]

    @property
    def total(self) -> int:
        return len(self.old_correct)

    @property
    def negative_flips(self) -> np.ndarray:
        return (self.old_correct & ~self.correct).sum(1)

    @property
    def positive_flips(self) -> np.ndarray:
        return (~self.old_correct & self.correct).sum(1)

    @property
    def accuracy(self) -> np.ndarray:
        return self.correct.mean(1)

    @property
    def nfr(self) -> np.ndarray:
        return self.negative_flips / self.total

    def rows(self, index: np.ndarray) -> AlphaCurve:
        """The same curve on some of the rows."""
        margins = None if self.margins is None else self.margins[:, index]
        return AlphaCurve(self.alphas, self.old_correct[index], self.correct[:, index], margins)

    def at(self, alphas: Sequence[float]) -> AlphaCurve:
        """The same curve at those of its alphas alone."""
        keep = [i for i, alpha in enumerate(self.alphas) if np.isclose(alphas, alpha).any()]
        margins = None if self.margins is None else self.margins[keep]
        return AlphaCurve(self.alphas[keep], self.old_correct, self.correct[keep], margins)

    def with_alphas(self, other: AlphaCurve) -> AlphaCurve:
        """This curve and what another one of the same rows has at further alphas."""
        right: dict[float, np.ndarray] = {}
        margins: dict[float, np.ndarray] = {}
        for curve in (other, self):
            right |= dict(zip(curve.alphas.tolist(), curve.correct, strict=True))
            if curve.margins is not None:
                margins |= dict(zip(curve.alphas.tolist(), curve.margins, strict=True))
        return AlphaCurve.of(self.old_correct, right, margins)

    def index(self, alpha: float) -> int:
        return int(np.argmin(np.abs(self.alphas - alpha)))

    @property
    def barrier(self) -> float:
        """How far accuracy at the middle alpha falls below the line between both ends; large: not the same basin."""
        middle = self.index(0.5)
        alpha = float(self.alphas[middle])
        return float(alpha * self.old_correct.mean() + (1 - alpha) * self.accuracy[0] - self.accuracy[middle])

    def table(self, confidence: float = 0.95) -> list[dict[str, float]]:
        """One dict per alpha: accuracy, NFR, PFR with exact intervals, and the gain over the old model."""
        table = []
        for i, alpha in enumerate(self.alphas):
            right, negative, positive = int(self.correct[i].sum()), self.negative_flips[i], self.positive_flips[i]
            row: dict[str, float] = {"alpha": float(alpha), "total": self.total}
            for name, count in (("accuracy", right), ("nfr", int(negative)), ("pfr", int(positive))):
                interval = clopper_pearson(count, self.total, confidence)
                row |= {name: count / self.total, f"{name}_low": interval.low, f"{name}_high": interval.high}
            gain = accuracy_gain_interval(int(negative), int(positive), self.total, confidence)
            row |= {"gain": float(positive - negative) / self.total, "gain_low": gain.low, "gain_high": gain.high}
            table.append(row)
        return table

    def undone(self) -> list[dict[str, float]]:
        """The share of the new model's negative and positive flips that each alpha takes back.

        If merging undid flips blindly, both shares would be equal (`proportional`); BCWI's point is that negative
        flips are undone first (the talk's last figure).
        """
        new_negative = self.old_correct & ~self.new_correct
        new_positive = ~self.old_correct & self.new_correct
        result = []
        for i, alpha in enumerate(self.alphas):
            negative = float((new_negative & self.correct[i]).sum() / max(1, new_negative.sum()))
            positive = float((new_positive & ~self.correct[i]).sum() / max(1, new_positive.sum()))
            # on the proportional line, each positive flip lost gives back negative flips at the rate they came
            result.append(
                {
                    "alpha": float(alpha),
                    "negative_undone": negative,
                    "positive_undone": positive,
                    "proportional_nfr": float(new_negative.mean() * (1 - positive)),
                    "nfr": float(self.nfr[i]),
                    "gain": float(self.accuracy[i] - self.old_correct.mean()),
                }
            )
        return result


Curve = AlphaCurve  # its earlier name
