"""What margins tell of accuracy beyond a count: the error of a difference on 500 rows, and what smoothing moves.

    python -m benchmarks.updates --margins

Every candidate at every alpha beside the plain model, over all rows that were measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from hf_pct.flips.choice.curve import AlphaCurve
from hf_pct.flips.choice.margins import smoothed

HEADER = (
    "| update | models | error, counted | error, smoothed | worth, in rows | moved by smoothing | of it noise |\n"
    "|---|---|---|---|---|---|---|"
)
ROWS = 500


def margins_line(name: str, seeds: Iterable[dict[str, AlphaCurve]]) -> str | None:
    """One line: root mean squares over candidates, alphas and seeds, in points; None without margins."""
    found: list[Sequence[float]] = []
    for curves in seeds:
        yard, merged = curves["plain"].new_margins, len(curves["plain"].alphas) > 1
        for curve in curves.values():
            if (len(curve.alphas) > 1) != merged:  # a model that started elsewhere is not compared by margins
                continue
            places = [i for i, alpha in enumerate(curve.alphas) if alpha < 1]
            found += [entry for i in places if (entry := _compared(curve, i, yard))]
    if not found:
        return None
    counted, smooth, moved, noise = 100 * np.sqrt(np.mean(np.square(found), axis=0))
    return (
        f"| {name} | {len(found)} | {counted:.2f} | {smooth:.2f} | {(counted / smooth) ** 2:.1f} times | "
        f"{moved:.2f} | {noise:.2f} |"
    )


def _compared(curve: AlphaCurve, place: int, yard: np.ndarray | None) -> Sequence[float] | None:
    """Standard errors on `ROWS` rows of both differences, how far apart they are, and what of that may be noise."""
    if curve.margins is None or yard is None:
        return None
    own = curve.margins[place]
    if not np.isfinite(own).all() or np.array_equal(own, yard):
        return None
    hard = (own > 0).astype(float) - (yard > 0)
    soft = np.subtract(*smoothed(np.stack([own, yard])))
    errors = (rows.std() / np.sqrt(ROWS) for rows in (hard, soft))
    return (*errors, soft.mean() - hard.mean(), (soft - hard).std() / np.sqrt(curve.total))
