"""Pictures of a merge: the alpha curve with its trade-off, and the plane through old, new and target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..extras import CurveSource, MergeCurve, read_curve
from .style import BROKEN, COLOUR_MAP, GREY, MENDED, label, legend, new_figure, percents

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def alpha_curve(curve: CurveSource) -> Figure:
    """Accuracy and NFR along alpha, the probability ensemble beside them, and accuracy gained against NFR.

    `curve` is what `read_curve` takes. In the right panel the straight line is where flips are undone in proportion:
    as large a share of the fixed rows lost as of the broken ones won back (the BCWI talk's last figure). A merge
    above it undoes broken rows first.
    """
    merged = read_curve(curve)
    alphas = [row["alpha"] for row in merged.rows]
    figure, panels = new_figure(9.6, 5.0, 2, 2, gridspec_kw={"width_ratios": [1.15, 1]})
    for place, (name, unit, colour) in enumerate((("accuracy", "accuracy, %", MENDED), ("nfr", "NFR, %", BROKEN))):
        axes = panels[place, 0]
        low, high = merged.column(f"{name}_low"), merged.column(f"{name}_high")
        if low and high:
            axes.fill_between(alphas, percents(low), percents(high), color=colour, alpha=0.15, label="interval")
        axes.plot(alphas, percents(merged.column(name) or []), color=colour, marker="o", markersize=4, label="merged")
        ensemble = merged.column(f"ensemble_{name}")
        if ensemble:
            axes.plot(
                alphas, percents(ensemble), color=GREY, linestyle="--", marker="s", markersize=3, label="ensemble"
            )
        if merged.chosen is not None:
            axes.axvline(merged.chosen, color="black", linestyle=":", label=f"chosen, {merged.chosen:g}")
        label(axes, "alpha, share of the old model", unit)
        legend(axes, ncols=2)
    _trade_off(merged, panels)
    return figure


def _trade_off(curve: MergeCurve, panels: np.ndarray) -> None:
    grid = panels[0, 1].get_gridspec()
    figure = panels[0, 1].figure
    for axes in panels[:, 1]:
        axes.remove()
    axes = figure.add_subplot(grid[:, 1])
    axes.grid(True, color="#dddddd", linewidth=0.6)
    old = curve.old_accuracy
    base, unit = (old, "accuracy gained over the old model, points") if old is not None else (0.0, "accuracy, %")
    nfr, accuracy = curve.column("nfr") or [], curve.column("accuracy") or []
    gained = [100 * (value - base) for value in accuracy]
    axes.plot(percents(nfr), gained, color=BROKEN, marker="o", markersize=4, label="merged")
    ensemble = curve.column("ensemble_nfr"), curve.column("ensemble_accuracy")
    if ensemble[0] and ensemble[1]:
        others = [100 * (value - base) for value in ensemble[1]]
        axes.plot(
            percents(ensemble[0]), others, color=GREY, linestyle="--", marker="s", markersize=3, label="ensemble"
        )
    if old is not None:
        axes.plot([0, 100 * nfr[0]], [0, gained[0]], color=MENDED, linewidth=1.5, label="proportional")
    if curve.chosen is not None:
        away = [abs(row["alpha"] - curve.chosen) for row in curve.rows]
        at = away.index(min(away))
        axes.plot(
            100 * nfr[at], gained[at], marker="*", markersize=13, color="black", linestyle="none", label="chosen"
        )
    label(axes, "NFR, %", unit)
    legend(axes)


def landscape(
    x: Sequence[float],
    y: Sequence[float],
    nfr: Sequence[Sequence[float]],
    error_rate: Sequence[Sequence[float]] | None = None,
    points: Mapping[str, Sequence[float]] | None = None,
) -> Figure:
    """The plane through old, new and target model: NFR as the colour, the error rate as contour lines.

    After Izmailov et al. `x` and `y` are distances along the plane's two axes; `nfr[i][j]` is measured at
    `(x[j], y[i])`; `points` are models by name.
    """
    for name, values in (("nfr", nfr), ("error_rate", error_rate)):
        if values is not None and np.shape(values) != (len(y), len(x)):
            expected = (len(y), len(x))
            raise ValueError(f"{name} has the shape {np.shape(values)}, expected {expected}: a row for each y.")
    figure, axes = new_figure(6.4, 4.8)
    axes.grid(False)
    colours = axes.pcolormesh(x, y, 100 * np.asarray(nfr, dtype=float), cmap=COLOUR_MAP, shading="gouraud", vmin=0)
    figure.colorbar(colours, ax=axes, label="NFR, %")
    if error_rate is not None:
        lines = axes.contour(x, y, 100 * np.asarray(error_rate, dtype=float), levels=8, colors="white", linewidths=0.9)
        axes.clabel(lines, fmt="%.0f %%", fontsize=8)
        axes.set_title("lines: error rate, %", fontsize=10, loc="left")
    markers = ("o", "s", "^", "D", "v")
    for number, (name, place) in enumerate((points or {}).items()):
        style = {"marker": markers[number % 5], "markerfacecolor": "white", "markeredgecolor": "black"}
        axes.plot(place[0], place[1], linestyle="none", markersize=9, label=name, **style)
    label(axes, "distance in weight space, L2 norm", "distance in weight space, L2 norm")
    legend(axes, loc="upper left", bbox_to_anchor=(0.0, -0.12), ncols=3)
    return figure
