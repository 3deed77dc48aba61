"""A scatter of candidates as one SVG: accuracy over NFR, each point with its ranges, the front, and a limit.

No script and no style: colours are attributes, and text takes the colour of the page around it, light or dark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from .curve import digits_of, whole_steps

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 420, 64, 20, 20, 48
COLOURS = ("#2f86c1", "#c8641b", "#6a9a1f", "#9068e0", "#d0446c", "#7a8798")
_LIMIT = "#d34a4a"
Span = tuple[float, float]


@dataclass(frozen=True)
class Mark:
    """One point: x is NFR, y is accuracy or accuracy against something, both fractions, each with its range."""

    series: str
    x: float
    y: float
    x_range: Span
    y_range: Span
    title: str
    filled: bool = True
    ringed: bool = False


@dataclass(frozen=True)
class Axes:
    """What the axes are called, and whether numbers on the vertical one have their sign ("+")."""

    x: str
    y: str
    y_sign: str = ""
    limit: float | None = None
    limit_name: str = ""


def scatter_svg(marks: Sequence[Mark], front: Sequence[tuple[float, float]], axes: Axes) -> str:
    """The points in the colours of their series, the line through the front, and a dashed line at the limit."""
    scale = _Scale(marks, axes.limit)
    series = list(dict.fromkeys(mark.series for mark in marks))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="scatter" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(axes.y)} over {escape(axes.x)}" font-family="system-ui" font-size="13" '
        'fill="currentColor">',
        *_frame(scale, axes),
    ]
    if axes.limit is not None:
        y = scale.y(axes.limit)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="{_LIMIT}" stroke-dasharray="5 4"/>')
        parts.append(
            f'<text x="{WIDTH - RIGHT}" y="{y - 5:.1f}" text-anchor="end" fill="{_LIMIT}">'
            f"{escape(axes.limit_name)}</text>"
        )
    line = " ".join(f"{scale.x(x):.1f},{scale.y(y):.1f}" for x, y in front)
    parts.append(f'<polyline points="{line}" fill="none" stroke="#8b97a5" stroke-width="2"/>')
    parts += [_mark(mark, scale, COLOURS[series.index(mark.series) % len(COLOURS)]) for mark in marks]
    return "\n".join([*parts, *_legend(series), "</svg>"])


class _Scale:
    """From rates to pixels; right is more flips, up is more accurate."""

    def __init__(self, marks: Sequence[Mark], limit: float | None) -> None:
        _, self.most, self.x_step = whole_steps(0.0, max(mark.x_range[1] for mark in marks))
        heights = [value for mark in marks for value in (*mark.y_range, mark.y)]
        heights += [] if limit is None else [limit]
        self.low, self.high, self.y_step = whole_steps(min(heights), max(heights))

    def ticks(self) -> tuple[list[float], list[float]]:
        """Whole steps along both axes."""
        across, up = round(self.most / self.x_step), round((self.high - self.low) / self.y_step)
        return [self.x_step * i for i in range(across + 1)], [self.low + self.y_step * i for i in range(up + 1)]

    def x(self, nfr: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * nfr / self.most

    def y(self, accuracy: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (self.high - accuracy) / (self.high - self.low)


def _frame(scale: _Scale, axes: Axes) -> list[str]:
    parts = [f'<path d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}" fill="none" stroke="#8b97a5"/>']
    across, up = scale.ticks()
    for nfr in across:
        text = f"{100 * nfr:.{digits_of(scale.x_step)}f}"
        parts.append(f'<text x="{scale.x(nfr):.1f}" y="{HEIGHT - BOTTOM + 17}" text-anchor="middle">{text}</text>')
    for height in up:
        text, y = f"{100 * height:{axes.y_sign}.{digits_of(scale.y_step)}f}", scale.y(height)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#8b97a5" opacity=".25"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    return [
        *parts,
        f'<text x="{(WIDTH + LEFT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{escape(axes.x)}</text>',
        f'<text transform="translate(14 {HEIGHT / 2}) rotate(-90)" text-anchor="middle">{escape(axes.y)}</text>',
    ]


def _mark(mark: Mark, scale: _Scale, colour: str) -> str:
    x, y = scale.x(mark.x), scale.y(mark.y)
    place = f'cx="{x:.1f}" cy="{y:.1f}"'
    bars = (
        f'<path d="M{scale.x(mark.x_range[0]):.1f} {y:.1f}H{scale.x(mark.x_range[1]):.1f}M{x:.1f} '
        f'{scale.y(mark.y_range[0]):.1f}V{scale.y(mark.y_range[1]):.1f}" stroke="{colour}" opacity=".35"/>'
    )
    ring = f'<circle {place} r="10" fill="none" stroke="currentColor" stroke-width="2"/>' if mark.ringed else ""
    fill = colour if mark.filled else "none"
    return (
        f'{bars}{ring}<circle {place} r="5" fill="{fill}" stroke="{colour}" stroke-width="1.5">'
        f"<title>{escape(mark.title)}</title></circle>"
    )


def _legend(series: Sequence[str]) -> list[str]:
    """The names, at the upper right: few flips and much accuracy lie at the upper left."""
    parts = []
    for number, name in enumerate(series):
        y, colour = TOP + 12 + 17 * number, COLOURS[number % len(COLOURS)]
        parts.append(
            f'<circle cx="{WIDTH - RIGHT - 6}" cy="{y - 4}" r="5" fill="{colour}"/>'
            f'<text x="{WIDTH - RIGHT - 18}" y="{y}" text-anchor="end">{escape(_short(name))}</text>'
        )
    return parts


def _short(name: str, most: int = 40) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"
