"""Answers of an old model that is not available itself: tables of predictions, looked up by the ids of rows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...core.errors import first_five
from ...flips.tables.predictions import Predictions
from ...models.data import Rows
from ...models.fingerprints import data_fingerprint
from ...policies.versions import select_rows


@dataclass(frozen=True)
class OldTables:
    """One or several tables of one old model; together they may cover training, development and test rows."""

    tables: tuple[Predictions, ...]

    @classmethod
    def load(cls, paths: Sequence[str | os.PathLike | Predictions]) -> OldTables:
        """From prediction files, as `hf-pct predict` writes them or as other tools log them."""
        tables = tuple(path if isinstance(path, Predictions) else Predictions.load(path) for path in paths)
        classes = {table.label_names for table in tables}
        if len(classes) > 1:
            raise ValueError(
                f"old_predictions are {len(tables)} tables with different classes, expected those of one old model"
            )
        ids = [str(row) for table in tables for row in table.ids.to_pylist()]
        if len(set(ids)) < len(ids):
            raise ValueError(f"old_predictions hold {len(ids) - len(set(ids))} ids twice, expected one answer per row")
        return cls(tables)

    @property
    def label_names(self) -> tuple[str, ...]:
        """The old model's classes; where only answers are known, all that it answered or should have."""
        named = self.tables[0].label_names
        return tuple(named) if named else tuple(sorted({name for table in self.tables for name in table.vocabulary}))

    @property
    def has_logits(self) -> bool:
        return all(table.logits is not None for table in self.tables)

    @property
    def fingerprint(self) -> str:
        return data_fingerprint([[str(row) for row in table.ids.to_pylist()] + list(table.predictions)
                                 for table in self.tables])  # fmt: skip

    def covers(self, rows: Rows) -> bool:
        return not self._missing(rows)

    def problems(self, rows: Rows, name: str) -> list[str]:
        """Why these rows cannot be looked up: ids that are row numbers, missing rows, or other labels."""
        if rows.ids == list(range(len(rows))):
            return [f"the {name} rows have no column of ids, and old_predictions are matched by id; add one"]
        missing = self._missing(rows)
        if missing:
            return [
                f"{len(missing)} of {len(rows)} {name} rows are not in old_predictions: {first_five(missing)}; "
                "predict them with the old model too"
            ]
        labels = self.rows(rows).labels
        other = [row for row, one, two in zip(rows.ids, labels, rows.labels, strict=True) if str(one) != two]
        if other:
            return [f"{len(other)} {name} rows have another label in old_predictions than in the data: "
                    f"{first_five(other)}"]  # fmt: skip
        return []

    def rows(self, rows: Rows) -> Predictions:
        """The answers to these rows, in their order."""
        places = self._places()
        wanted = [places[str(row)] for row in rows.ids]
        numbers = {number for number, _ in wanted}
        if len(numbers) == 1:
            return select_rows(self.tables[numbers.pop()], np.array([row for _, row in wanted]))
        return _joined(self.tables, wanted)

    def _missing(self, rows: Rows) -> list[object]:
        places = self._places()
        return [row for row in rows.ids if str(row) not in places]

    def _places(self) -> dict[str, tuple[int, int]]:
        return {
            str(row): (number, place)
            for number, table in enumerate(self.tables)
            for place, row in enumerate(table.ids.to_pylist())
        }


def join_tables(tables: Sequence[Predictions]) -> Predictions:
    """All rows of several tables of one model as one table."""
    return _joined(tables, [(number, row) for number, table in enumerate(tables) for row in range(len(table))])


def _joined(tables: Sequence[Predictions], wanted: Sequence[tuple[int, int]]) -> Predictions:
    """Rows of several tables as one."""
    columns = [(table.ids.to_pylist(), list(table.labels), list(table.predictions)) for table in tables]
    ids, labels, answers = ([columns[number][part][row] for number, row in wanted] for part in range(3))
    names, about = tables[0].label_names, tables[0].provenance
    if any(table.logits is None for table in tables):
        return Predictions(ids, labels, answers, label_names=names, provenance=about)
    logits = np.stack([np.asarray(tables[number].logits)[row] for number, row in wanted])
    return Predictions(ids, labels, logits=logits, label_names=names, provenance=about)
