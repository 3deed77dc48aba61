"""The alpha curve of a merge as the shapes of an SVG: accuracy above, NFR below, one alpha axis for both.

Two panels rather than two scales on one: where two curves on two scales cross means nothing.
"""

import math
from dataclasses import dataclass, field

from ...core.decode import JsonObject
from ...flips.render.report import percent
from ..extras import MergeCurve

WIDTH, PANEL, GAP, LEFT, TOP = 640, 150, 42, 58, 24
_RIGHT = 14


@dataclass(frozen=True)
class Panel:
    """One quantity along alpha, in the pixels of the SVG."""

    name: str
    kind: str
    top: int
    line: str
    ensemble: str
    band: str
    ticks: list[tuple[float, str]] = field(default_factory=list)
    points: list[tuple[float, float]] = field(default_factory=list)


def curve_figure(curve: MergeCurve) -> JsonObject:
    """What the template needs to draw the curve and to list its numbers."""
    panels = [
        _panel(curve, "accuracy", "Accuracy, %", TOP),
        _panel(curve, "nfr", "NFR, %", TOP + PANEL + GAP),
    ]
    rows = []
    for number, row in enumerate(curve.rows):
        ensemble = row.get("ensemble_accuracy"), row.get("ensemble_nfr")
        rows.append(
            {
                "alpha": f"{row['alpha']:.2f}",
                "x": panels[0].points[number][0],
                "accuracy": _with_interval(row, "accuracy"),
                "nfr": _with_interval(row, "nfr"),
                "ensemble": ", NFR ".join(percent(value) for value in ensemble if value is not None),
                "chosen": curve.chosen is not None and abs(row["alpha"] - curve.chosen) < 1e-9,
            }
        )
    return {
        "width": WIDTH,
        "height": TOP + 2 * PANEL + GAP + 44,
        "left": LEFT,
        "right": WIDTH - _RIGHT,
        "bottom": TOP + 2 * PANEL + GAP,
        "panel_height": PANEL,
        "panels": panels,
        "rows": rows,
        "chosen": None if curve.chosen is None else _x(curve.chosen),
        "chosen_text": None if curve.chosen is None else f"{curve.chosen:g}",
        "reason": curve.reason,
        "has_ensemble": any(panel.ensemble for panel in panels),
        "alpha_ticks": [(_x(tenth / 10), f"{tenth / 10:g}") for tenth in range(0, 11, 2)],
    }


def _panel(curve: MergeCurve, name: str, title: str, top: int) -> Panel:
    values = curve.column(name) or []
    low, high = curve.column(f"{name}_low"), curve.column(f"{name}_high")
    ensemble = curve.column(f"ensemble_{name}")
    drawn = [*values, *(ensemble or []), *(low or []), *(high or [])]
    floor, ceiling, step = whole_steps(min(drawn), max(drawn))

    def y(value: float) -> float:
        return round(top + PANEL * (ceiling - value) / (ceiling - floor), 1)

    xs = [_x(row["alpha"]) for row in curve.rows]

    def path(numbers: list[float] | None) -> str:
        return " ".join(f"{x},{y(value)}" for x, value in zip(xs, numbers, strict=True)) if numbers else ""

    band = ""
    if low and high:
        back = " ".join(f"{x},{y(value)}" for x, value in zip(reversed(xs), reversed(high), strict=True))
        band = f"{path(low)} {back}"
    count = round((ceiling - floor) / step)
    ticks = [(y(floor + i * step), f"{100 * (floor + i * step):.{digits_of(step)}f}") for i in range(count + 1)]
    points = [(x, y(value)) for x, value in zip(xs, values, strict=True)]
    return Panel(title, name, top, path(values), path(ensemble), band, ticks, points)


def _x(alpha: float) -> float:
    return round(LEFT + (WIDTH - LEFT - _RIGHT) * alpha, 1)


def whole_steps(low: float, high: float) -> tuple[float, float, float]:
    """A range of whole steps around the values, with at most six of them; fractions in, fractions out."""
    span = max(high - low, 2e-3)  # less than 0.2 points is a flat line, not a mountain
    step = next(base * 10.0**power for power in range(-6, 1) for base in (1, 2, 5) if 5 * base * 10.0**power >= span)
    floor, ceiling = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return floor * step, max(ceiling, floor + 1) * step, step


def digits_of(step: float) -> int:
    return max(0, -math.floor(math.log10(100 * step) + 1e-9))


def _with_interval(row: dict[str, float], name: str) -> str:
    low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
    shown = percent(row[name])
    return shown if low is None or high is None else f"{shown} ({100 * low:.2f} to {100 * high:.2f})"
