"""A verdict after every label: ship, hold back, or label on. Valid whenever one stops."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from .sampling import log_chance

Verdict = Literal["ship", "hold back", "label on"]


@dataclass(frozen=True)
class SequentialVerdict:
    """Whether the traffic's NFR is at most `max_nfr`, and after how many labels that was certain."""

    verdict: Verdict
    max_nfr: float
    labels_used: int
    labels_seen: int


def decide(
    rights: Iterable[str], differ: int, rows: int, max_nfr: float, confidence: float = 0.95
) -> SequentialVerdict:
    """Go through the labels (old, new, neither, unsure) in the order of the plan and stop once the verdict is certain.

    The verdict is wrong with a chance of at most 1 - confidence, however often one looks. NFR cannot exceed churn: if
    that is small enough, no label is needed. An unsure label counts against either verdict.
    """
    if not 0 <= max_nfr <= 1:
        raise ValueError(f"max_nfr is {max_nfr}, expected a fraction from 0 to 1 (1 % is 0.01).")
    allowed = math.floor(max_nfr * rows + 1e-9)
    if differ <= allowed:
        return SequentialVerdict("ship", max_nfr, 0, 0)
    error = math.log(1 - confidence)
    old = unsure = labelled = 0
    seen = list(rights)
    for right in seen:
        labelled += 1
        old, unsure = old + (right == "old"), unsure + (right == "unsure")
        limit = error - math.log(labelled + 1)
        if _excludes(old + unsure, labelled, allowed + 1, differ, limit, above=True):
            return SequentialVerdict("ship", max_nfr, labelled, len(seen))
        if _excludes(old, labelled, allowed, differ, limit, above=False):
            return SequentialVerdict("hold back", max_nfr, labelled, len(seen))
    return SequentialVerdict("label on", max_nfr, labelled, len(seen))


def _excludes(count: int, labelled: int, total: int, differ: int, limit: float, *, above: bool) -> bool:
    """Whether the labels exclude `total` right old answers and every number beyond it."""
    beyond = total * labelled >= count * differ if above else total * labelled <= count * differ
    return beyond and log_chance(count, labelled, total, differ) <= limit
