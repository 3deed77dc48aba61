"""The noise floor of scores: how much changes when nothing was updated."""

from typing import TYPE_CHECKING

import numpy as np

from ....core.errors import NotComparableError
from ...tables.scores import Scores
from ..pairing import TaskPair, pair_task
from ..task_report import ScoreFloor
from .means import item_means
from .outcomes import OUTCOMES, Rule, Shares
from .shares import again_shares, item_shares

if TYPE_CHECKING:
    from ..choices import Settings


def noise_floor(
    pair: TaskPair,
    rule: Rule,
    old: np.ndarray,
    answers: np.ndarray | None,
    shares: Shares,
    rerun: Scores | None,
    clusters: np.ndarray | None,
    settings: "Settings",
) -> ScoreFloor | None:
    """Old against old again: from a second table of the old version or its repeated runs; None without either."""
    if rerun is not None:
        source, floor, gain = _from_rerun(pair, rule, old, rerun)
    elif old.shape[1] > 1:
        source, floor, gain = "runs of the old version", again_shares(old, rule, answers), _run_spread(old)
    else:
        return None
    known = ~np.isnan(floor.of("broken"))
    rates = {name: float(floor.of(name)[known].mean()) for name in reversed(OUTCOMES)}
    rates |= {"dropped": float(floor.dropped[known].mean()), "risen": float(floor.risen[known].mean())}
    excess = (shares.of("broken") - floor.of("broken"))[known]
    groups = None if clusters is None else clusters[known]
    return _floor(source, rates, gain, excess, groups, settings.confidence)


def _floor(
    source: str,
    rates: dict[str, float],
    gain: float,
    excess: np.ndarray,
    clusters: np.ndarray | None,
    confidence: float,
) -> ScoreFloor:
    from .means import gain_interval
    from .sign_flip import sign_flip

    interval = gain_interval(excess, clusters, confidence, 1.0)
    return ScoreFloor(source, rates, gain, float(excess.mean()), interval, sign_flip(excess, clusters).p_value)


def _from_rerun(pair: TaskPair, rule: Rule, old: np.ndarray, rerun: Scores) -> tuple[str, Shares, float]:
    metrics = rerun.metrics_of(pair.task) if pair.task in rerun.task_names else []
    if pair.metric.name not in metrics:
        present = ", ".join(metrics) or f"only the tasks {', '.join(rerun.task_names)}"
        raise NotComparableError(
            f"The second run of the old version has no {pair.metric.name} for task {pair.task}; it has {present}. "
            "Score it as the old version was."
        )
    again = pair_task(pair.old.table, rerun, pair.task, pair.metric, allow_partial=True)
    places = np.full(len(pair.old.first), -1)
    places[again.old_at] = np.arange(again.coverage.compared)
    wanted = places[pair.old_at]
    if (wanted < 0).any():
        raise NotComparableError(
            f"The second run of the old version lacks {int((wanted < 0).sum())} of the {len(wanted)} compared items "
            f"of task {pair.task}. Score it on the same rows as the old and the new version."
        )
    first, second = again.oriented()
    one, two = again.answers()
    gain = abs(float((item_means(second) - item_means(first))[wanted].mean()))
    codes = (None, None) if one is None or two is None else (one[wanted], two[wanted])
    return "a second run of the old version", item_shares(old, second[wanted], rule, *codes), gain


def _run_spread(old: np.ndarray) -> float:
    """How far the means of two runs of the old version typically lie apart."""
    means = np.nanmean(old, axis=0)
    return float(np.sqrt(2) * means.std(ddof=1))
