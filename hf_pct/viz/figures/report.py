"""Pictures of one report: the flip square, NFR by class or slice, how sure the models were of the flipped rows."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...core.decode import JsonObject
from ...flips.counts import FlipCounts
from ...flips.grouping import GroupFlips
from ...flips.report import FlipReport
from ...flips.stats import clopper_pearson
from .distributions import uncertainty_histograms
from .style import BROKEN, GREY, MENDED, label, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def flip_square(counts: FlipCounts | FlipReport | JsonObject, confidence: float = 0.95) -> "Figure":
    """Old right or wrong by new right or wrong: the number of rows, its share and the share's exact interval."""
    counts = _counts(counts)
    figure, axes = new_figure(5.2, 4.6)
    axes.grid(False)
    cells = (
        (0, 1, counts.both_right, "both right", "#ececec", "black"),
        (1, 1, counts.negative_flips, "broken", "#fbe3d2", "#9c4400"),
        (0, 0, counts.positive_flips, "fixed", "#d6eaf6", "#005783"),
        (1, 0, counts.both_wrong, "both wrong", "#d9d9d9", "black"),
    )
    for x, y, count, name, ground, ink in cells:
        axes.fill([x, x + 1, x + 1, x], [y, y, y + 1, y + 1], facecolor=ground, edgecolor="white", linewidth=4)
        interval = clopper_pearson(count, counts.total, confidence)
        axes.text(x + 0.5, y + 0.66, f"{count:,.0f}", ha="center", va="center", fontsize=20, color=ink, weight="bold")
        axes.text(x + 0.5, y + 0.43, name, ha="center", va="center", fontsize=12, color=ink)
        share = f"{100 * count / counts.total:.2f} %\n({100 * interval.low:.2f} to {100 * interval.high:.2f})"
        axes.text(x + 0.5, y + 0.2, share, ha="center", va="center", fontsize=9)
    axes.set(xlim=(0, 2), ylim=(0, 2), xticks=[0.5, 1.5], yticks=[0.5, 1.5])
    axes.set_xticklabels(["right", "wrong"])
    axes.set_yticklabels(["wrong", "right"], rotation=90, va="center")
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    title = f"{counts.total:,.0f} rows, share in % ({confidence:.0%} interval)"
    label(axes, "new model", "old model", title)
    return figure


def nfr_by_class(
    groups: FlipReport | Sequence[GroupFlips | JsonObject], most: int = 30, name: str = "class"
) -> "Figure":
    """NFR of each class (or slice) that has flips, with its exact interval, the worst first.

    A filled mark has a corrected p below 0.05: the class breaks more than it fixes (orange square) or fixes more than
    it breaks (blue circle).
    """
    source = groups.classes if isinstance(groups, FlipReport) else groups
    sorted_groups = [group if isinstance(group, GroupFlips) else GroupFlips(**group) for group in source]
    if not sorted_groups:
        raise ValueError(f"There is no {name} to draw, expected at least one.")
    flipped = [group for group in sorted_groups if group.negative_flips or group.positive_flips] or sorted_groups
    flipped.sort(key=lambda group: (-group.nfr, -group.rows, group.name))
    shown = flipped[:most][::-1]
    figure, axes = new_figure(6.8, 1.5 + 0.23 * len(shown))
    top = max(2.2 * max(group.nfr for group in shown), 0.01)
    for place, group in enumerate(shown):
        worse = group.negative_flips > group.positive_flips
        colour = BROKEN if worse else MENDED
        axes.plot([100 * group.nfr_low, 100 * group.nfr_high], [place, place], color=GREY, linewidth=1.3)
        filled = colour if group.regressed() or group.improved() else "white"
        axes.plot(
            100 * group.nfr, place, marker="s" if worse else "o", color=colour, markerfacecolor=filled, markersize=5
        )
    limit = 100 * min(top, 1.0)  # a class of three rows has an interval up to 100 %: long whiskers are cut
    axes.set(ylim=(-0.7, len(shown) - 0.3), xlim=(-0.015 * limit, limit), yticks=range(len(shown)))
    axes.set_yticklabels([f"{_short(group.name)} ({group.rows})" for group in shown], fontsize=8)
    more = f", worst {most} of {len(flipped)}" if len(flipped) > most else ""
    if len(flipped) < len(sorted_groups):
        more += f"; {len(sorted_groups) - len(flipped)} without flips are not shown"
    label(axes, "NFR, % of the rows of the " + name, f"{name} (rows)", f"NFR by {name}{more}")
    for marker, colour, text in (("s", BROKEN, "breaks more"), ("o", MENDED, "fixes as much or more")):
        axes.plot([], [], marker, color=colour, markerfacecolor="white", label=text)
    axes.plot([], [], "D", color=GREY, label="filled: corrected p < 0.05")
    figure.legend(fontsize=8, frameon=False, loc="outside lower center", ncols=3)
    return figure


def flip_uncertainty(report: FlipReport) -> "Figure | None":
    """How unsure the old model was of the rows that broke, and the new one; None when there are no confidences."""
    table = report.flips
    if "old_confidence" not in table.column_names or not table.num_rows:
        return None
    series: dict[str, list[float]] = {}
    for side in ("old", "new"):
        values = table.column(f"{side}_confidence").to_pylist()
        for kind, name in (("negative", "broken"), ("positive", "fixed")):
            kinds = table.column("kind").to_pylist()
            chosen = [1 - v for v, k in zip(values, kinds, strict=True) if v is not None and k == kind]
            if chosen:
                series[f"{name} rows, {side} model"] = chosen
    return uncertainty_histograms(series, unit="1 - confidence, fraction") if series else None


def _counts(source: FlipCounts | FlipReport | JsonObject) -> FlipCounts:
    if isinstance(source, FlipCounts):
        return source
    if isinstance(source, FlipReport):
        return source.counts
    return FlipCounts(**{name: source[name] for name in FlipCounts.__dataclass_fields__})


def _short(name: str, most: int = 32) -> str:
    flat = " ".join(name.split()).replace("$", r"\$")  # a dollar would start a formula
    return flat if len(flat) <= most else flat[: most - 1] + "…"
