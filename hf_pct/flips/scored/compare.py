"""compare_scores: two tables of scores in, a ScoreReport out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ...core.errors import NotComparableError, first_five
from ..stats import CORRECTIONS, Clusters, check_confidence, holm
from ..tables.scores import Scores
from .changed_rows import changed_rows
from .choices import Choices, RightAt, Settings, check_names, threshold_notes
from .columns import task_column
from .measures.floor import noise_floor
from .measures.means import mean_gain, pooled_mean
from .measures.outcomes import Rule, Shares
from .measures.rates import share_rates
from .measures.repeats import regressed_items
from .measures.shares import item_shares
from .measures.slices import score_slices
from .pairing import TaskPair, pair_task
from .report import Pooled, ScoreReport
from .task_report import ItemChange, RepeatedRuns, TaskReport

MAX_ROWS = 10_000


@dataclass(frozen=True)
class MeasuredTask:
    """One task with the arrays that the verdict over all tasks and the list of rows still need."""

    pair: TaskPair
    rule: Rule
    old: np.ndarray
    new: np.ndarray
    shares: Shares
    clusters: np.ndarray | None
    report: TaskReport


def compare_scores(
    old: Scores,
    new: Scores,
    *,
    old_rerun: Scores | None = None,
    metric: str | Sequence[str] | Mapping[str, str] | None = None,
    right_at: RightAt | Mapping[str, RightAt] = None,
    tolerance: float | Mapping[str, float] = 0.0,
    higher_is_better: Mapping[str, bool] | None = None,
    slices: Sequence[str] | None = None,
    cluster: str | None = None,
    task_weights: Mapping[str, float] | None = None,
    allow_partial: bool = False,
    confidence: float = 0.95,
    correction: str = "holm",
    max_rows: int = MAX_ROWS,
) -> ScoreReport:
    """Compare an old and a new version's scores on the same rows.

    Args:
        old: the scores of the version in use.
        new: the scores of the version that would replace it.
        old_rerun: scores of a second run of the old version: what changes there is noise. Repeated runs in `old`
            give a noise floor without it.
        metric: the metric to compare by, several in order of preference, or one per task. Not needed when a task
            has one.
        right_at: from which score on a row is right; a mapping gives it per task or metric, "none" compares without
            right and wrong. Not needed for 0/1 scores.
        tolerance: a drop of more than this is a graded regression; also per task or metric.
        higher_is_better: the direction of metrics whose name does not say it.
        slices: further columns to look at; by default every column with at most 100 different values.
        cluster: a column whose rows belong together: intervals and tests are then by cluster.
        task_weights: weights of the mean over tasks; by default all tasks count the same.
        allow_partial: compare the rows and tasks that both sides have instead of refusing.
        confidence: of every interval; 1 - confidence is the level of every verdict.
        correction: "holm" or "bh", for the p-values of each slice.
        max_rows: how many changed rows per task the report keeps, broken ones first.
    """
    check_confidence(confidence)
    if correction not in CORRECTIONS:
        raise ValueError(f"correction is {correction!r}, expected one of {', '.join(CORRECTIONS)}.")
    choices = Choices(
        metrics=() if metric is None or isinstance(metric, Mapping) else _listed(metric),
        task_metrics=metric if isinstance(metric, Mapping) else {},
        right_at=right_at,
        tolerance=tolerance,
        higher_is_better=higher_is_better or {},
    )
    settings = Settings(choices, slices, cluster, allow_partial, confidence, correction, max_rows)
    tasks, notes = _common_tasks(old, new, allow_partial)
    check_names(choices, tasks, old, new)
    notes += threshold_notes(old, new)
    measured, problems = [], []
    for task in tasks:
        try:
            measured.append(_measure(old, new, old_rerun, task, settings, notes))
        except NotComparableError:
            raise
        except ValueError as error:  # what is asked of one task may be missing in several: tell all at once
            problems.append(str(error))
    if problems:
        raise ValueError("\n".join(dict.fromkeys(problems)))
    level = 1 - confidence
    corrected = holm([entry.report.gain.p_worse for entry in measured]).tolist()
    reports = [
        replace(entry.report, p_corrected=p_value, regressed=p_value < level)
        for entry, p_value in zip(measured, corrected, strict=True)
    ]
    mean = None
    if len(measured) > 1:
        parts = [(entry.report, entry.shares, entry.old, entry.new, entry.clusters) for entry in measured]
        mean = pooled_mean(parts, task_weights, confidence)
    elif task_weights:
        raise ValueError("task_weights were given, but there is only one task.")
    return ScoreReport(
        tasks=reports,
        pooled=Pooled([report.task for report in reports if report.regressed], level, mean),
        rows=_all_rows(measured, settings, notes),
        old=old.provenance,
        new=new.provenance,
        confidence=confidence,
        correction=correction,
        cluster=cluster,
        notes=list(
            dict.fromkeys([*notes, *(f"old: {note}" for note in old.notes), *(f"new: {note}" for note in new.notes)])
        ),
    )


def _listed(metric: str | Sequence[str]) -> tuple[str, ...]:
    return (metric,) if isinstance(metric, str) else tuple(metric)


def _common_tasks(old: Scores, new: Scores, allow_partial: bool) -> tuple[list[str], list[str]]:
    """The tasks that both sides have; a task that one side lacks is refused unless parts are allowed."""
    common = [task for task in old.task_names if task in new.task_names]
    lone = [
        (side, [task for task in names if task not in common])
        for side, names in (("old", old.task_names), ("new", new.task_names))
    ]
    if not any(tasks for _, tasks in lone):
        return common, []
    listed = [f"only the {side} side has {first_five(tasks)}" for side, tasks in lone if tasks]
    if not common or not allow_partial:
        hint = "Score both on the same tasks" + (", or pass allow_partial (--allow_partial)." if common else ".")
        raise NotComparableError(f"The two sides do not have the same tasks: {'; '.join(listed)}. {hint}")
    return common, [f"PARTIAL: {'; '.join(listed)}; these tasks are left out."]


def _measure(
    old: Scores, new: Scores, rerun: Scores | None, task: str, settings: Settings, notes: list[str]
) -> MeasuredTask:
    metric = settings.choices.metric(old, new, task)
    pair = pair_task(old, new, task, metric, settings.allow_partial)
    before, after = pair.oriented()
    rule = settings.choices.rule(metric, task, before, after)
    answers = pair.answers()
    shares = item_shares(before, after, rule, *answers)
    clusters = None
    if settings.cluster is not None:  # refuses too few clusters
        clusters = Clusters.of(task_column(pair, settings.cluster), settings.cluster).codes
    groups, slice_notes = score_slices(pair, shares, before, after, clusters, settings)
    notes += [*slice_notes, *_missing_runs(pair, before, after)]
    single = before.shape[1] == after.shape[1] == 1
    rates, intervals, upper = share_rates(shares, rule, clusters, settings.confidence, exact=single)
    report = TaskReport(
        task=task,
        metric=metric.name,
        higher_is_better=metric.higher_is_better,
        right_at=None if rule.right_at is None else metric.sign * rule.right_at,
        tolerance=rule.tolerance,
        rows=len(before),
        outcomes=shares.counts(),
        rates=rates,
        intervals=intervals,
        nfr_upper=upper,
        gain=mean_gain(before, after, clusters, settings.confidence, metric.sign),
        regressions=shares.regressions,
        gains=shares.gains,
        coverage=pair.coverage,
        changed_prompts=pair.changed_prompts,
        changed_answers=None if shares.changed_answers is None else float(shares.changed_answers.mean()),
        slices=groups,
        repeats=None if single else _repeats(pair, rule, before, after, 1 - settings.confidence),
        noise_floor=noise_floor(pair, rule, before, answers[0], shares, rerun, clusters, settings),
    )
    return MeasuredTask(pair, rule, before, after, shares, clusters, report)


def _missing_runs(pair: TaskPair, old: np.ndarray, new: np.ndarray) -> list[str]:
    """What a run that failed leaves behind: an item with fewer runs than the others of its side."""
    notes = []
    for side, scores in (("old", old), ("new", new)):
        fewer = int(np.isnan(scores).any(axis=1).sum())
        if fewer:
            notes.append(
                f"{pair.task}: {fewer:,} of {len(scores):,} items have fewer than {scores.shape[1]} runs on the "
                f"{side} side; the numbers hold only if what is missing has nothing to do with being right."
            )
    return notes


def _repeats(pair: TaskPair, rule: Rule, old: np.ndarray, new: np.ndarray, level: float) -> RepeatedRuns:
    if rule.right_at is None:
        return RepeatedRuns(old.shape[1], new.shape[1])
    p_values, regressed = regressed_items(old, new, rule.right_at, level)
    places = np.flatnonzero(regressed)
    places = places[np.argsort(p_values[places], kind="stable")]
    ids = pair.ids.take(pa.array(places)).to_pylist()
    rates = [np.nanmean(np.where(np.isnan(side), np.nan, side >= rule.right_at), axis=1) for side in (old, new)]
    half = old.shape[1] // 2
    floor = int(regressed_items(old[:, :half], old[:, half:], rule.right_at, level)[1].sum()) if half else None
    items = [
        ItemChange(str(identity), float(rates[0][place]), float(rates[1][place]), float(p_values[place]))
        for identity, place in zip(ids, places.tolist(), strict=True)
    ]
    return RepeatedRuns(old.shape[1], new.shape[1], items, floor)


def _all_rows(measured: Sequence[MeasuredTask], settings: Settings, notes: list[str]) -> pa.Table:
    tables = []
    for entry in measured:
        table, left_out = changed_rows(entry.pair, entry.shares, entry.old, entry.new, settings.max_rows)
        tables.append(table)
        if left_out:
            notes.append(
                f"Task {entry.pair.task}: {left_out:,} further changed rows are not listed, broken ones come first."
            )
    return pa.concat_tables(tables, promote_options="permissive")
