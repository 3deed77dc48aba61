"""How right a row is, as it stands in the kept answers: above 0 where the model is right.

A whole number, the row's margin in 256ths of the standard deviation of the model's own; or 1 and 0 where only the
answer is known.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hf_pct.flips.choice.curve import AlphaCurve

STEPS, LARGEST = 256, 32767


def kept(curve: AlphaCurve, place: int) -> np.ndarray:
    """The rows of one alpha of a curve as they are kept."""
    right = curve.correct[place]
    if curve.margins is None or not np.isfinite(curve.margins[place]).all():
        return right.astype(int)
    margins = curve.margins[place]
    size = np.clip(np.abs(np.rint(STEPS * margins / margins.std())), 1, LARGEST).astype(int)
    return np.where(right, size, -size)


def kept_curve(old: np.ndarray, along: Mapping[float, np.ndarray]) -> AlphaCurve:
    """A curve from kept rows; 0 and 1 are no margins."""
    margins = {alpha: values.astype(float) for alpha, values in along.items() if not np.isin(values, (0, 1)).all()}
    return AlphaCurve.of(old > 0, {alpha: values > 0 for alpha, values in along.items()}, margins)
