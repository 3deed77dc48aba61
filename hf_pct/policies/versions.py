"""The versions of a model as tables of the same rows: the ones that a policy learns from, and the ones it decides."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..core.errors import NotComparableError, first_five
from ..core.labels import code_table
from ..flips.studies.member_tables import pair_members
from ..flips.tables.predictions import Predictions, Provenance
from ..flips.tables.readers import read_plain_table


@dataclass(frozen=True)
class Versions:
    """Several versions' answers to the same rows, the oldest first, as codes of `names`.

    `answers` has one row per version; `rows[v]` are the places of the common rows in the table of version v.
    """

    tables: tuple[Predictions, ...]
    names: tuple[str, ...]
    labels: np.ndarray
    answers: np.ndarray
    rows: tuple[np.ndarray | slice, ...]

    @property
    def ids(self) -> pa.Array:
        return self.tables[0].ids


def align_versions(tables: Sequence[Predictions], names: Sequence[str] = ()) -> Versions:
    """Join the versions by id, labels by name. `names` are classes that codes start with, in this order."""
    check_order(tables)
    pairs = pair_members(tables, "version", at_least=2, logits=False, same_classes=False)
    vocabulary = {name: code for code, name in enumerate(names)}
    for table in tables:
        code_table(table.label_names or (), vocabulary)
    codes = [code_table(pair.names, vocabulary) for pair in pairs]
    return Versions(
        tables=tuple(tables),
        names=tuple(vocabulary),
        labels=codes[0][pairs[0].labels],
        answers=np.stack([table[pair.new_answers] for table, pair in zip(codes, pairs, strict=True)]),
        rows=tuple(pair.new_rows for pair in pairs),
    )


def align_both(versions: Sequence[Predictions], calibration: Sequence[Predictions]) -> tuple[Versions, Versions]:
    """The rows to decide and the calibration rows in one vocabulary; refused when they share a row."""
    if len(versions) != len(calibration):
        raise ValueError(
            f"Got {len(versions)} versions and {len(calibration)} calibration tables, expected one for each version: "
            "the answers of every version to the calibration rows, in the same order."
        )
    learnt = align_versions(calibration)
    decided = align_versions(versions, learnt.names)
    shared = pc.is_in(_text(decided.ids), value_set=_text(learnt.ids))
    if pc.any(shared).as_py():
        overlap = decided.ids.filter(shared)
        raise NotComparableError(
            f"{len(overlap)} calibration rows are among the rows to decide: {first_five(overlap[:6].to_pylist())}. A "
            "policy is never judged on the rows that it learnt from: take them out of one of the two."
        )
    return decided, align_versions(calibration, decided.names)


def decided_provenance(model: str, tables: Sequence[Predictions], settings: dict[str, object]) -> Provenance:
    """Where decided answers come from: the rows of the oldest version, the packages of the newest, these settings."""
    first, last = tables[0].provenance, tables[-1].provenance
    return Provenance(
        model=model,
        dataset=first.dataset,
        split=first.split,
        fingerprint=first.fingerprint,
        versions=last.versions,
        settings=settings,
    )


def read_ids(path: str | Path) -> pa.Array:
    """The column `id` of a parquet, JSON lines or CSV file; other columns do not matter."""
    table = read_plain_table(Path(path))
    if "id" not in table.column_names:
        raise ValueError(f"{path} has no column id, only {first_five(table.column_names)}. Name the calibration rows.")
    return table["id"].combine_chunks()


def split_by_ids(tables: Sequence[Predictions], ids: pa.Array) -> tuple[list[Predictions], list[Predictions]]:
    """Each table in two: the rows without these ids, and the rows with them.

    Example:
        >>> import pyarrow as pa
        >>> from hf_pct import Predictions
        >>> from hf_pct.policies import split_by_ids
        >>> table = Predictions([1, 2, 3], ["a", "b", "a"], ["a", "b", "b"])
        >>> (kept,), (taken,) = split_by_ids([table], pa.array([2]))
        >>> kept.ids.to_pylist(), taken.ids.to_pylist()
        ([1, 3], [2])
    """
    wanted = _text(ids)
    kept, taken = [], []
    for number, table in enumerate(tables, start=1):
        among = pc.is_in(_text(table.ids), value_set=wanted).to_numpy(zero_copy_only=False)
        if among.sum() != len(pc.unique(wanted)):
            missing = wanted.filter(pc.invert(pc.is_in(wanted, value_set=_text(table.ids))))
            raise NotComparableError(
                f"{len(missing)} of the {len(wanted)} calibration ids are not in version {number}: "
                f"{first_five(missing[:6].to_pylist())}. Name rows that every version has answered."
            )
        kept.append(select_rows(table, np.flatnonzero(~among)))
        taken.append(select_rows(table, np.flatnonzero(among)))
    return kept, taken


def cross_fits(total: int, search: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows to learn from and rows to judge: halves of the search rows by each other, all others by all of them.

    Example:
        >>> import numpy as np
        >>> from hf_pct.policies.versions import cross_fits
        >>> [(learnt.tolist(), judged.tolist()) for learnt, judged in cross_fits(5, np.array([0, 2, 3, 4]))]
        [([2, 4], [0, 3]), ([0, 3], [2, 4]), ([0, 2, 3, 4], [1])]
    """
    others = np.setdiff1d(np.arange(total), search)
    halves = search[::2], search[1::2]
    pairs = [(halves[1], halves[0]), (halves[0], halves[1]), (search, others)]
    return [(learnt, judged) for learnt, judged in pairs if len(judged) and len(learnt)]


def select_rows(table: Predictions, rows: np.ndarray) -> Predictions:
    """Some rows of a table, in this order, as a table."""
    places = pa.array(rows)
    return Predictions(
        table.ids.take(places),
        np.array(table.vocabulary)[table.label_codes[rows]],
        np.array(table.vocabulary)[table.prediction_codes[rows]],
        logits=None if table.logits is None else np.asarray(table.logits)[rows],
        label_names=table.label_names,
        columns={name: column.take(places) for name, column in table.columns.items()},
        provenance=table.provenance,
    )


def check_order(tables: Sequence[Predictions]) -> None:
    """Refuse versions whose tables say that a later one was made before an earlier one: the oldest comes first."""
    dates = [(number, table.provenance.created) for number, table in enumerate(tables, start=1)]
    known = [(number, created) for number, created in dates if created]
    for (first, before), (second, after) in pairwise(known):
        if after < before:
            raise ValueError(
                f"Version {second} was predicted before version {first} ({after} and {before}), expected the oldest "
                "first. Give the versions in the order in which they were in service; if that is the order, predict "
                "them again in it."
            )


def _text(ids: pa.Array) -> pa.Array:
    return ids.cast(pa.string())
