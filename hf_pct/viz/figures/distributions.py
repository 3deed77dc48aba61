"""Histograms behind the papers' explanations: displacement of logits, rank of the wrong class, uncertainty."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .style import COLOURS, HATCHES, LINES, label, legend, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Curve = tuple[Sequence[float], Sequence[float]]


def displacement_histogram(
    norms: Mapping[str, Sequence[float]], predicted: Mapping[str, Curve] | None = None, bin_size: float = 0.5
) -> "Figure":
    """L2 norms of the logit displacement between two models or ensembles (Zhao et al., Fig. 5), by name.

    `predicted` has, under the same names, the density that eq. 4 predicts: points and values. For ensembles of m
    members the covariance falls as 1/m, so the mass moves to the left.
    """
    _check(norms, "norms")
    if not bin_size > 0:
        raise ValueError(f"bin_size is {bin_size}, expected a positive number.")
    figure, axes = new_figure()
    top = max(float(np.max(values)) for values in norms.values())
    edges = np.arange(0, top + 2 * bin_size, bin_size)
    for number, (name, values) in enumerate(norms.items()):
        colour = COLOURS[number % len(COLOURS)]
        axes.hist(values, edges, density=True, alpha=0.35, color=colour, hatch=HATCHES[number % 7], label=name)
        if predicted and name in predicted:
            points, density = predicted[name]
            axes.plot(points, density, color=colour, linestyle=LINES[number % 7], label=f"{name}, predicted")
    label(axes, "L2 norm of the logit displacement, logit units", f"density, 1 / logit unit (bins of {bin_size:g})")
    legend(axes)
    return figure


def rank_histogram(ranks: Mapping[str, Sequence[int]], most: int = 10) -> "Figure":
    """Where the new, wrong class of a negative flip stood in the old model's logits (Zhao et al., Fig. 4).

    Rank 1 would be the old model's own answer, so negative flips start at 2; ranks above `most` share the last bar.
    """
    _check(ranks, "ranks")
    if min(int(np.min(values)) for values in ranks.values()) < 1:
        raise ValueError("A rank is below 1, expected ranks that start at 1, the class with the largest logit.")
    figure, axes = new_figure()
    places = np.arange(1, most + 1)
    width = 0.8 / len(ranks)
    for number, (name, values) in enumerate(ranks.items()):
        counts = np.bincount(np.minimum(np.asarray(values, dtype=int), most), minlength=most + 1)[1:]
        offset = (number - (len(ranks) - 1) / 2) * width
        colour = COLOURS[number % len(COLOURS)]
        shares = 100 * counts / counts.sum()
        axes.bar(
            places + offset, shares, width, color=colour, hatch=HATCHES[number % 7], edgecolor="white", label=name
        )
    axes.set_xticks(places, [*map(str, places[:-1]), f"≥ {most}"])
    label(axes, "rank of the new answer in the old model's logits, 1 = largest", "share of negative flips, %")
    legend(axes)
    return figure


def uncertainty_histograms(
    values: Mapping[str, Sequence[float]],
    bins: int = 20,
    unit: str = "uncertainty, nats",
    counts: Mapping[str, int] | None = None,
) -> "Figure":
    """How uncertain samples are, by group: negative flips beside the rest, or with and without treatment.

    As in Yan et al., Fig. 4: flips pile up where the model was unsure, and the count axis is logarithmic. `unit` names
    the measure that `values` holds. `counts` says how many samples a group has where `values` holds quantiles of them.
    """
    _check(values, "values")
    figure, axes = new_figure()
    low = min(float(np.min(group)) for group in values.values())
    high = max(float(np.max(group)) for group in values.values())
    edges = np.linspace(low, high if high > low else low + 1, bins + 1)
    for number, (name, group) in enumerate(values.items()):
        style = {"color": COLOURS[number % len(COLOURS)], "linestyle": LINES[number % 7], "linewidth": 1.8}
        count = (counts or {}).get(name, len(group))
        row_weights = np.full(len(group), count / len(group))
        axes.hist(group, edges, weights=row_weights, histtype="step", label=f"{name} ({count:,})", **style)
    axes.set_yscale("log")
    axes.set_ylim(bottom=0.7)
    label(axes, unit, "samples a bin, count (log scale)")
    legend(axes)
    return figure


def _check(groups: Mapping[str, Sequence[float]], name: str) -> None:
    empty = [key for key, values in groups.items() if not len(values)]
    if not groups or empty:
        problem = f"nothing for {', '.join(map(repr, empty))}" if empty else "an empty mapping"
        raise ValueError(f"{name} has {problem}, expected at least one number for each name.")
