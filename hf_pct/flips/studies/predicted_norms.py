"""The density of the displacement's norm that normal logits predict (Zhao et al., section 3.3, the lines of Fig. 5).

If a row's logits over independent runs are normal, the displacement between two ensembles is normal too (eq. 3) and
its squared norm follows a generalised chi-square distribution, which has no simple density. As in the paper it is
simulated and smoothed by a kernel; there for single images, here over rows, as the histograms beside it are.

Ensembles are drawn from the given members without replacement. Around the mean of n members, the mean of m of them
then has the covariance S (1/m - 1/n), not S/m, and two ensembles without a common member from one pool differ by 2 S/m
exactly. This is what is simulated, so the lines describe the same draws that were measured.
"""

from collections.abc import Sequence

import numpy as np
from scipy.stats import gaussian_kde

from ...core.labels import LabelAlignment
from .draws import Sides
from .member_tables import MemberTables

Curve = tuple[list[float], list[float]]  # points, and the density at each

MOST_ROWS = 500
SAMPLES = 20_000
POINTS = 200


def predicted_densities(
    sides: Sides, classes: LabelAlignment, sizes: Sequence[int], seed: int = 0
) -> dict[int, Curve]:
    """For each ensemble size the predicted density of the norm: points and values.

    A size is left out when the members do not scatter at all, where there is no density but a single number.
    """
    samples = _sample_norms(sides, classes, sizes, seed)
    curves = {size: _density(norms) for size, norms in zip(sizes, samples, strict=True)}
    return {size: curve for size, curve in curves.items() if curve is not None}


def _sample_norms(sides: Sides, classes: LabelAlignment, sizes: Sequence[int], seed: int) -> np.ndarray:
    """Norms of simulated displacements, one line per size, from at most `MOST_ROWS` rows drawn with the seed."""
    rng = np.random.default_rng([seed, 0])
    total = len(sides.old.label_columns)
    rows = np.sort(rng.choice(total, min(total, MOST_ROWS), replace=False))
    samples_per_row = max(1, SAMPLES // len(rows))
    old_part = np.array([_scale(sides, size, len(sides.old)) for size in sizes])
    new_part = np.array([_scale(sides, size, len(sides.new)) for size in sizes])
    norms = np.empty((len(sizes), len(rows), samples_per_row))
    for at, row in enumerate(rows):
        old_mean, old_noise = _scatter(sides.old, row, classes.old_index, samples_per_row, rng)
        new_mean, new_noise = _scatter(sides.new, row, classes.new_index, samples_per_row, rng)
        centre = np.zeros_like(old_mean) if sides.one_pool else new_mean - old_mean
        for line, (old, new) in enumerate(zip(old_part, new_part, strict=True)):
            norms[line, at] = np.linalg.norm(centre + new * new_noise - old * old_noise, axis=-1)
    return norms.reshape(len(sizes), -1)


def _scale(sides: Sides, size: int, members: int) -> float:
    """By what the scatter of single members shrinks in the mean of `size` of them; see the top of this file."""
    return np.sqrt(1 / size if sides.one_pool else 1 / size - 1 / members)


def _scatter(
    members: MemberTables, row: int, columns: np.ndarray, count: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The mean of a row's logits over the members, and normal noise with their covariance.

    Mixing the members' deviations with normal weights gives that covariance without building a matrix of classes by
    classes.
    """
    logits = np.stack([logits[row, columns] for logits in members.logits]).astype(np.float64)
    mean = logits.mean(0)
    weights = rng.standard_normal((count, len(members))) / np.sqrt(len(members) - 1)
    return mean, weights @ (logits - mean)


def _density(norms: np.ndarray) -> Curve | None:
    """A kernel density on the positive half line: what leaks below zero is reflected, so that it integrates to 1."""
    if norms.std() <= 1e-9 * max(norms.max(), 1e-300):
        return None
    kernel = gaussian_kde(norms)
    width = float(np.sqrt(kernel.covariance[0, 0]))
    points = np.linspace(max(0.0, norms.min() - 4 * width), norms.max() + 4 * width, POINTS)
    density = kernel(points) + kernel(-points)
    return [float(f"{x:.6g}") for x in points], [float(f"{y:.6g}") for y in density]
