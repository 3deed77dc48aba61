"""How every picture looks: colours that the colour-blind tell apart, marks that a grey printer tells apart, units.

Figures are made without pyplot: nothing global is touched, nothing is kept alive, and they can be made in any thread.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...core.decode import JsonObject
from ...core.versions import missing_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's palette, without its yellow, which paper swallows
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "++", "oo")
BROKEN, MENDED, GREY = "#D55E00", "#0072B2", "#6b6b6b"
COLOUR_MAP = "cividis"


def need_matplotlib() -> None:
    """Say how to get matplotlib where it is missing; for callers who want to know before the work."""
    try:
        import matplotlib.figure  # noqa: F401
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(missing_extra("Pictures", "viz")) from error


def new_figure(width: float = 6.4, height: float = 4.2, rows: int = 1, columns: int = 1, **options: object) -> Any:
    """A figure and its axes, with room for every label."""
    need_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
    axes = figure.subplots(rows, columns, **options)
    for panel in axes.flat if rows * columns > 1 else [axes]:
        _plain(panel)
    return figure, axes


def _plain(axes: "Axes") -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.grid(True, color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=9)


def label(axes: "Axes", x: str, y: str, title: str = "") -> None:
    """Names of both axes, each with its unit."""
    axes.set_xlabel(x, fontsize=10)
    axes.set_ylabel(y, fontsize=10)
    if title:
        axes.set_title(title, fontsize=11, loc="left")


def series(number: int, markers: bool = True) -> JsonObject:
    """Colour, marker and line of the n-th series: each of the three alone tells it from the others."""
    style: JsonObject = {"color": COLOURS[number % len(COLOURS)], "linestyle": LINES[number % len(LINES)]}
    if markers:
        style |= {"marker": MARKERS[number % len(MARKERS)], "markersize": 5}
    return style


def legend(axes: "Axes", **options: object) -> None:
    """A legend where there is something to tell apart."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        axes.legend(handles, labels, fontsize=9, frameon=False, **options)


def percents(rates: Sequence[float]) -> list[float]:
    """Fractions as percent."""
    return [100 * rate for rate in rates]


def same_length(**columns: Sequence[object]) -> None:
    """Refuse columns that do not belong together."""
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1 or not next(iter(lengths.values())):
        raise ValueError(
            f"Every series must have one number per point, and at least one, but the lengths are {lengths}."
        )
