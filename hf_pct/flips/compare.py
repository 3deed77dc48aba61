"""compare: two models' predictions in, a FlipReport out."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.errors import NotComparableError
from .aligned_rows import AlignedRows, flipped_rows
from .counts import count_flips
from .evidence import Evidence
from .grouping import GroupFlips, group_flips
from .pairing import Pair, pair_predictions
from .report import Confusion, FlipReport, LabelChanges
from .scored.dispatch import takes_scores
from .stats import CORRECTIONS, Clusters, Difference, check_confidence, paired_bootstrap
from .studies.logit_figures import pair_figures
from .tables.columns import weight_column
from .tables.logits import in_file_order, rows_in_order, rows_per_block
from .tables.plain_columns import may_be_slice, slice_codes
from .tables.predictions import Predictions, Provenance
from .tables.spelling import check_answers, check_spelling

MAX_SLICE_VALUES = 100
_NOT_SLICES = ("confidence", "text", "image")


@takes_scores
def compare(
    old: Predictions,
    new: Predictions,
    *,
    old_rerun: Predictions | None = None,
    slices: Sequence[str] | None = None,
    weight: str | None = None,
    cluster: str | None = None,
    allow_partial: bool = False,
    ignore_spelling: bool = False,
    confidence: float = 0.95,
    correction: str = "holm",
    accuracy_margin: float = 0.0,
    max_confusions: int = 50,
) -> FlipReport:
    """Compare an old and a new model's predictions on the same rows.

    Two `Scores` are compared too: `scored.compare.compare_scores` has their options, and the result is a
    `ScoreReport`.

    Args:
        old: the predictions of the model that is in use.
        new: the predictions of the model that would replace it.
        old_rerun: the predictions of a second training run of the old recipe: what flips there is noise, and the
            report
            says how much the new model flips beyond it.
        slices: further columns to count flips by; by default every column with at most 100 different values.
        weight: a numeric column by which rows count (traffic, severity), reported beside the plain counts.
        cluster: a column whose rows belong together (a user, a document): every interval, bound and test is then by
            cluster. At least 10 clusters are needed, and 30 for intervals that keep their level.
        allow_partial: compare the rows that both sides have instead of refusing.
        ignore_spelling: take class names for the same that differ in spaces, hyphens, case or Unicode form only.
        confidence: of every interval and bound.
        correction: "holm" or "bh", for the p-values of classes and of each slice.
        accuracy_margin: how much accuracy the new model may lose and still be called not inferior.
        max_confusions: how many confusions among the negative flips to keep.

    Example:
        >>> from hf_pct import Predictions, compare
        >>> ids, labels = [1, 2, 3, 4], ["yes", "no", "yes", "no"]
        >>> old = Predictions(ids, labels, ["yes", "no", "yes", "yes"])
        >>> new = Predictions(ids, labels, ["yes", "yes", "yes", "no"])
        >>> report = compare(old, new)
        >>> report.nfr, report.counts.new_accuracy
        (0.25, 0.75)
    """
    check_confidence(confidence)
    if correction not in CORRECTIONS:
        raise ValueError(f"correction is {correction!r}, expected one of {', '.join(CORRECTIONS)}.")
    pair = pair_predictions(old, new, allow_partial, ignore_spelling=ignore_spelling)
    check_spelling(pair.old, pair.new)
    counted = pair.old_classes_mask()
    if not counted.any():
        raise NotComparableError(
            f"None of the {len(counted)} rows has a label that the old model knows, so nothing can flip. The old "
            f"model's classes: {', '.join((old.label_names or old.vocabulary)[:5])}, ..."
        )
    every_row = bool(counted.all())
    labels, old_answers, new_answers = (
        codes if every_row else codes[counted] for codes in (pair.labels, pair.old_answers, pair.new_answers)
    )
    old_right, new_right = old_answers == labels, new_answers == labels
    counts = count_flips(old_answers, new_answers, labels)
    rows = AlignedRows(pair, counted)
    clusters = None if cluster is None else Clusters.of(rows.arrow(cluster).to_numpy(), cluster)
    evidence = Evidence(counts, old_right, new_right, clusters, confidence)
    by_group: dict[str, Any] = {"confidence": confidence, "correction": correction, "clusters": clusters}
    slice_groups, notes = _slices(rows, slices, (cluster, weight), old_right, new_right, by_group)
    weighted = None
    if weight is not None:
        weights = weight_column(rows.column(weight), len(labels))
        weighted_counts = count_flips(old_answers, new_answers, labels, sample_weight=weights)
        weighted, remarks = evidence.weighted(weight, weights, weighted_counts)
        notes += remarks
    broken = evidence.broken
    into_added = np.isin(new_answers[broken], [pair.names.index(name) for name in pair.classes.added])
    return FlipReport(
        counts=counts,
        intervals=evidence.intervals(),
        nfr_upper=evidence.nfr_upper(),
        mcnemar=evidence.mcnemar(),
        non_inferiority=evidence.non_inferiority(accuracy_margin),
        coverage=pair.coverage,
        labels=_label_changes(pair, counted, int(into_added.sum())),
        classes=group_flips(labels, pair.names, old_right, new_right, **by_group),
        slices=slice_groups,
        confusions=_confusions(labels[broken], new_answers[broken], pair.names, max_confusions),
        flips=flipped_rows(rows, labels, old_answers, new_answers, old_right, new_right),
        old=_origin(old),
        new=_origin(new),
        confidence=confidence,
        correction=correction,
        cluster=cluster,
        effective_rows=evidence.effective_rows(),
        noise_floor=None
        if old_rerun is None
        else evidence.noise_floor(_broken_by_rerun(pair, counted, old_rerun, allow_partial, ignore_spelling)),
        weighted=weighted,
        notes=notes + _notes(pair),
        figures=_figures(rows, old_right, new_right, new_answers),
    )


def compare_candidates(
    old: Predictions, first: Predictions, second: Predictions, *, cluster: str | None = None, confidence: float = 0.95
) -> Difference:
    """NFR of `first` minus NFR of `second`, two candidates against the same old model, with a paired bootstrap.

    Example:
        >>> from hf_pct import Predictions, compare_candidates
        >>> ids, labels = list(range(8)), ["yes"] * 8
        >>> old = Predictions(ids, labels, ["yes"] * 8)
        >>> first = Predictions(ids, labels, ["no"] * 2 + ["yes"] * 6)
        >>> second = Predictions(ids, labels, ["no"] + ["yes"] * 7)
        >>> compare_candidates(old, first, second).estimate
        0.125
    """
    one, two = pair_predictions(old, first), pair_predictions(old, second)
    check_spelling(one.old, one.new)
    check_spelling(two.old, two.new)
    order = np.argsort(np.arange(len(old)) if isinstance(one.old_rows, slice) else one.old_rows)
    other = np.argsort(np.arange(len(old)) if isinstance(two.old_rows, slice) else two.old_rows)
    groups = None
    if cluster is not None:  # refuses too few clusters
        groups = Clusters.of(AlignedRows(one, np.ones(len(old), bool)).arrow(cluster).to_numpy(), cluster).codes
    flipped = (_broken(one)[order], _broken(two)[other])
    return paired_bootstrap(*flipped, None if groups is None else groups[order], confidence=confidence)


def _origin(table: Predictions) -> Provenance:
    """Where a table comes from; a CSV or JSONL file, which cannot say its model, is known by its own name."""
    if table.provenance.model or table.path is None or table.path.suffix == ".parquet":
        return table.provenance
    return replace(table.provenance, model=table.path.name)


def _broken(pair: Pair) -> np.ndarray:
    return (pair.old_answers == pair.labels) & (pair.new_answers != pair.labels) & pair.old_classes_mask()


def _slices(
    rows: AlignedRows,
    wanted: Sequence[str] | None,
    other_uses: Sequence[str | None],
    old_right: np.ndarray,
    new_right: np.ndarray,
    by_group: dict[str, Any],
) -> tuple[dict[str, list[GroupFlips]], list[str]]:
    groups, notes = {}, []
    for name in rows.names if wanted is None else wanted:
        if wanted is None and (name in _NOT_SLICES or name in other_uses):
            continue
        if wanted is None and not may_be_slice(rows.type_of(name)):
            notes.append(f"The column {name} is of type {rows.type_of(name)} and was not used as a slice.")
            continue
        codes, values = slice_codes(rows.arrow(name))
        if wanted is None and len(values) > MAX_SLICE_VALUES:
            notes.append(
                f"The column {name} has {len(values)} values and was not used as a slice; ask for it by name."
            )
            continue
        groups[name] = group_flips(codes.to_numpy(zero_copy_only=False), values, old_right, new_right, **by_group)
    return groups, notes


def _label_changes(pair: Pair, counted: np.ndarray, flips_into_added: int) -> LabelChanges:
    classes = pair.classes
    apart = ~counted
    removed = [pair.names.index(name) for name in classes.removed if name in pair.names]
    right = pair.new_answers[apart] == pair.labels[apart]
    return LabelChanges(
        shared=len(classes.shared),
        added=classes.added,
        removed=classes.removed,
        added_rows=int(apart.sum()),
        added_accuracy=float(right.mean()) if apart.any() else 0.0,
        removed_rows=int(np.isin(pair.labels, removed).sum()) if removed else 0,
        flips_into_added=flips_into_added,
    )


def _confusions(labels: np.ndarray, answers: np.ndarray, names: Sequence[str], most: int) -> list[Confusion]:
    pairs, counts = np.unique(labels.astype(np.int64) * len(names) + answers, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:most]
    return [
        Confusion(names[code // len(names)], names[code % len(names)], count)
        for code, count in zip(pairs[order].tolist(), counts[order].tolist(), strict=True)
    ]


def _broken_by_rerun(
    pair: Pair, counted: np.ndarray, old_rerun: Predictions, allow_partial: bool, ignore_spelling: bool
) -> np.ndarray:
    """Which of the report's rows a second run of the old recipe breaks."""
    rerun = pair_predictions(pair.old, old_rerun, allow_partial, ignore_spelling=ignore_spelling)
    check_answers(rerun.new, "old_rerun", "--old_label_names")  # misspelt answers would be a high noise floor
    noisy = np.zeros(len(pair.old), dtype=bool)
    noisy[rerun.old_rows] = _broken(rerun)
    numbers = np.flatnonzero(counted) if isinstance(pair.old_rows, slice) else pair.old_rows[counted]
    covered = np.zeros(len(pair.old), dtype=bool)
    covered[rerun.old_rows] = True
    if not covered[numbers].all():
        raise NotComparableError(
            f"The second run of the old recipe lacks {int((~covered[numbers]).sum())} of the {len(numbers)} compared "
            "rows. Predict it on the same data as the old and the new model."
        )
    return noisy[numbers]


def _figures(rows: AlignedRows, old_right: np.ndarray, new_right: np.ndarray, new_answers: np.ndarray) -> dict:
    """What the logits of both sides show; nothing where one of them has none."""
    pair = rows.pair
    old, new, names = pair.old.logit_source, pair.new.logit_source, pair.old.label_names
    if old is None or new is None or names is None:
        return {}
    numbers = rows.source(True), rows.source(False)
    if not in_file_order(old, numbers[0]):
        old = pair.old.logits
    if not in_file_order(new, numbers[1]):
        new = pair.new.logits
    if old is None or new is None:
        return {}
    column = {name: index for index, name in enumerate(names)}
    in_old = np.array([column.get(name, -1) for name in pair.names])[new_answers]
    size = rows_per_block(max(len(names), len(pair.new.label_names or ())))
    blocks = zip(rows_in_order(old, numbers[0], size), rows_in_order(new, numbers[1], size), strict=True)
    return pair_figures(blocks, pair.classes, old_right, new_right, in_old)


def _notes(pair: Pair) -> list[str]:
    notes = []
    for side, table in (("old", pair.old), ("new", pair.new)):
        if table.label_names is None:
            notes.append(f"The {side} predictions do not record their classes; the classes that occur are taken.")
    if pair.classes.removed:
        notes.append(
            f"{len(pair.classes.removed)} classes of the old model are missing in the new one; their rows count as "
            "negative flips where the old model was right."
        )
    return notes
