"""How unsure an ensemble is of each row, and whether that predicts flips (Yan et al., Fig. 4).

A single model's probabilities say little about what it does not know. Independent runs that disagree say more
(Lakshminarayanan et al. 2017), and rows on which they do are where an update flips.
"""

from collections.abc import Sequence

import numpy as np
from scipy.special import entr, softmax

from ...core.decode import JsonObject
from ...core.errors import NotComparableError
from ..pairing import pair_predictions
from ..tables.predictions import Predictions
from .logit_figures import count_by_group, thinned_by_group
from .member_tables import MemberTables, align_members

KINDS = {
    "entropy": "entropy of the ensemble's mean probabilities, nats",
    "disagreement": "mean KL divergence of the members from their mean, nats",
}


def ensemble_uncertainty(members: Sequence[Predictions], kind: str = "entropy") -> np.ndarray:
    """One number per row in nats, in the first member's order of rows.

    Args:
        members: tables with logits on the same rows, of models with the same set of classes.
        kind: `"entropy"` of the mean of the members' probabilities, high where each member is unsure and where they
            contradict each other; or `"disagreement"`, the mean KL divergence of the members from that mean, high only
            where they contradict each other. One member has an entropy, but needs another to disagree with.
    """
    return _uncertainty(align_members(members, at_least=_check_kind(kind)), kind)


def uncertainty_of_flips(
    old: Predictions, new: Predictions, members: Sequence[Predictions], kind: str = "entropy"
) -> JsonObject:
    """The arguments of `viz.plots.uncertainty_histograms`: how unsure an ensemble is of flips and other rows.

    The groups are "negative flips", "other rows" (all but those) and, among the latter, "kept": right before and
    after. A group without rows is left out. Rows are those whose label the old model knows, as in `compare`; the
    ensemble may have other classes than either model.
    """
    at_least = _check_kind(kind)
    pair = pair_predictions(old, new)
    counted = pair.old_classes_mask()
    if not counted.any():
        raise NotComparableError(
            f"None of the {len(counted)} rows has a label that the old model knows, so nothing can flip."
        )
    old_right, new_right = pair.old_answers == pair.labels, pair.new_answers == pair.labels
    broken = counted & old_right & ~new_right
    groups = {"negative flips": broken, "other rows": counted & ~broken, "kept": counted & old_right & new_right}
    values = _uncertainty(align_members(members, like=old, at_least=at_least), kind)
    return {"values": thinned_by_group(values, groups), "unit": KINDS[kind], "counts": count_by_group(groups)}


def _check_kind(kind: str) -> int:
    """How many members this kind needs."""
    if kind not in KINDS:
        raise ValueError(f"kind is {kind!r}, expected one of {', '.join(map(repr, KINDS))}.")
    return 2 if kind == "disagreement" else 1


def _uncertainty(members: MemberTables, kind: str) -> np.ndarray:
    mean = np.zeros(members.logits[0].shape)
    own = np.zeros(len(mean))
    for logits in members.logits:
        probabilities = softmax(logits.astype(np.float64), axis=-1)
        mean += probabilities / len(members)
        own += entr(probabilities).sum(-1) / len(members)
    total = entr(mean).sum(-1)
    # the mean KL divergence from the mean is the entropy of the mean less the mean entropy; never below 0
    return total if kind == "entropy" else np.maximum(total - own, 0.0)
