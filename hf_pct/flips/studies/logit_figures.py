"""The papers' figures as numbers, from two models' logits on the same rows.

A report keeps them as a few hundred quantiles instead of one number per row, so every figure can be drawn from the
saved report alone, however many rows were compared.
"""

from collections.abc import Iterable

import numpy as np

from ...core.decode import JsonObject
from ...core.labels import LabelAlignment

MOST_POINTS = 400


def displacement_norms(old_logits: np.ndarray, new_logits: np.ndarray, classes: LabelAlignment) -> np.ndarray:
    """How far each row's logits moved, over the classes that both models have (Zhao et al., section 3)."""
    return np.linalg.norm(new_logits[:, classes.new_index] - old_logits[:, classes.old_index], axis=-1)


def answer_ranks(logits: np.ndarray, answers: np.ndarray) -> np.ndarray:
    """Where each answer stands among a model's logits; 1 is its own answer (Zhao et al., Fig. 4)."""
    chosen = logits[np.arange(len(logits)), answers]
    return 1 + (logits > chosen[:, None]).sum(-1)


def entropy(logits: np.ndarray) -> np.ndarray:
    """How unsure a model is of each row, in nats."""
    shifted = logits.astype(np.float64) - logits.max(-1, keepdims=True)
    probabilities = np.exp(shifted)
    total = probabilities.sum(-1, keepdims=True)
    # where a class is masked out (-inf), its share is 0 and adds nothing
    logs = np.where(np.isneginf(shifted), 0.0, shifted) - np.log(total)
    return -(probabilities / total * logs).sum(-1)


def pair_figures(
    blocks: Iterable[tuple[np.ndarray, np.ndarray]],
    classes: LabelAlignment,
    old_right: np.ndarray,
    new_right: np.ndarray,
    new_answers_in_old: np.ndarray,
) -> dict[str, JsonObject]:
    """The arguments of `viz` figures by their names. `blocks` are the old and the new logits, some rows at a time.

    `new_answers_in_old` holds the new answers as columns of the old model's logits, -1 where it has no such class.
    """
    broken = old_right & ~new_right
    groups = {"negative flips": broken, "other rows": ~broken}
    known = broken & (new_answers_in_old >= 0)
    norms, unsure = np.empty(len(broken)), np.empty(len(broken))
    ranks: list[np.ndarray] = []
    start = 0
    for old_logits, new_logits in blocks:
        rows = slice(start, start + len(old_logits))
        norms[rows], unsure[rows] = displacement_norms(old_logits, new_logits, classes), entropy(old_logits)
        ranked = known[rows]
        ranks.append(answer_ranks(old_logits[ranked], new_answers_in_old[rows][ranked]))
        start += len(old_logits)
    figures: dict[str, JsonObject] = {
        "displacement_histogram": {"norms": thinned_by_group(norms, groups)},
        "uncertainty_histograms": {
            "values": thinned_by_group(unsure, groups),
            "unit": "entropy of the old model, nats",
            "counts": count_by_group(groups),
        },
    }
    if known.any():
        listed = thin(np.concatenate(ranks))
        figures["rank_histogram"] = {"ranks": {"negative flips": [int(rank) for rank in listed]}}
    return figures


def count_by_group(groups: dict[str, np.ndarray]) -> dict[str, int]:
    """How many rows each group has, which quantiles no longer tell."""
    return {name: int(rows.sum()) for name, rows in groups.items() if rows.any()}


def thinned_by_group(values: np.ndarray, groups: dict[str, np.ndarray]) -> dict[str, list[float]]:
    """The values of each group of rows as a report keeps them; a group without rows is left out."""
    return {name: [round(float(v), 4) for v in thin(values[rows])] for name, rows in groups.items() if rows.any()}


def thin(values: np.ndarray, most: int = MOST_POINTS) -> np.ndarray:
    """All values in order, or as many evenly spaced quantiles: either gives the same histogram."""
    ordered = np.sort(values)
    if len(ordered) <= most:
        return ordered
    return ordered[np.linspace(0, len(ordered) - 1, most).round().astype(int)]
