"""Which checkpoint of a run to keep: the fewest flips among those that keep the best accuracy.

Flips alone choose badly: a model that starts from the old one flips least before it has learnt anything. A contract
compares checkpoints by both, as `BCWIMerger` chooses an alpha: first accuracy, up to a margin, then flips.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

METRIC = "contract"


def contract_score(
    history: Iterable[Mapping[str, float]], metrics: Mapping[str, float], prefix: str, margin: float
) -> int:
    """How many times a better checkpoint was found so far, this one included; 0 when an earlier one stays the best.

    A larger number is a better checkpoint, so `Trainer` and `EarlyStoppingCallback` can go by it as they are. A
    checkpoint is better than the best so far when its accuracy is within `margin` of the highest so far, and either
    the best one's is not, or it has fewer negative flips.

    >>> seen = [{"eval_accuracy": 0.80, "eval_nfr": 0.00}, {"eval_accuracy": 0.83, "eval_nfr": 0.02}]
    >>> contract_score(seen[:1], seen[1], "eval", margin=0.01)
    2
    >>> contract_score(seen, {"eval_accuracy": 0.79, "eval_nfr": 0.0}, "eval", margin=0.01)
    0
    """
    names = (f"{prefix}_accuracy", f"{prefix}_nfr")
    entries = [[float(entry[name]) for name in names] for entry in [*history, metrics] if names[1] in entry]
    best: list[float] = []
    highest, times, kept = 0.0, 0, False
    for accuracy, nfr in entries:
        highest = max(highest, accuracy)
        floor = highest - margin - 1e-12  # two accuracies that differ by rounding are the same
        kept = not best or (accuracy >= floor and (best[0] < floor or (nfr, -accuracy) < (best[1], -best[0])))
        if kept:
            best, times = [accuracy, nfr], times + 1
    return times if kept else 0
