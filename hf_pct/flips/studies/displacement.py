"""How far logits move between two ensembles, and how that falls with their size (Zhao et al., eq. 1-4, Fig. 5).

The logits of independent runs on one row scatter around a mean. Between ensembles of m members the displacement has
the squared bias |mu1 - mu2|^2, which no ensemble removes, and the variance tr(S1 + S2) / m, which they do: the mean
squared norm is bias + variance / m. Between runs of one recipe the bias is 0, between two recipes what the update
changed. Displacement is of the logits as they are, uncentred, over the classes that both sides have.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from ...core.decode import JsonObject
from ...core.errors import NotComparableError, first_five
from ...core.labels import LabelAlignment, align_labels
from ..render.report import table
from ..tables.predictions import Predictions
from .draws import Draw, Sides, draw_ensembles, two_sides
from .ensemble_size import origin
from .logit_figures import displacement_norms, thin
from .predicted_norms import Curve, predicted_densities


@dataclass(frozen=True)
class DisplacementReport:
    """Displacement by ensemble size, measured on drawn ensembles beside what the single members predict.

    `mean_squared_norm` is over rows and draws; `bias`, `variance` and `r_squared` are of the least-squares fit
    bias + variance / m to it (None with fewer than two sizes; with exactly two the fit goes through both).
    `expected_squared_norm` is `expected_bias + expected_variance / m` from the members' sample covariances, where the
    bias is that of the means, less what their own scatter adds to it; it may come out below zero by chance.

    Over all draws from given members the two agree exactly, whatever the models are: that is algebra and no evidence
    for the theory. What can disagree are the densities (`predicted`), which take the logits to be normal.
    """

    sizes: tuple[int, ...]
    draws: tuple[int, ...]
    mean_norm: tuple[float, ...]
    mean_squared_norm: tuple[float, ...]
    expected_squared_norm: tuple[float, ...]
    bias: float | None
    variance: float | None
    r_squared: float | None
    expected_bias: float
    expected_variance: float
    rows: int
    classes: int
    old_members: int
    new_members: int
    one_pool: bool
    norms: dict[str, list[float]]
    predicted: dict[str, Curve]

    def figure(self) -> JsonObject:
        """The arguments of `viz.plots.displacement_histogram`, for `FlipReport.with_figures` and `save_plots`."""
        top = max(max(values) for values in self.norms.values())
        predicted = {name: [list(points), list(density)] for name, (points, density) in self.predicted.items()}
        return {"norms": self.norms, "predicted": predicted, "bin_size": _bin_size(top)}

    def to_dict(self) -> JsonObject:
        return {"format": "hf_pct.displacement", "format_version": 1, **asdict(self)}

    def to_markdown(self) -> str:
        """Measured and expected side by side, and the fit."""
        columns = self.sizes, self.draws, self.mean_norm, self.mean_squared_norm, self.expected_squared_norm
        rows = [
            (size, drawn, *(f"{value:.4f}" for value in values)) for size, drawn, *values in zip(*columns, strict=True)
        ]
        parts = [
            f"# Logit displacement by ensemble size on {self.rows:,} rows and {self.classes:,} classes",
            f"Ensembles {origin(self.old_members, self.new_members, self.one_pool)}.",
            table(["members", "draws", "mean norm", "mean squared norm", "expected from the members"], rows),
            f"Expected: {self.expected_bias:.4f} + {self.expected_variance:.4f} / m.",
        ]
        if self.bias is not None and self.variance is not None:
            fit = f"Fitted: {self.bias:.4f} + {self.variance:.4f} / m"
            parts.append(fit + ("." if self.r_squared is None else f", R² {self.r_squared:.4f}."))
        return "\n\n".join(parts) + "\n"


def displacement_by_size(
    old_members: Sequence[Predictions],
    new_members: Sequence[Predictions],
    sizes: Sequence[int] | None = None,
    draws: int = 20,
    seed: int = 0,
) -> DisplacementReport:
    """Logit displacement between ensembles of m old and m new members, with its fit and its prediction.

    The arguments are those of `nfr_by_ensemble_size`, and the same seed draws the same ensembles. Each side needs at
    least two members, because one has no covariance.
    """
    sides = two_sides(old_members, new_members, at_least=2)
    for side in (sides.old, sides.new):
        side.check_finite("displacement is a difference of logits")
    classes = align_labels(sides.old.label_names, sides.new.label_names)
    if not classes.shared:
        raise NotComparableError(
            f"Old and new members have no class in common: {first_five(sides.old.label_names)} and "
            f"{first_five(sides.new.label_names)}. Displacement is over the classes that both have."
        )
    plan = draw_ensembles(sides, sizes, draws, seed)
    names = {size: f"m = {size}" for size in plan}
    measured = {size: _norms(sides, classes, pairs) for size, pairs in plan.items()}
    squared = tuple(float(np.mean(norms**2)) for norms in measured.values())
    bias, variance, r_squared = _fit(tuple(plan), squared)
    expected_bias, expected_variance = _expected(sides, classes)
    predicted = predicted_densities(sides, classes, tuple(plan), seed)
    return DisplacementReport(
        sizes=tuple(plan),
        draws=tuple(len(pairs) for pairs in plan.values()),
        mean_norm=tuple(float(norms.mean()) for norms in measured.values()),
        mean_squared_norm=squared,
        expected_squared_norm=tuple(expected_bias + expected_variance / size for size in plan),
        bias=bias,
        variance=variance,
        r_squared=r_squared,
        expected_bias=expected_bias,
        expected_variance=expected_variance,
        rows=len(sides.old.label_columns),
        classes=len(classes.shared),
        old_members=len(sides.old),
        new_members=len(sides.new),
        one_pool=sides.one_pool,
        norms={names[size]: [round(float(norm), 4) for norm in thin(norms)] for size, norms in measured.items()},
        predicted={names[size]: curve for size, curve in predicted.items()},
    )


def _norms(sides: Sides, classes: LabelAlignment, pairs: Sequence[Draw]) -> np.ndarray:
    """The norms of all rows under all draws."""
    drawn = [displacement_norms(sides.old.mean_logits(old), sides.new.mean_logits(new), classes) for old, new in pairs]
    return np.concatenate(drawn)


def _fit(sizes: Sequence[int], squared: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    """Least squares of bias + variance / m, and the share of the spread that it explains."""
    if len(sizes) < 2:
        return None, None, None
    terms = np.stack([np.ones(len(sizes)), 1 / np.array(sizes)], axis=-1)
    values = np.array(squared)
    solution = np.linalg.lstsq(terms, values, rcond=None)[0]
    spread = np.sum((values - values.mean()) ** 2)
    left = np.sum((values - terms @ solution) ** 2)
    return float(solution[0]), float(solution[1]), float(1 - left / spread) if spread > 0 else None


def _expected(sides: Sides, classes: LabelAlignment) -> tuple[float, float]:
    """|mu1 - mu2|^2 and tr(S1 + S2), from the sample means and covariances of the members, as means over rows."""
    old_mean, old_trace = _moments(sides.old.logits, classes.old_index)
    if sides.one_pool:  # one recipe: the same mean on both sides, whatever these members scatter to
        return 0.0, 2 * old_trace
    new_mean, new_trace = _moments(sides.new.logits, classes.new_index)
    apart = float(np.mean(np.sum((new_mean - old_mean) ** 2, axis=-1)))
    # the sample means scatter by S / n themselves, which pushes them apart on average: that is not bias
    return apart - old_trace / len(sides.old) - new_trace / len(sides.new), old_trace + new_trace


def _moments(logits: Sequence[np.ndarray], columns: np.ndarray) -> tuple[np.ndarray, float]:
    """The mean of each row's logits over the members, and the mean over rows of the trace of their covariance."""
    mean = np.zeros((len(logits[0]), len(columns)))
    for member_logits in logits:
        mean += member_logits[:, columns] / len(logits)
    squares = sum(float(np.sum((member_logits[:, columns] - mean) ** 2)) for member_logits in logits)
    return mean, squares / (len(logits) - 1) / len(mean)


def _bin_size(top: float) -> float:
    """The paper's 0.5 where that gives a readable histogram, else the next of 1, 2, 5 (times ten) to about 30 bins."""
    if not top > 0 or 10 <= top / 0.5 <= 100:
        return 0.5
    power = 10.0 ** np.floor(np.log10(top / 30))
    return float(next(power * step for step in (1, 2, 5, 10) if top / (power * step) <= 30))
