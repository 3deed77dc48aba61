"""How right a row is, as it stands in the kept answers: above 0 where the model is right.

A whole number that stands for the row's margin in standard deviations of the model's own, fine near zero and coarse
far from it, so that the file stays small; or 1 and 0 where only the answer is known.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hf_pct.flips.choice.curve import AlphaCurve

STEPS, UNIT = 5, 0.1
"""A margin m is kept as `STEPS * asinh(m / UNIT)`: within 0.02 near zero, within a tenth of itself far from it."""


def kept(curve: AlphaCurve, place: int) -> np.ndarray:
    """The rows of one alpha of a curve as they are kept."""
    right = curve.correct[place]
    if curve.margins is None or not np.isfinite(curve.margins[place]).all():
        return right.astype(int)
    margins = curve.margins[place]
    size = np.maximum(np.rint(STEPS * np.arcsinh(np.abs(margins) / margins.std() / UNIT)), 1).astype(int)
    return np.where(right, size, -size)


def kept_curve(old: np.ndarray, along: Mapping[float, np.ndarray]) -> AlphaCurve:
    """A curve from kept rows; 0 and 1 are no margins."""
    known = {alpha: values for alpha, values in along.items() if not np.isin(values, (0, 1)).all()}
    margins = {alpha: UNIT * np.sinh(values / STEPS) for alpha, values in known.items()}
    return AlphaCurve.of(old > 0, {alpha: values > 0 for alpha, values in along.items()}, margins)
