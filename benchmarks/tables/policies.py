"""Answers decided row by row from the committed answers of several versions: nothing is trained for these rows.

The policy learns on one half of the test rows and decides the other half, and then the other way round. So every row
is decided, and none by a policy that has learnt from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.tables.store import Answers
from hf_pct.flips.tables.predictions import Predictions
from hf_pct.policies import bayesian_update


def decided(versions: Sequence[Answers], policy: Mapping[str, Any]) -> list[Answers]:
    """What stands after each version, the oldest first, by the policy of a table's row."""
    settings = dict(policy)
    rule = settings.pop("rule")
    if rule == "replace":
        return list(versions)
    answers = np.stack([version.answers for version in versions])
    if rule == "majority":
        steps = np.stack([_majority(answers[: count + 1]) for count in range(len(answers))])
    else:
        steps = np.empty_like(answers)
        for half in _halves(len(answers[0])):
            steps[:, half] = _bayes(versions, half, rule, settings)
    return [replace(version, answers=step) for version, step in zip(versions, steps, strict=True)]


def _majority(answers: np.ndarray) -> np.ndarray:
    """The most frequent answer to each row; of two as frequent ones the newest."""
    votes = (answers[:, None] == answers[None]).sum(1)
    newest_first = votes[::-1].argmax(0)
    return answers[::-1][newest_first, np.arange(answers.shape[1])]


def _halves(rows: int) -> tuple[np.ndarray, np.ndarray]:
    order = np.random.default_rng(0).permutation(rows)
    return order[: rows // 2], order[rows // 2 :]


def _bayes(versions: Sequence[Answers], judged: np.ndarray, rule: str, settings: Mapping[str, Any]) -> np.ndarray:
    learnt = np.setdiff1d(np.arange(len(versions[0].labels)), judged)
    update = bayesian_update(
        [_table(version, judged) for version in versions],
        [_table(version, learnt) for version in versions],
        rule=rule,
        **settings,
    )
    return np.stack([np.asarray(step.predictions).astype(int) for step in update.steps])


def _table(version: Answers, rows: np.ndarray) -> Predictions:
    labels, answers = (values[rows].astype(str) for values in (version.labels, version.answers))
    return Predictions(version.ids[rows], labels, answers, label_names=version.classes.astype(str))
