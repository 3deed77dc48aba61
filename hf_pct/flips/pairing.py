"""Two models' predictions side by side: rows joined by id, labels by name.

This is where two tables turn out not to be comparable: ids that are missing, doubled or matched by nothing, one id
with two labels, data that changed in between. Everything after this works on plain arrays in one order.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..core.errors import NotComparableError, first_five
from ..core.labels import LabelAlignment, align_labels, code_table, recode
from .tables.predictions import Predictions
from .tables.spelling import respell


@dataclass(frozen=True)
class Coverage:
    """How many rows were compared, and how many were left out because only one side has them."""

    compared: int
    only_old: int
    only_new: int

    @property
    def partial(self) -> bool:
        return bool(self.only_old or self.only_new)


@dataclass(frozen=True)
class Pair:
    """The same rows for both models, in the old one's order; labels and answers are codes of `names`."""

    old: Predictions
    new: Predictions
    old_rows: np.ndarray | slice
    new_rows: np.ndarray | slice
    names: tuple[str, ...]
    labels: np.ndarray
    old_answers: np.ndarray
    new_answers: np.ndarray
    classes: LabelAlignment
    coverage: Coverage

    def old_classes_mask(self) -> np.ndarray:
        """Which rows have a label that the old model knows: only those can flip."""
        known = {*self.classes.shared, *self.classes.removed}
        knows = np.array([name in known for name in self.names])
        return np.ones(len(self.labels), dtype=bool) if knows.all() else knows[self.labels]


def pair_predictions(
    old: Predictions,
    new: Predictions,
    allow_partial: bool = False,
    known: Collection[str] = (),
    ignore_spelling: bool = False,
) -> Pair:
    """Join two models' predictions by id. `allow_partial` compares the rows that both have, and counts the rest.

    A label that neither model knows is an error, unless it is among the `known` ones: those of a later version, say.
    `ignore_spelling` takes class names for the same that differ in spaces, hyphens, case or Unicode form only.
    """
    if ignore_spelling:
        old, new = respell(old, new)
    old_rows, new_rows, coverage = _join(old, new, allow_partial)
    _check_same_data(old, new, allow_partial)
    vocabulary: dict[str, int] = {}
    old_codes, new_codes = code_table(old.vocabulary, vocabulary), code_table(new.vocabulary, vocabulary)
    labels = recode(old.label_codes[old_rows], old_codes)
    new_labels = recode(new.label_codes[new_rows], new_codes)
    pair = Pair(
        old=old,
        new=new,
        old_rows=old_rows,
        new_rows=new_rows,
        names=tuple(vocabulary),
        labels=labels,
        old_answers=recode(old.prediction_codes[old_rows], old_codes),
        new_answers=recode(new.prediction_codes[new_rows], new_codes),
        # without recorded names, the classes that occur in a table are all we know of that model
        classes=align_labels(old.label_names or old.vocabulary, new.label_names or new.vocabulary),
        coverage=coverage,
    )
    _check_labels(pair, new_labels, known)
    return pair


def _join(
    old: Predictions, new: Predictions, allow_partial: bool
) -> tuple[np.ndarray | slice, np.ndarray | slice, Coverage]:
    old_ids, new_ids = old.ids, new.ids
    if old_ids.type != new_ids.type:  # one file has 7 and the other '7'
        old_ids, new_ids = old_ids.cast(pa.string()), new_ids.cast(pa.string())
    if old_ids.equals(new_ids):
        _check_unique(old, new)
        return slice(None), slice(None), Coverage(len(old), 0, 0)
    places = pc.index_in(old_ids, value_set=new_ids)
    matched = pc.is_valid(places).to_numpy(zero_copy_only=False)
    new_rows = places.drop_null().to_numpy(zero_copy_only=False)
    hits = np.bincount(new_rows, minlength=len(new))
    complete = len(new_rows) == len(old) == len(new) and hits.max() == 1
    if not complete:  # a perfect matching proves that no id is doubled; anything else has to be looked into
        _check_unique(old, new)
    only_old, only_new = int(np.count_nonzero(~matched)), int(np.count_nonzero(hits == 0))
    if (only_old or only_new) and not (allow_partial and len(new_rows)):
        raise NotComparableError(unmatched_message(old_ids, new_ids, ~matched, hits == 0, len(new_rows)))
    old_rows = slice(None) if complete else np.flatnonzero(matched)
    return old_rows, new_rows, Coverage(len(new_rows), only_old, only_new)


def _check_unique(old: Predictions, new: Predictions) -> None:
    problems = []
    for side, table in (("old", old), ("new", new)):
        repeated = table.duplicate_ids()
        if repeated:
            problems.append(
                f"{len(repeated)} ids stand on more than one row of the {side} predictions"
                f"{_conflicts(table, repeated)}: {first_five(repeated)}"
            )
        if old.ids is new.ids:
            break
    if problems:
        raise NotComparableError(
            "\n".join(problems) + "\nRows are joined by id: make each id unique, or drop repeats."
        )


def _conflicts(table: Predictions, repeated: list) -> str:
    """Whether repeated ids even disagree about the right answer, which is a fault in the data and not just a copy."""
    at = np.flatnonzero(pc.is_in(table.ids, value_set=pa.array(repeated)).to_numpy(zero_copy_only=False))
    seen: dict[object, set[int]] = {}
    for identity, label in zip(table.ids.take(pa.array(at)).to_pylist(), table.label_codes[at].tolist(), strict=True):
        seen.setdefault(identity, set()).add(label)
    conflicting = sum(len(labels) > 1 for labels in seen.values())
    return f" ({conflicting} of them with two different labels)" if conflicting else ""


def unmatched_message(
    old_ids: pa.Array, new_ids: pa.Array, only_old: np.ndarray, only_new: np.ndarray, common: int
) -> str:
    lines = [f"The two sides do not have the same rows ({common} ids are in both)."]
    for side, ids, mask in (("old", old_ids, only_old), ("new", new_ids, only_new)):
        if mask.any():
            examples = ids.take(pa.array(np.flatnonzero(mask)[:6])).to_pylist()
            lines.append(
                f"  {np.count_nonzero(mask)} of {len(ids)} ids are only in the {side}: {first_five(examples)}"
            )
    if common:
        lines.append(
            "Predict both models on the same data, or pass allow_partial (--allow_partial) to compare the rest."
        )
    else:
        lines.append("Nothing can be compared: predict both models on the same data, with the same id column.")
    return "\n".join(lines)


def _check_same_data(old: Predictions, new: Predictions, allow_partial: bool) -> None:
    first, second = old.provenance.fingerprint, new.provenance.fingerprint
    if first and second and first != second and not allow_partial:
        raise NotComparableError(
            f"The ids match, but the data does not: the old model saw dataset {first}, the new one {second} (hashes "
            "of ids, inputs and labels). Predict both models on the same data, or pass allow_partial "
            "(--allow_partial) to compare them all the same."
        )


def _check_labels(pair: Pair, new_labels: np.ndarray, further: Collection[str]) -> None:
    differ = np.flatnonzero(pair.labels != new_labels)
    if len(differ):
        ids = pair.old.ids if isinstance(pair.old_rows, slice) else pair.old.ids.take(pa.array(pair.old_rows))
        examples = [
            f"{ids[row].as_py()!r} (old: {pair.names[pair.labels[row]]}, new: {pair.names[new_labels[row]]})"
            for row in differ[:5].tolist()
        ]
        more = ", ..." if len(differ) > 5 else ""
        raise NotComparableError(
            f"{len(differ)} ids have two different labels: {', '.join(examples)}{more}. Use one set of labels for "
            "both; if one side has indices and the other names, pass its label names."
        )
    known = {*pair.classes.shared, *pair.classes.added, *pair.classes.removed, *further}
    present = np.flatnonzero(np.bincount(pair.labels))
    unknown = [pair.names[code] for code in present.tolist() if pair.names[code] not in known]
    if unknown:
        raise NotComparableError(
            f"{len(unknown)} labels of the data are classes of neither model: {first_five(unknown)}. The models know: "
            f"{first_five(sorted(known))}. Map the data's labels to the models' names, or drop those rows."
        )
