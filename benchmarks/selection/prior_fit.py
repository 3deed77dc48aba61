"""The prior from curves: what the law of undoing looks like on them, one line per curve, and its middle and spread."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy import optimize, special

from hf_pct.flips.choice.curve import AlphaCurve
from hf_pct.flips.choice.fit import undone_at
from hf_pct.flips.choice.prior import Prior

NAMES = ("centre", "gap", "negative_steepness", "positive_steepness", "gain_ratio", "middle")


def describe_curve(curve: AlphaCurve) -> dict[str, float]:
    """The most likely parameters of the law on one curve."""
    ends = np.append(curve.alphas[(curve.alphas > 0) & (curve.alphas < 1)], 1.0)
    negative, positive = (_law(ends, undone_at(curve, sign)) for sign in (True, False))
    middle = curve.index(0.5)
    same = curve.old_correct == curve.new_correct
    surplus = (curve.correct[middle][same] * 1.0 - curve.new_correct[same]).sum() / curve.total
    return {
        "centre": (negative[0] + positive[0]) / 2,
        "gap": negative[0] - positive[0],
        "negative_steepness": negative[1],
        "positive_steepness": positive[1],
        "gain_ratio": float(np.log(curve.positive_flips[0] / curve.negative_flips[0])),
        "middle": float(surplus),
    }


def _law(ends: np.ndarray, counts: np.ndarray) -> np.ndarray:
    def unlikely(values: np.ndarray) -> float:
        shares = special.expit(values[0] + np.exp(values[1]) * special.logit(ends))
        steps = np.maximum(np.diff(shares, prepend=0.0), 1e-12)
        return float(-counts @ np.log(steps) + values[1] ** 2 / 8)

    return np.asarray(optimize.minimize(unlikely, [0.0, 0.0], method="Nelder-Mead").x)


def fit_prior(curves: Mapping[str, AlphaCurve]) -> tuple[dict[str, tuple[float, float]], list[str]]:
    """Median and spread (1.48 times the median deviation) of every parameter over curves, and a line per curve.

    The ratio of gains is a Gamma of shape 2, vague on purpose; its scale is half the mean.
    """
    rows = {name: describe_curve(curve) for name, curve in curves.items()}
    lines = [name + "".join(f" {key} {row[key]:.3f}" for key in NAMES) for name, row in rows.items()]
    fitted = {}
    for key in NAMES:
        values = np.array([row[key] for row in rows.values()])
        centre = float(np.median(values))
        fitted[key] = (round(centre, 3), round(1.48 * float(np.median(np.abs(values - centre))), 3))
        if key == "gain_ratio":
            fitted[key] = (2.0, round(float(values.mean()) / 2, 2))
    return fitted, lines


def differences(fitted: Mapping[str, tuple[float, float]], prior: Prior) -> list[str]:
    """Where the committed prior is not what the curves say."""
    return [f"{key}: fitted {value}, committed {getattr(prior, key)}" for key, value in fitted.items()]
