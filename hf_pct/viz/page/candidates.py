"""The candidates of an update as one self-contained page: accuracy lost against NFR, the front, the contract, why.

No script and nothing loaded: an SVG whose points say their recipe when hovered, and the same numbers as a table.
"""

from __future__ import annotations

from html import escape

from ...flips.choice.choose import Choice, Point

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 420, 64, 20, 20, 48
_COLOURS = ("#0b6fa4", "#b8530b", "#4d7c0f", "#7c3aed", "#b91c4b", "#475569")


def pareto_front(points: list[Point]) -> list[Point]:
    """The points that no other beats in both expected NFR and expected accuracy, from few flips to many."""
    front: list[Point] = []
    for point in sorted(points, key=lambda point: (point.expected_nfr, point.expected_loss)):
        if not front or point.expected_loss < front[-1].expected_loss:
            front.append(point)
    return front


def candidates_svg(choice: Choice, shipped: Point | None) -> str:
    """Accuracy against the yardstick (up is better) over NFR (left is better), with 90 % ranges of the fit."""
    points = [point for point in choice.points if point.alpha < 1]
    scale = _Scale(points, choice.contract.allowed_loss)
    names = list(dict.fromkeys(point.candidate for point in points))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img" '
        'aria-label="Candidates: accuracy against negative flip rate" font-family="system-ui" font-size="12">',
        *_axes(scale),
    ]
    if choice.contract.accuracy_matters and choice.contract.target_accuracy is None:
        y = scale.y(choice.contract.allowed_loss)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#b91c1c" stroke-dasharray="5 4"/>')
        parts.append(f'<text x="{WIDTH - RIGHT}" y="{y - 5:.1f}" text-anchor="end" fill="#b91c1c">contract</text>')
    line = " ".join(
        f"{scale.x(point.expected_nfr):.1f},{scale.y(point.expected_loss):.1f}" for point in pareto_front(points)
    )
    parts.append(f'<polyline points="{line}" fill="none" stroke="#94a3b8" stroke-width="2"/>')
    parts += [_mark(point, scale, _COLOURS[names.index(point.candidate) % len(_COLOURS)], shipped) for point in points]
    for number, name in enumerate(names):
        colour = _COLOURS[number % len(_COLOURS)]
        parts.append(f'<text x="{LEFT + 8}" y="{TOP + 14 + 15 * number}" fill="{colour}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>"])


class _Scale:
    """From rates to pixels."""

    def __init__(self, points: list[Point], margin: float) -> None:
        self.most_flips = max([point.nfr_high for point in points] + [0.001]) * 1.05
        losses = [value for point in points for value in (point.loss_low, point.loss_high)] + [0.0, margin]
        self.low, self.high = min(losses) - 0.001, max(losses) + 0.001

    def x(self, nfr: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * nfr / self.most_flips

    def y(self, loss: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (loss - self.low) / (self.high - self.low)


def _axes(scale: _Scale) -> list[str]:
    parts = [f'<path d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}" fill="none" stroke="#64748b"/>']
    for step in range(6):
        nfr, loss = scale.most_flips * step / 5, scale.low + (scale.high - scale.low) * step / 5
        parts.append(
            f'<text x="{scale.x(nfr):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{100 * nfr:.2f}</text>'
        )
        parts.append(f'<text x="{LEFT - 6}" y="{scale.y(loss) + 4:.1f}" text-anchor="end">{-100 * loss:+.2f}</text>')
    middle = (WIDTH + LEFT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">NFR, % (expected, with 90 % range)</text>')
    parts.append(
        f'<text transform="translate(14 {HEIGHT / 2}) rotate(-90)" text-anchor="middle">'
        "accuracy against the yardstick, points</text>"
    )
    return parts


def _mark(point: Point, scale: _Scale, colour: str, shipped: Point | None) -> str:
    x, y = scale.x(point.expected_nfr), scale.y(point.expected_loss)
    place = f'cx="{x:.1f}" cy="{y:.1f}"'
    bars = (
        f'<path d="M{scale.x(point.nfr_low):.1f} {y:.1f}H{scale.x(point.nfr_high):.1f}M{x:.1f} '
        f'{scale.y(point.loss_low):.1f}V{scale.y(point.loss_high):.1f}" stroke="{colour}" opacity=".25"/>'
    )
    ring = f'<circle {place} r="10" fill="none" stroke="#111827" stroke-width="2"/>' if _is(point, shipped) else ""
    fill = colour if point.allowed else "none"
    title = (
        f"{point.candidate}, alpha {point.alpha:g}: measured accuracy {100 * point.accuracy:.2f} %, NFR "
        f"{100 * point.nfr:.2f} %; expected NFR {100 * point.expected_nfr:.2f} %, expected loss "
        f"{100 * point.expected_loss:.2f} points; chance of a broken promise {point.risk:.0%}"
    )
    dot = f'<circle {place} r="5" fill="{fill}" stroke="{colour}"><title>{escape(title)}</title></circle>'
    return bars + ring + dot


def _is(point: Point, shipped: Point | None) -> bool:
    return shipped is not None and (point.candidate, point.alpha) == (shipped.candidate, shipped.alpha)


def _cells(point: Point) -> tuple[str, ...]:
    rates = (point.accuracy, point.nfr, point.expected_nfr, point.expected_loss)
    percents = (f"{100 * rate:.2f}" for rate in rates)
    keeps = "yes" if point.allowed else "no"
    return (escape(point.candidate), f"{point.alpha:g}", *percents, f"{point.risk:.0%}", keeps)


def candidates_page(choice: Choice, shipped: Point | None, sentence: str) -> str:
    """The whole page as one file."""
    rows = "".join(
        f"<tr{' class=chosen' if _is(point, shipped) else ''}>"
        + "".join(f"<td>{cell}</td>" for cell in _cells(point))
        + "</tr>"
        for point in choice.points
    )
    heads = ("candidate", "alpha", "accuracy, %", "NFR, %", "expected NFR, %", "expected loss", "risk", "keeps")
    head = "".join(f"<th>{name}</th>" for name in heads)
    style = "body{font:15px system-ui;margin:2em auto;max-width:60em}td,th{padding:.2em .8em;text-align:right}"
    style += "td:first-child{text-align:left}.chosen{font-weight:bold;background:#eef}svg{max-width:100%}"
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}"><title>Update: candidates</title>'
        f"<style>{style}</style><h1>Candidates</h1><p>{escape(sentence)}</p>{candidates_svg(choice, shipped)}"
        f"<p>Filled points keep the contract; the ring is the one that was written. Yardstick: "
        f"{escape(choice.yardstick)}.</p><table><tr>{head}</tr>{rows}</table></html>\n"
    )
