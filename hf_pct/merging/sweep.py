"""What a sweep over alpha returns: both curves, the answers at every alpha, and the words that go with them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..flips.choice.curve import AlphaCurve


@dataclass(frozen=True)
class Sweep:
    """The curve of merged models, and beside it the probability ensemble of old and new at the same alphas.

    `plain` is the curve without re-estimated BatchNorm statistics, when there are any. `answers[i]` are the class
    indices of the model at `curve.alphas[i]`.
    """

    curve: AlphaCurve
    ensemble: AlphaCurve
    labels: np.ndarray
    answers: np.ndarray
    old_answers: np.ndarray
    plain: AlphaCurve | None = None
    notes: list[str] = field(default_factory=list)

    def table(self) -> list[dict[str, float]]:
        """One dict per alpha, ready for JSON: the merged model, and the ensemble's numbers with their own names."""
        rows = self.curve.table()
        for row, other in zip(rows, self.ensemble.table(), strict=True):
            row |= {f"ensemble_{name}": other[name] for name in ("accuracy", "nfr", "pfr")}
        if self.plain is not None:
            for row, accuracy in zip(rows, self.plain.accuracy, strict=True):
                row["accuracy_without_recalibration"] = float(accuracy)
        return rows

    def to_markdown(self) -> str:
        """The table for people, in percent."""
        head = ["alpha", "accuracy", "NFR", "PFR", "ensemble accuracy", "ensemble NFR"]
        if self.plain is not None:
            head.append("accuracy without recalibration")
        lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        for row in self.table():
            cells = [f"{row['alpha']:.2f}", _percent(row, "accuracy"), _percent(row, "nfr"), _percent(row, "pfr")]
            cells += [f"{100 * row['ensemble_accuracy']:.2f}", f"{100 * row['ensemble_nfr']:.2f}"]
            if self.plain is not None:
                cells.append(f"{100 * row['accuracy_without_recalibration']:.2f}")
            lines.append("| " + " | ".join(cells) + " |")
        return "\n".join([*lines, "", *self.notes])


def ensemble_answers(old_logits: np.ndarray, new_logits: np.ndarray, alpha: float) -> np.ndarray:
    """Argmax of alpha p_old + (1 - alpha) p_new; old logits of added classes are -inf, so their p_old is 0."""
    return (alpha * softmax(old_logits) + (1 - alpha) * softmax(new_logits)).argmax(-1)


def softmax(logits: np.ndarray) -> np.ndarray:
    shifted = np.exp(logits.astype(np.float64) - logits.max(-1, keepdims=True))
    return shifted / shifted.sum(-1, keepdims=True)


def _percent(row: dict[str, float], name: str) -> str:
    return f"{100 * row[name]:.2f} [{100 * row[f'{name}_low']:.2f}, {100 * row[f'{name}_high']:.2f}]"
