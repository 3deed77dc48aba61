"""What the demo says: what ELODI is, and which model of a table a person would ship, and why."""

from __future__ import annotations

from ..flips.render.wording import points
from ..flips.report import FlipReport

INTRODUCTION = """\
What does an update break? Three models are updated here, each first in the usual way: more data, trained again.
Accuracy says how much better they get. The flips say what worked before and does not any more."""

WHY_TAUGHT = """\
No weight of the old model fits into the new one, so that it can neither start from it nor be merged with it. What the
old model knows can only be taught: by its logits, as strongly as the development rows allow."""

WHAT_ELODI_IS = """\
Each version is trained with ELODI, by itself and without a look at the other: first {members} members, plain
runs from other seeds, then a student whose logits are held near the mean of theirs. Means of runs lie
closer together than runs do, so that any two such students should flip little, whichever comes next.
The price is paid in training: {members} members, and a student that takes as long as two of them. What goes
out is one model, and its answers cost what they did before.
"""


def recommendation(plain: FlipReport, shipped: FlipReport, margin: float) -> str:
    """Whether to ship the last row of a table, held against the most accurate plain model."""
    gain = shipped.counts.new_accuracy - plain.counts.new_accuracy
    broken, before = int(shipped.counts.negative_flips), int(plain.counts.negative_flips)
    rows = f"breaks {broken} rows instead of {before}"
    if gain > 0 and broken < before:
        return f"Ship the last one: it is {points(gain)} more accurate than the best plain model, and {rows}."
    if broken < before:
        allowed = f", of which the contract allows {points(margin)} on the development rows" if margin else ""
        lost = "as accurate as" if gain == 0 else f"{points(-gain)} less accurate than"
        return f"Ship the last one where flips count: it {rows}. It is {lost} the best plain model{allowed}."
    chosen = " More development rows would choose better." if margin else ""
    return (
        f"The last one breaks {broken} rows and the best plain model {before}: here it is no better, so ship the "
        f"plain one.{chosen}"
    )
