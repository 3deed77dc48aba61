"""One `compare` for both kinds of tables: answers give a FlipReport, scores a ScoreReport."""

import os
from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol, cast, overload

from ..report import FlipReport
from ..tables.predictions import Predictions
from ..tables.scores import Scores
from ..tables.spelling import check_answers
from .report import FORMAT as SCORE_FORMAT
from .report import ScoreReport


class Compare(Protocol):
    """What `compare` takes and gives."""

    @overload
    def __call__(self, old: Predictions, new: Predictions, **options: object) -> FlipReport: ...

    @overload
    def __call__(self, old: Scores, new: Predictions | Scores, **options: object) -> ScoreReport: ...

    @overload
    def __call__(self, old: Predictions, new: Scores, **options: object) -> ScoreReport: ...


def takes_scores(compare: Callable[..., FlipReport]) -> Compare:
    """Let a function that compares answers compare scores too; answers beside scores count as exact match."""

    @wraps(compare)
    def either(old: Predictions | Scores, new: Predictions | Scores, **options: Any) -> FlipReport | ScoreReport:
        if isinstance(old, Predictions) and isinstance(new, Predictions):
            return compare(old, new, **options)
        from .compare import compare_scores

        rerun = options.pop("old_rerun", None)
        return compare_scores(
            as_scores(old, "old"),
            as_scores(new, "new"),
            old_rerun=None if rerun is None else as_scores(rerun, "old"),
            **options,
        )

    return cast(Compare, either)


def load_report(path: str | os.PathLike) -> FlipReport | ScoreReport:
    """A report of either kind, as `hf-pct compare` writes it."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            scores = f'"{SCORE_FORMAT}"' in file.read(300)
    except OSError:
        scores = False  # FlipReport.load says what is wrong with the path
    return ScoreReport.load(path) if scores else FlipReport.load(path)


def as_scores(table: Predictions | Scores, side: str) -> Scores:
    """Scores as they are; answers as exact matches, which answers in another spelling never are."""
    if isinstance(table, Scores):
        return table
    check_answers(table, side, f"--{side}_label_names")
    return Scores.from_predictions(table)
