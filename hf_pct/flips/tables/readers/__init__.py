"""Readers of tables and of other tools' logs, one file per format; the format is found by looking at the content."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import cast

import pyarrow as pa

from ..predictions import Predictions
from ..scores import Scores
from .base import Reader, Source
from .options import ReadOptions, parse_columns

# Formats of one tool come before the plain ones: an lm-eval log is JSONL too.
PLAIN = (".parquet", ".jsonl", ".json", ".csv", ".tsv")
FORMATS = ("inspect_ai", "lm_eval", "lighteval", "promptfoo", "deepeval", "parquet", "jsonl", "csv")

__all__ = [
    "FORMATS",
    "ReadOptions",
    "find_reader",
    "is_table",
    "parse_columns",
    "read_plain_table",
    "read_predictions",
    "read_scores",
    "read_table",
]


def find_reader(path: Path) -> Reader:
    """The reader of this file or folder; an error says which formats were tried and what was missing."""
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist, expected a file of scores or answers, or a log.")
    source = Source(path)
    tried = []
    for name in FORMATS:
        reader = cast(Reader, import_module(f".{name}", __package__))
        missing = reader.missing(source)
        if not missing:
            return reader
        tried.append(f"  {reader.NAME}: {missing}")
    ending = (
        f"{path} ends in {path.suffix or 'nothing'}, expected one of {', '.join(PLAIN)}, or a log of a known tool."
    )
    raise ValueError(f"{ending} Formats tried:\n" + "\n".join(tried))


def is_table(path: Path) -> bool:
    """Whether this is a file, or a folder of logs. A folder with a config is a model, whatever else lies in it."""
    if not path.is_dir():
        return path.is_file()
    if any((path / name).exists() for name in ("config.json", "adapter_config.json")):
        return False
    try:
        find_reader(path)
    except ValueError:
        return False
    return True


def read_table(path: Path, options: ReadOptions | None = None) -> Predictions | Scores:
    """A file or folder of any known format: scores, or answers with labels where it has no scores."""
    reader = find_reader(path)
    try:
        table = reader.read(Source(path), options or ReadOptions())
    except ValueError as error:
        if str(path) in str(error):
            raise
        raise ValueError(f"{path}: {error}") from error
    table.path = path
    return table


def read_plain_table(path: Path) -> pa.Table:
    """The rows of a parquet, JSON lines or CSV file as they are; in a CSV all is text, because '007' is no seven."""
    from . import csv, jsonl, parquet

    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist, expected a file: {', '.join(PLAIN)}.")
    source = Source(path)
    if not parquet.missing(source):
        return parquet.arrow_table(source)
    if not jsonl.missing(source):
        return jsonl.arrow_table(source)
    if not csv.missing(source):
        return csv.arrow_table(source)
    raise ValueError(f"{path} ends in {path.suffix or 'nothing'}, expected one of {', '.join(PLAIN)}.")


def read_predictions(path: Path, label_names: Sequence[str] | None = None) -> Predictions:
    """A file of answers as `Predictions`; `label_names` fill in what the file does not say."""
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise FileNotFoundError(f"{path} {what}, expected a file of predictions ({', '.join(PLAIN)}).")
    table = read_table(path, ReadOptions(label_names=label_names))
    if not isinstance(table, Predictions):
        raise ValueError(f"{path} holds scores, expected answers with labels. Read it with Scores.load.")
    return table


def read_scores(path: Path, options: ReadOptions | None = None) -> Scores:
    """The same, as scores: answers with labels are scored by exact match."""
    table = read_table(path, options)
    return table if isinstance(table, Scores) else Scores.from_predictions(table)
