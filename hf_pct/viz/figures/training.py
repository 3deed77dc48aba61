"""Pictures of how training flips: methods beside each other, ensemble size, epochs, chains of versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ...core.decode import JsonObject
from ..extras import ChainSource, read_chain
from .style import COLOUR_MAP, COLOURS, MARKERS, label, legend, new_figure, percents, same_length, series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def accuracy_nfr(methods: Sequence[JsonObject]) -> Figure:
    """Accuracy against NFR, one mark per method (Zhao et al., Fig. 1b): right and low is better.

    A method is a mapping with `name`, `accuracy` and `nfr`, and if known `accuracy_low`, `accuracy_high`, `nfr_low`
    and `nfr_high`.
    """
    missing = [
        f"method {number} lacks {key}"
        for number, method in enumerate(methods)
        for key in ("name", "accuracy", "nfr")
        if key not in method
    ]
    if missing or not methods:
        raise ValueError(f"Nothing to draw: {'; '.join(missing) or 'no methods'}. Expected name, accuracy and nfr.")
    figure, axes = new_figure()
    for number, method in enumerate(methods):
        errors = {}
        for axis, key in (("xerr", "accuracy"), ("yerr", "nfr")):
            if f"{key}_low" in method and f"{key}_high" in method:
                below = max(0.0, method[key] - method[f"{key}_low"])
                errors[axis] = [[100 * below], [100 * max(0.0, method[f"{key}_high"] - method[key])]]
        style = {
            "color": COLOURS[number % len(COLOURS)],
            "marker": MARKERS[number % len(MARKERS)],
            "linestyle": "none",
        }
        at = 100 * method["accuracy"], 100 * method["nfr"]
        axes.errorbar(*at, **errors, **style, capsize=3, markersize=8, elinewidth=1, label=str(method["name"]))
    axes.set_ylim(bottom=0)
    axes.annotate("better ↘", (0.98, 0.03), xycoords="axes fraction", ha="right", fontsize=9, color="#555555")
    label(axes, "accuracy of the new model, %", "NFR, %")
    legend(axes, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def nfr_by_ensemble_size(
    sizes: Sequence[int], nfr: Mapping[str, Sequence[float]], error_rate: Mapping[str, Sequence[float]] | None = None
) -> Figure:
    """NFR, and beside it the error rate, against the number of members: errors level off, NFR goes on falling."""
    figure, panels = _panels(sizes, "members of the ensemble, count", "NFR, %", nfr, error_rate)
    for axes in panels:
        axes.set_xscale("log", base=2)
        axes.set_xticks(list(sizes), [str(size) for size in sizes])
        axes.minorticks_off()
    return figure


def nfr_per_epoch(
    epochs: Sequence[float],
    nfr: Mapping[str, Sequence[float]],
    error_rate: Mapping[str, Sequence[float]] | None = None,
    relative: bool = False,
) -> Figure:
    """NFR (or relative NFR) and error rate over training, by set or method (Yan et al., Fig. 5 and supplement)."""
    unit = "relative NFR, % of independent models'" if relative else "NFR, %"
    return _panels(epochs, "epoch, count", unit, nfr, error_rate)[0]


def _panels(
    x: Sequence[float],
    x_unit: str,
    unit: str,
    nfr: Mapping[str, Sequence[float]],
    error_rate: Mapping[str, Sequence[float]] | None,
) -> tuple[Figure, list[Axes]]:
    """NFR on the left and, when there is one, the error rate on the right, both against `x`."""
    panels: list[tuple[str, Mapping[str, Sequence[float]]]] = [(unit, nfr)]
    if error_rate:
        panels.append(("error rate, %", error_rate))
    for _, values in panels:
        for name, rates in values.items():
            same_length(x=x, **{name: rates})
    figure, drawn = new_figure(4.7 * len(panels), 3.8, 1, len(panels))
    all_axes = list(drawn) if len(panels) > 1 else [drawn]
    for axes, (name, values) in zip(all_axes, panels, strict=True):
        for number, (key, rates) in enumerate(values.items()):
            axes.plot(x, percents(rates), label=key, **series(number))
        axes.set_ylim(bottom=0)
        label(axes, x_unit, name)
        legend(axes)
    return figure, all_axes


def chain_matrix(chain: ChainSource) -> Figure:
    """NFR between every two versions, from the row's to the column's (Zhao et al., Table 5)."""
    versions = read_chain(chain)
    size = len(versions.versions)
    figure, axes = new_figure(2.6 + 0.75 * size, 1.9 + 0.6 * size)
    axes.grid(False)
    numbers = [[float("nan") if i == j else 100 * versions.nfr[i][j] for j in range(size)] for i in range(size)]
    image = axes.imshow(numbers, cmap=COLOUR_MAP, vmin=0)
    for i in range(size):
        for j in range(size):
            if i != j:
                dark = image.norm(numbers[i][j]) < 0.5
                text = f"{numbers[i][j]:.2f}"
                axes.text(j, i, text, ha="center", va="center", fontsize=9, color="white" if dark else "black")
    axes.set_xticks(range(size), versions.versions)
    axes.set_yticks(range(size), versions.versions)
    label(axes, "to (new version)", "from (old version)")
    figure.colorbar(image, ax=axes, label="NFR, %")
    return figure
