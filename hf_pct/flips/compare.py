"""compare: two models' predictions in, a FlipReport out."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .aligned_rows import AlignedRows, flipped_rows
from .analysis import pair_figures
from .columns import weight_column
from .counts import FlipCounts, count_flips
from .errors import NotComparableError
from .grouping import GroupFlips, group_flips
from .pairing import Pair, pair_predictions
from .predictions import Predictions
from .report import Confusion, FlipReport, LabelChanges, NoiseFloor, WeightedFlips
from .stats import (
    CORRECTIONS,
    Difference,
    Interval,
    accuracy_gain_interval,
    check_confidence,
    clopper_pearson,
    effective_size,
    mcnemar,
    non_inferiority,
    paired_bootstrap,
    upper_bound,
)

MAX_SLICE_VALUES = 100
_NOT_SLICES = ("confidence", "text", "image")


def compare(
    old: Predictions,
    new: Predictions,
    *,
    old_rerun: Predictions | None = None,
    slices: Sequence[str] | None = None,
    weight: str | None = None,
    cluster: str | None = None,
    allow_partial: bool = False,
    confidence: float = 0.95,
    correction: str = "holm",
    accuracy_margin: float = 0.0,
    max_confusions: int = 50,
) -> FlipReport:
    """Compare an old and a new model's predictions on the same rows.

    Args:
        old: the predictions of the model that is in use.
        new: the predictions of the model that would replace it.
        old_rerun: the predictions of a second training run of the old recipe: what flips there is noise, and the
            report
            says how much the new model flips beyond it.
        slices: further columns to count flips by; by default every column with at most 100 different values.
        weight: a numeric column by which rows count (traffic, severity), reported beside the plain counts.
        cluster: a column whose rows belong together (a user, a document): intervals are then drawn by cluster.
        allow_partial: compare the rows that both sides have instead of refusing.
        confidence: of every interval and bound.
        correction: "holm" or "bh", for the p-values of classes and of each slice.
        accuracy_margin: how much accuracy the new model may lose and still be called not inferior.
        max_confusions: how many confusions among the negative flips to keep.
    """
    check_confidence(confidence)
    if correction not in CORRECTIONS:
        raise ValueError(f"correction is {correction!r}, expected one of {', '.join(CORRECTIONS)}.")
    pair = pair_predictions(old, new, allow_partial)
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
    intervals, bound = _intervals(counts, old_right, new_right, rows.column(cluster), confidence)
    by_group: dict[str, Any] = {"confidence": confidence, "correction": correction}
    slice_groups, notes = _slices(rows, slices, (cluster, weight), old_right, new_right, by_group)
    broken = old_right & ~new_right
    into_added = np.isin(new_answers[broken], [pair.names.index(name) for name in pair.classes.added])
    negative, positive, total = int(counts.negative_flips), int(counts.positive_flips), int(counts.total)
    return FlipReport(
        counts=counts,
        intervals=intervals,
        nfr_upper=bound,
        mcnemar=mcnemar(negative, positive),
        non_inferiority=non_inferiority(negative, positive, total, accuracy_margin, confidence),
        coverage=pair.coverage,
        labels=_label_changes(pair, counted, int(into_added.sum())),
        classes=group_flips(labels, pair.names, old_right, new_right, **by_group),
        slices=slice_groups,
        confusions=_confusions(labels[broken], new_answers[broken], pair.names, max_confusions),
        flips=flipped_rows(rows, labels, old_answers, new_answers, old_right, new_right),
        old=old.provenance,
        new=new.provenance,
        confidence=confidence,
        correction=correction,
        cluster=cluster,
        noise_floor=None
        if old_rerun is None
        else _noise_floor(pair, counted, broken, old_rerun, rows.column(cluster), allow_partial, confidence),
        weighted=None if weight is None else _weighted(rows, weight, old_answers, new_answers, labels, confidence),
        notes=notes + _notes(pair),
        figures=_figures(rows, old_right, new_right, new_answers),
    )


def compare_candidates(
    old: Predictions, first: Predictions, second: Predictions, *, cluster: str | None = None, confidence: float = 0.95
) -> Difference:
    """NFR of `first` minus NFR of `second`, two candidates against the same old model, with a paired bootstrap."""
    one, two = pair_predictions(old, first), pair_predictions(old, second)
    order = np.argsort(np.arange(len(old)) if isinstance(one.old_rows, slice) else one.old_rows)
    other = np.argsort(np.arange(len(old)) if isinstance(two.old_rows, slice) else two.old_rows)
    groups = None if cluster is None else AlignedRows(one, np.ones(len(old), bool)).column(cluster)
    flipped = (_broken(one)[order], _broken(two)[other])
    return paired_bootstrap(*flipped, None if groups is None else groups[order], confidence=confidence)


def _broken(pair: Pair) -> np.ndarray:
    return (pair.old_answers == pair.labels) & (pair.new_answers != pair.labels) & pair.old_classes_mask()


def _intervals(
    counts: FlipCounts, old_right: np.ndarray, new_right: np.ndarray, groups: np.ndarray | None, confidence: float
) -> tuple[dict[str, Interval], float]:
    """Intervals of the rates and the one-sided bound on NFR: exact for single rows, bootstrapped for clusters."""
    if groups is None:
        total = int(counts.total)
        seen = {
            "nfr": counts.negative_flips,
            "pfr": counts.positive_flips,
            "old_accuracy": counts.both_right + counts.negative_flips,
            "new_accuracy": counts.both_right + counts.positive_flips,
        }
        intervals = {name: clopper_pearson(count, total, confidence) for name, count in seen.items()}
        flips = int(counts.negative_flips), int(counts.positive_flips)
        intervals["accuracy_gain"] = accuracy_gain_interval(*flips, total, confidence)
        return intervals, upper_bound(counts.negative_flips, total, confidence)

    def drawn(values: np.ndarray, level: float = confidence) -> Interval:
        interval = paired_bootstrap(values, np.zeros(len(values)), groups, confidence=level).interval
        return Interval(max(interval.low, 0.0), interval.high, level)

    broken, fixed = old_right & ~new_right, new_right & ~old_right
    gain = paired_bootstrap(new_right, old_right, groups, confidence=confidence).interval
    intervals = {"nfr": drawn(broken), "pfr": drawn(fixed), "old_accuracy": drawn(old_right)}
    intervals |= {"new_accuracy": drawn(new_right), "accuracy_gain": gain}
    return intervals, drawn(broken, 2 * confidence - 1 if confidence > 0.5 else confidence).high


def _slices(
    rows: AlignedRows,
    wanted: Sequence[str] | None,
    other_uses: Sequence[str | None],
    old_right: np.ndarray,
    new_right: np.ndarray,
    by_group: dict[str, Any],
) -> tuple[dict[str, list[GroupFlips]], list[str]]:
    found, notes = {}, []
    for name in rows.names if wanted is None else wanted:
        if wanted is None and (name in _NOT_SLICES or name in other_uses):
            continue
        column = rows.arrow(name)
        if wanted is None and not _may_be_slice(column.type):
            notes.append(f"The column {name} is of type {column.type} and was not used as a slice.")
            continue
        encoded = pc.dictionary_encode(column, null_encoding="encode").combine_chunks()
        values = ["(none)" if value is None else str(value) for value in encoded.dictionary.to_pylist()]
        if wanted is None and len(values) > MAX_SLICE_VALUES:
            notes.append(
                f"The column {name} has {len(values)} values and was not used as a slice; ask for it by name."
            )
            continue
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        found[name] = group_flips(codes, values, old_right, new_right, **by_group)
    return found, notes


def _may_be_slice(kind: pa.DataType) -> bool:
    types = pa.types
    return types.is_string(kind) or types.is_integer(kind) or types.is_boolean(kind) or types.is_dictionary(kind)


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


def _noise_floor(
    pair: Pair,
    counted: np.ndarray,
    broken: np.ndarray,
    old_rerun: Predictions,
    groups: np.ndarray | None,
    allow_partial: bool,
    confidence: float,
) -> NoiseFloor:
    """NFR from the old model to a second run of its recipe, on the very rows of the report."""
    rerun = pair_predictions(pair.old, old_rerun, allow_partial)
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
    floor = noisy[numbers]
    beyond = paired_bootstrap(broken, floor, groups, confidence=confidence)
    return NoiseFloor(
        nfr=float(floor.mean()),
        interval=clopper_pearson(int(floor.sum()), len(floor), confidence),
        excess_nfr=beyond.estimate,
        excess_interval=beyond.interval,
        p_value=beyond.p_value,
    )


def _weighted(
    rows: AlignedRows,
    column: str,
    old_answers: np.ndarray,
    new_answers: np.ndarray,
    labels: np.ndarray,
    confidence: float,
) -> WeightedFlips:
    weights = weight_column(rows.column(column), len(labels))
    counts = count_flips(old_answers, new_answers, labels, sample_weight=weights)
    size = effective_size(weights)
    interval = clopper_pearson(min(counts.nfr, 1.0) * size, size, confidence)
    return WeightedFlips(column, counts, size, interval)


def _figures(rows: AlignedRows, old_right: np.ndarray, new_right: np.ndarray, new_answers: np.ndarray) -> dict:
    """What the logits of both sides show; nothing where one of them has none."""
    pair = rows.pair
    old, new, names = pair.old.logits, pair.new.logits, pair.old.label_names
    if old is None or new is None or names is None:
        return {}
    column = {name: index for index, name in enumerate(names)}
    in_old = np.array([column.get(name, -1) for name in pair.names])[new_answers]
    logits = old[rows.source(True)], new[rows.source(False)]
    return pair_figures(*logits, pair.classes, old_right, new_right, in_old)


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
