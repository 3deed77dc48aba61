"""Reading prediction tables from parquet, JSONL and CSV files."""

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from .._version import __version__
from .predictions import FORMAT_VERSION, METADATA_KEY, RESERVED, Predictions, Provenance

READABLE = (".parquet", ".jsonl", ".json", ".csv")


def read_predictions(path: Path, label_names: Sequence[str] | None = None) -> Predictions:
    """A prediction file as `Predictions`; `label_names` fill in what the file does not say."""
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise FileNotFoundError(f"{path} {what}, expected a file of predictions ({', '.join(READABLE)}).")
    if path.suffix not in READABLE:
        raise ValueError(f"{path} ends in {path.suffix or 'nothing'}, expected one of {', '.join(READABLE)}.")
    table = _read_parquet(path) if path.suffix == ".parquet" else _read_text(path)
    metadata = _metadata(table, path)
    _check_columns(table, path)
    recorded = metadata.get("label_names")
    if recorded and label_names and list(recorded) != list(label_names):
        raise ValueError(f"{path} records its own {len(recorded)} label names, and they differ from the given ones.")
    names = recorded or label_names
    columns = {name: table.column(name) for name in table.column_names if name not in RESERVED}
    present = set(table.column_names)
    try:
        predictions = Predictions(
            table.column("id"),
            table.column("label"),
            table.column("prediction") if "prediction" in present else None,
            logits=table.column("logits") if "logits" in present else None,
            label_names=names,
            columns=columns,
            provenance=Provenance.from_dict(metadata.get("provenance", {})),
        )
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    predictions.path = path
    return predictions


def _read_parquet(path: Path) -> pa.Table:
    try:
        return pq.read_table(path, read_dictionary=["label", "prediction"])
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(
            f"{path} is not a whole parquet file ({str(error).splitlines()[0]}). It may be truncated or still being "
            "written; make it again, or copy it again."
        ) from error


def _read_text(path: Path) -> pa.Table:
    from pyarrow import csv
    from pyarrow import json as arrow_json

    try:
        if path.suffix == ".csv":
            as_text = {name: pa.string() for name in ("id", "label", "prediction")}  # '007' is an id, not seven
            return csv.read_csv(path, convert_options=csv.ConvertOptions(column_types=as_text))
        return arrow_json.read_json(path)
    except (pa.ArrowInvalid, OSError) as error:
        kind = "a CSV file with a header line" if path.suffix == ".csv" else "JSON lines, one object a row"
        raise ValueError(f"{path} cannot be read as {kind}: {str(error).splitlines()[0]}") from error


def _metadata(table: pa.Table, path: Path) -> dict:
    raw = (table.schema.metadata or {}).get(METADATA_KEY)
    metadata = json.loads(raw) if raw else {}
    version = metadata.get("format_version", FORMAT_VERSION)
    if version > FORMAT_VERSION:
        raise ValueError(
            f"{path} was written in format {version} by a newer hf_pct; {__version__} reads up to {FORMAT_VERSION}. "
            "Upgrade: pip install -U hf-pct"
        )
    return metadata


def _check_columns(table: pa.Table, path: Path) -> None:
    present = set(table.column_names)
    missing = [name for name in ("id", "label") if name not in present]
    if not present & {"prediction", "logits"}:
        missing.append("prediction (or logits)")
    if missing:
        raise ValueError(
            f"{path} lacks {', '.join(missing)}. Expected the columns id, label and prediction, found: "
            f"{', '.join(table.column_names) or 'none'}. Rename yours to these."
        )
