"""Plain tables (parquet, JSONL, CSV): columns take their roles by name or by mapping.

A file is one of answers or one of scores.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ...._version import __version__
from ....core.decode import JsonObject, convert, parse_json
from ....core.versions import install_command
from ..logits import FileColumns, file_logits
from ..metric import Metric
from ..predictions import METADATA_KEY, Predictions, Provenance
from ..predictions import RESERVED as ANSWER_COLUMNS
from ..scores import FORMAT_VERSION, KIND, RESERVED, Scores
from ..unpacked import check_unpacked_size
from .options import ROLES, ReadOptions

_TEXT_ROLES = ("id", "label", "prediction", "text", "task")  # '007' is an id, not seven


def text_columns(options: ReadOptions) -> list[str]:
    """The columns of a CSV file that must stay text whatever they look like."""
    return [options.columns.get(role, role) for role in _TEXT_ROLES]


def table_from_arrow(table: pa.Table, path: Path, options: ReadOptions) -> Predictions | Scores:
    """The rows of a plain file as answers or as scores.

    A file with `label` and `prediction` is one of answers, as it always was; it is one of scores when its metadata
    says so, when score columns are named, or when it has a column `score` and cannot be anything else.
    """
    metadata = table_metadata(table.schema, path)
    table = _renamed(table, path, options)
    scores = _score_columns(table, metadata, options, path)
    try:
        if scores:
            return _scores(table, scores, metadata)
        return _predictions(table, metadata, options)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def answers_from_file(path: Path, options: ReadOptions) -> Predictions | None:
    """A large parquet file of answers with only its ids, labels and answers read; None where it is not so plain.

    Logits and further columns stay in the file until they are asked for.
    """
    file = pq.ParquetFile(path)
    names = file.schema_arrow.names
    metadata = table_metadata(file.schema_arrow, path)
    plain_roles = {"id", "label"} <= {*names} and {"prediction", "logits"} & {*names}
    if not plain_roles or metadata.get("kind") == KIND or options.columns or options.scores or options.metrics:
        return None
    needed = [name for name in ("id", "label", "prediction") if name in names]
    check_unpacked_size(path, columns=needed)
    table = pq.read_table(
        path, columns=needed, read_dictionary=["label", "prediction"], page_checksum_verification=True
    )
    label_names = _label_names(metadata, options)
    further = [name for name in names if name not in ANSWER_COLUMNS]
    try:
        return Predictions(
            table.column("id"),
            table.column("label"),
            table.column("prediction") if "prediction" in needed else None,
            logits=file_logits(file, path, label_names) if "logits" in names else None,
            label_names=label_names,
            columns=FileColumns(path, file.schema_arrow, further, file.metadata.num_rows),
            provenance=Provenance.from_dict(metadata.get("provenance", {})),
        )
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _label_names(metadata: Mapping[str, Any], options: ReadOptions) -> Sequence[str] | None:
    recorded = metadata.get("label_names")
    if recorded and options.label_names and list(recorded) != list(options.label_names):
        raise ValueError(f"it records its own {len(recorded)} label names, and they differ from the given ones.")
    return recorded or options.label_names


def _renamed(table: pa.Table, path: Path, options: ReadOptions) -> pa.Table:
    missing = [column for column in options.columns.values() if column not in table.column_names]
    if missing:
        raise ValueError(
            f"{path} has no column {', '.join(missing)} (--columns). Its columns: {', '.join(table.column_names)}."
        )
    names = {column: role for role, column in options.columns.items()}
    taken = {*names.values()}
    # a column that has the name of a role that another one was given makes room
    renamed = [names.get(name) or (f"{name}_before_mapping" if name in taken else name) for name in table.column_names]
    return table.rename_columns(renamed)


def _score_columns(table: pa.Table, metadata: Mapping[str, Any], options: ReadOptions, path: Path) -> list[str]:
    present = table.column_names
    if metadata.get("kind") == KIND:
        return [metric["name"] for metric in metadata["metrics"]]
    if options.scores:
        missing = [name for name in options.scores if name not in present]
        if missing:
            raise ValueError(f"{path} has no score column {', '.join(missing)}. Its columns: {', '.join(present)}.")
        return list(options.scores)
    named = [name for name in options.metrics if name in present and name not in RESERVED]
    if named:
        return named
    answers = {"label", "prediction"} <= {*present} or {"label", "logits"} <= {*present}
    return ["score"] if "score" in present and not answers else []


def _scores(table: pa.Table, scores: list[str], metadata: Mapping[str, Any]) -> Scores:
    if "id" not in table.column_names:
        raise ValueError(_lacks(["id"], table.column_names))
    optional = {role: table.column(role) for role in RESERVED if role in table.column_names}
    rest = [name for name in table.column_names if name not in (*RESERVED, *scores)]
    return Scores(
        table.column("id"),
        {name: table.column(name) for name in scores},
        labels=optional.get("label"),
        predictions=optional.get("prediction"),
        texts=optional.get("text"),
        tasks=optional.get("task"),
        repeats=optional.get("repeat"),
        metrics=[Metric(**metric) for metric in metadata.get("metrics", [])],
        default_metric=metadata.get("default_metric"),
        columns={name: table.column(name) for name in rest},
        provenance=Provenance.from_dict(metadata.get("provenance", {})),
        notes=metadata.get("notes", []),
    )


def _predictions(table: pa.Table, metadata: Mapping[str, Any], options: ReadOptions) -> Predictions:
    present = {*table.column_names}
    missing = [name for name in ("id", "label") if name not in present]
    if not present & {"prediction", "logits"}:
        missing.append("prediction (or logits)")
    if missing:
        raise ValueError(_lacks(missing, table.column_names))
    return Predictions(
        table.column("id"),
        table.column("label"),
        table.column("prediction") if "prediction" in present else None,
        logits=table.column("logits") if "logits" in present else None,
        label_names=_label_names(metadata, options),
        columns={name: table.column(name) for name in table.column_names if name not in ANSWER_COLUMNS},
        provenance=Provenance.from_dict(metadata.get("provenance", {})),
    )


def _lacks(missing: list[str], present: list[str]) -> str:
    return (
        f"it lacks {', '.join(missing)}. Expected the columns id, label and prediction, or id and a score, found: "
        f"{', '.join(present) or 'none'}. Rename yours to these, or say which is which: --columns "
        f"id=COLUMN,label=COLUMN,prediction=COLUMN or id=COLUMN,score=COLUMN (roles: {', '.join(ROLES)})."
    )


@dataclass(frozen=True)
class _Metadata:
    """What hf_pct itself writes beside a table, and of which type."""

    format_version: int = FORMAT_VERSION
    kind: str | None = None
    label_names: list[str] | None = None
    provenance: Provenance = field(default_factory=Provenance)
    metrics: list[JsonObject] = field(default_factory=list)
    default_metric: str | None = None
    notes: list[str] = field(default_factory=list)


def table_metadata(schema: pa.Schema, path: Path) -> JsonObject:
    """What hf_pct wrote beside a table, every value of its declared type; empty for a table of others."""
    raw = (schema.metadata or {}).get(METADATA_KEY)
    metadata = parse_json(raw, f"{path}, its metadata") if raw else {}
    written = convert(metadata, _Metadata, f"{path}, its metadata")
    if written.format_version > FORMAT_VERSION:
        raise ValueError(
            f"{path} was written in format {written.format_version} by a newer hf_pct; {__version__} reads up to "
            f"{FORMAT_VERSION}. Upgrade: {install_command(upgrade=True)}"
        )
    return metadata
