"""The Bayesian update (Träuble et al., 2021): every version is a witness whose mistakes are known.

How often version v answers i on rows of class k is estimated on calibration rows. The answers of all versions so far
then give each row a posterior over classes, and a rule says when the stored answer is changed:

    map           it is the most probable class
    min-entropy   it becomes the most probable class when the new answer made the posterior surer
    cost-ratio    it becomes the most probable class when that is more probable than the **stored** answer by more than
                  what a negative flip costs against a positive one (the public code compares with the former best)

With a budget below 1 a new version answers only that share of the rows, those with the highest entropy first.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..flips.counts import count_flips
from ..flips.studies.member_tables import table_names
from ..flips.tables.predictions import Predictions
from .beliefs import Beliefs, DenseBeliefs, SparseBeliefs
from .versions import Versions, align_both, decided_provenance

RULES = ("map", "min-entropy", "cost-ratio")
CONFUSIONS = ("auto", "full", "diagonal")
MOST_FULL_CLASSES = 100
ROWS_PER_CLASS = 20
"""With fewer calibration rows per class, a whole confusion matrix is mostly smoothing: the diagonal is taken."""


@dataclass(frozen=True)
class BayesianUpdate:
    """What was decided: `steps[v]` are the stored answers after version v, the last of them is `table`.

    Example:
        >>> from hf_pct import Predictions
        >>> from hf_pct.policies import bayesian_update
        >>> labels = ["a", "b"] * 3
        >>> versions = [Predictions(list(range(6)), labels, answers) for answers in (labels, ["b", "b"] * 3)]
        >>> seen = [Predictions(list(range(6, 12)), labels, answers) for answers in (labels, ["b", "b"] * 3)]
        >>> update = bayesian_update(versions, calibration=seen)
        >>> update.asked, update.table.accuracy
        ((6, 6), 1.0)
    """

    steps: tuple[Predictions, ...]
    asked: tuple[int, ...]
    rule: str
    confusion: str

    @property
    def table(self) -> Predictions:
        return self.steps[-1]

    def to_text(self) -> str:
        """One line per version: how many rows it answered, and what stands after it."""
        lines = [
            f"Bayesian update, rule {self.rule}, {self.confusion} confusion; rows answered, accuracy, NFR of the step"
        ]
        for number, (step, asked) in enumerate(zip(self.steps, self.asked, strict=True)):
            broken = "" if not number else f"   NFR {100 * _nfr(self.steps[number - 1], step):.2f} %"
            lines.append(f"  after version {number + 1}: {asked:>8}   {100 * step.accuracy:.2f} %{broken}")
        return "\n".join(lines)


def bayesian_update(
    versions: Sequence[Predictions],
    calibration: Sequence[Predictions],
    *,
    rule: str = "cost-ratio",
    cost_ratio: float = 5.0,
    budget: float = 1.0,
    confusion: str = "auto",
    smoothing: float = 1.0,
) -> BayesianUpdate:
    """Decide each row from the answers of all versions, the oldest first.

    Args:
        versions: one table per version, on the same rows.
        calibration: the same versions on other, labelled rows, from which their mistakes are estimated.
        rule: when the stored answer is changed: "map", "min-entropy" or "cost-ratio".
        cost_ratio: what a negative flip costs against a positive one; the paper tries 2, 5 and 10.
        budget: the share of rows that each new version answers.
        confusion: "full" matrices, their "diagonal" alone, or "auto": the diagonal when classes are many or rows few.
        smoothing: rows added to every count.

    Example:
        >>> from hf_pct import Predictions
        >>> from hf_pct.policies import bayesian_update
        >>> rows = list(range(6)); other = list(range(6, 12)); truth = ["a", "b"] * 3
        >>> old, new = Predictions(rows, truth, truth), Predictions(rows, truth, ["b", "b"] * 3)
        >>> seen = [Predictions(other, truth, truth), Predictions(other, truth, ["b", "b"] * 3)]
        >>> bayesian_update([old, new], seen).table.accuracy
        1.0
    """
    _check_settings(rule, cost_ratio, budget, confusion, smoothing)
    decided, learnt = align_both(versions, calibration)
    kind = _confusion_kind(confusion, learnt)
    beliefs = _beliefs(decided, learnt, kind, smoothing)
    rows = decided.answers.shape[1]
    stored = decided.answers[0]
    history, asked = [stored], [rows]
    beliefs.observe(0, np.ones(rows, dtype=bool))
    for version in range(1, len(decided.answers)):
        before = beliefs.entropy()
        chosen = _most_unsure(before, budget)
        beliefs.observe(version, chosen)
        stored = np.where(_changes(rule, cost_ratio, beliefs, stored, before), beliefs.best(), stored)
        history.append(stored)
        asked.append(int(chosen.sum()))
    settings = {"policy": "bayes", "rule": rule, "budget": budget, "confusion": kind, "smoothing": smoothing}
    settings |= {"cost_ratio": cost_ratio} if rule == "cost-ratio" else {}
    steps = (_table(decided, answers, number, settings) for number, answers in enumerate(history, start=1))
    return BayesianUpdate(tuple(steps), tuple(asked), rule, kind)


def _nfr(before: Predictions, after: Predictions) -> float:
    return count_flips(before.predictions, after.predictions, after.labels).nfr


def _check_settings(rule: str, cost_ratio: float, budget: float, confusion: str, smoothing: float) -> None:
    problems = [
        f"{name}={value!r}: expected one of {', '.join(choices)}"
        for name, value, choices in (("rule", rule, RULES), ("confusion", confusion, CONFUSIONS))
        if value not in choices
    ]
    if not 0 < cost_ratio < float("inf"):
        problems.append(f"cost_ratio={cost_ratio!r}: expected a finite number > 0, the paper tries 2, 5 and 10")
    if not 0 <= budget <= 1:
        problems.append(f"budget={budget!r}: expected a share of the rows, from 0 to 1")
    if not 0 < smoothing < float("inf"):
        problems.append(f"smoothing={smoothing!r}: expected a finite number > 0")
    if problems:
        raise ValueError("This Bayesian update cannot be made:\n  " + "\n  ".join(problems))


def _confusion_kind(asked: str, learnt: Versions) -> str:
    if asked != "auto":
        return asked
    classes = len(learnt.names)
    few = classes > MOST_FULL_CLASSES or learnt.answers.shape[1] < ROWS_PER_CLASS * classes
    return "diagonal" if few else "full"


def _beliefs(decided: Versions, learnt: Versions, kind: str, smoothing: float) -> Beliefs:
    classes = len(learnt.names)
    counts = np.bincount(learnt.labels, minlength=classes) + smoothing
    log_prior = np.log(counts / counts.sum())
    if kind == "full":
        return DenseBeliefs(decided.answers, log_prior, [_confusion(learnt, row, smoothing) for row in learnt.answers])
    return SparseBeliefs(decided.answers, log_prior, [_right_rates(learnt, row, smoothing) for row in learnt.answers])


def _confusion(learnt: Versions, answers: np.ndarray, smoothing: float) -> np.ndarray:
    """log p(answer | label), by answer and label; a class that was never seen is answered like any other."""
    classes = len(learnt.names)
    pairs = np.bincount(answers.astype(np.int64) * classes + learnt.labels, minlength=classes**2).astype(np.float64)
    counts = pairs.reshape(classes, classes) + smoothing / classes
    return np.log(counts / counts.sum(0))


def _right_rates(learnt: Versions, answers: np.ndarray, smoothing: float) -> np.ndarray:
    """How often each label is answered rightly; few rows are pulled toward the version's rate over all classes."""
    classes = len(learnt.names)
    right = answers == learnt.labels
    overall = (right.sum() + smoothing) / (len(right) + 2 * smoothing)
    hits = np.bincount(learnt.labels, right, minlength=classes)
    seen = np.bincount(learnt.labels, minlength=classes)
    return np.clip((hits + smoothing * overall) / (seen + smoothing), 1e-6, 1 - 1e-6)


def _most_unsure(entropy: np.ndarray, budget: float) -> np.ndarray:
    """A mask of the share of rows with the highest entropy; rows that are equally unsure are taken in their order."""
    chosen = np.zeros(len(entropy), dtype=bool)
    chosen[np.argsort(-entropy, kind="stable")[: round(budget * len(entropy))]] = True
    return chosen


def _changes(
    rule: str, cost_ratio: float, beliefs: Beliefs, stored: np.ndarray, entropy_before: np.ndarray
) -> np.ndarray:
    """Which rows take the most probable class as their new stored answer."""
    if rule == "map":
        return np.ones(len(stored), dtype=bool)
    if rule == "min-entropy":
        return beliefs.entropy() < entropy_before
    odds = beliefs.log_probability(beliefs.best()) - beliefs.log_probability(stored)
    return odds > np.log(cost_ratio)


def _table(decided: Versions, answers: np.ndarray, number: int, settings: dict[str, object]) -> Predictions:
    tables = decided.tables[:number]
    first = tables[0]
    names = table_names(tables, what="version", short="version ")
    vocabulary = np.array(decided.names)
    classes = {name for table in tables for name in table.label_names or ()}
    label_names = tuple(name for name in decided.names if name in classes) or None
    return Predictions(
        first.ids,
        vocabulary[decided.labels],
        vocabulary[answers],
        label_names=label_names,
        columns=first.columns,
        provenance=decided_provenance(f"bayes({', '.join(names)})", tables, settings),
    )
