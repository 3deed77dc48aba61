"""Policies as candidates: answers decided between the old model's and a new one's. They cost no training.

Fusion looks at both models' confidences and needs two forwards per row, so it is tried only when that is allowed, or
when the old model is a table of answers anyway. The Bayesian update needs answers alone. Whatever a policy learns
from labels, it learns on the rows that the search may see; its curve there is cross-fitted in two halves.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..flips.choice.curve import AlphaCurve
from ..flips.tables.predictions import Predictions
from ..models.data import Rows
from ..policies.bayes import bayesian_update
from ..policies.fusion import KINDS, at_strength, fused_curve, fused_table
from ..policies.versions import cross_fits, select_rows
from .candidates import Measured, right_rows
from .inputs.old_tables import join_tables
from .planning.plan import Plan
from .training import Workshop

FUSION, BAYES = "fusion", "bayes"
RATIOS = (1.0, 2.0, 5.0, 10.0, 20.0)
"""What a negative flip may cost against a positive one; the larger, the more the old answer counts."""


def policy_candidates(
    workshop: Workshop,
    plan: Plan,
    measured: Sequence[Measured],
    methods: Sequence[str] | None = None,
    search_rows: np.ndarray | None = None,
) -> list[Measured]:
    """Policies over the old model and every unmerged candidate, where the plan allows them."""
    case = plan.case
    allowed = [name for name in (FUSION, BAYES) if methods is None or name in methods]
    if not (case.two_forwards or case.predictions_only):
        return []
    dev = workshop.data.dev
    search = np.arange(len(dev)) if search_rows is None else search_rows
    old = workshop.old_answers(dev)
    made = []
    for base in measured:
        if len(base.folders) > 1:
            continue
        new = workshop.answers(str(base.folders[0]), dev)
        if FUSION in allowed and old.logits is not None:
            for kind in KINDS:
                fusion, curve = fused_curve(kind, old, new, search)
                name = f"fusion ({kind}) of the old model and {base.name}"
                made.append(Measured(name, base.recipes, base.folders, curve, False, FUSION, fusion))
        if BAYES in allowed and case.predictions_only:
            curve = _bayes_curve(old, new, right_rows(old, dev), right_rows(new, dev), search)
            name = f"Bayesian update of the old answers by {base.name}"
            made.append(Measured(name, base.recipes, base.folders, curve, False, BAYES))
    return made


def ratio_at(alpha: float) -> float:
    """The ratio of costs at an alpha of the Bayesian update's curve."""
    return RATIOS[round(alpha * (len(RATIOS) + 1)) - 1]


def _bayes_curve(
    old: Predictions, new: Predictions, old_right: np.ndarray, new_right: np.ndarray, search: np.ndarray
) -> AlphaCurve:
    correct = {0.0: new_right}
    for number, ratio in enumerate(RATIOS, 1):
        right = np.zeros(len(old_right), bool)
        for learnt, decided in cross_fits(len(old_right), search):
            table = decide(old, new, learnt, decided, ratio)
            right[decided] = table.predictions == table.labels
        correct[number / (len(RATIOS) + 1)] = right
    return AlphaCurve.of(old_right, correct)


def decide(old: Predictions, new: Predictions, learnt: np.ndarray, decided: np.ndarray, ratio: float) -> Predictions:
    """The Bayesian update's answers to some rows of two tables, with mistakes estimated on other rows of them."""
    versions, calibration = ([select_rows(table, rows) for table in (old, new)] for rows in (decided, learnt))
    return bayesian_update(versions, calibration, rule="cost-ratio", cost_ratio=ratio).table


def decided_answers(
    chosen: Measured, alpha: float, workshop: Workshop, new: Predictions, judged: Rows, search: np.ndarray
) -> Predictions:
    """The policy's answers to rows with the old model's looked up; it has learnt from the `search` rows alone."""
    old, dev = workshop.old_answers(judged), workshop.data.dev
    if alpha == 0:
        return new
    if chosen.fusion is not None:
        return fused_table(old, new, at_strength(chosen.fusion, alpha))
    if judged is dev:  # rows that it learnt from are decided by what the others taught
        parts = [decide(old, new, *rows, ratio_at(alpha)) for rows in cross_fits(len(dev), search)]
        return join_tables(parts)
    both = (workshop.old_answers(dev), workshop.answers(str(chosen.folders[0]), dev))
    learnt = [select_rows(table, search) for table in both]
    return bayesian_update([old, new], learnt, rule="cost-ratio", cost_ratio=ratio_at(alpha)).table
