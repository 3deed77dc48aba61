"""One model's answers to rows that nobody labelled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...core.errors import first_five
from ..tables.encoding import is_seen
from ..tables.plain_columns import without_views
from ..tables.predictions import Predictions, Provenance
from ..tables.readers import PLAIN, read_plain_table
from ..tables.readers.plain import table_metadata

READABLE = PLAIN
_NOT_COLUMNS = ("id", "label", "prediction", "logits", "confidence")


@dataclass(frozen=True)
class Answers:
    """What one model answered, by id, with its confidence where known and any further columns."""

    ids: pa.Array
    answers: pa.Array
    confidence: np.ndarray | None = None
    columns: Mapping[str, pa.ChunkedArray] = field(default_factory=dict)
    provenance: Provenance = field(default_factory=Provenance)

    def __post_init__(self) -> None:
        problems = [] if len(self.ids) else ["there are no rows"]
        unseen = sum(rows for answer, rows in rows_of(self.answers).items() if not is_seen(answer or ""))
        nameless = self.ids.null_count + (pc.sum(pc.equal(self.ids, "")).as_py() or 0)
        for name, empty in (("id", nameless), ("prediction", unseen)):
            if empty:
                problems.append(f"{empty} of {len(self.ids)} rows have no {name}")
        repeated = repeated_values(self.ids)
        if repeated:
            problems.append(f"{len(repeated)} ids stand on more than one row: {first_five(repeated)}")
        if problems:
            raise ValueError("; ".join(problems) + ".")

    @classmethod
    def from_predictions(cls, table: Predictions) -> "Answers":
        """The answers of a labelled table; its labels are not used."""
        names = pa.array(table.vocabulary, pa.string())
        answers = names.take(pa.array(table.prediction_codes))
        columns = {name: column for name, column in table.columns.items() if name not in _NOT_COLUMNS}
        return cls(table.ids.cast(pa.string()), answers, table.confidence(), columns, table.provenance)

    @classmethod
    def load(cls, path: str | Path, label_names: Sequence[str] | None = None) -> "Answers":
        """Read `id` and `prediction` (or `logits`) from parquet, JSONL or CSV. A column `label` is not used."""
        table = read_plain_table(Path(path))
        present = set(table.column_names)
        if "id" not in present or not present & {"prediction", "logits"}:
            raise ValueError(
                f"{path} has the columns {', '.join(table.column_names) or '(none)'}, expected id and prediction (or "
                "logits)."
            )
        metadata = table_metadata(table.schema, Path(path))
        try:
            answers, confidence = _answers(table, label_names or metadata.get("label_names"))
            columns = {name: without_views(table[name]) for name in table.column_names if name not in _NOT_COLUMNS}
            source = Provenance.from_dict(metadata.get("provenance", {}))
            return cls(as_text(table["id"]), answers, confidence, columns, source)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error


def as_text(column: pa.ChunkedArray) -> pa.Array:
    """A column of text or whole numbers as one array of text."""
    if pa.types.is_dictionary(column.type):
        column = pc.cast(column, column.type.value_type)
    if pa.types.is_floating(column.type):
        raise ValueError(f"a column of type {column.type} where text or whole numbers are expected")
    text = column.cast(pa.string())
    return text.combine_chunks() if isinstance(text, pa.ChunkedArray) else text


def repeated_values(column: pa.Array) -> list[str]:
    """The values that stand on more than one row."""
    counted = pc.value_counts(column)
    return pc.filter(counted.field("values"), pc.greater(counted.field("counts"), 1)).to_pylist()


def rows_of(column: pa.Array) -> dict[str, int]:
    """On how many rows each value stands."""
    counted = pc.value_counts(column)
    return dict(zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True))


def _answers(table: pa.Table, names: Sequence[str] | None) -> tuple[pa.Array, np.ndarray | None]:
    """The answers by name, and how sure the model was of each."""
    if "logits" in table.column_names:
        if not names:
            raise ValueError("there are logits but no label names to say which class each column is")
        labels = pa.array(["?"] * len(table))  # a table of predictions has labels; these are never looked at
        predicted = table["prediction"] if "prediction" in table.column_names else None
        side = Predictions(as_text(table["id"]), labels, predicted, logits=table["logits"], label_names=list(names))
        return Answers.from_predictions(side).answers, side.confidence()
    confidence = None
    if "confidence" in table.column_names:
        confidence = table["confidence"].cast(pa.float64()).to_numpy()
    column = table["prediction"]
    if names and pa.types.is_integer(column.type):
        return pa.array(list(names), pa.string()).take(column.combine_chunks()), confidence
    return as_text(column), confidence
