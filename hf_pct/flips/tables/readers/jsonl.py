"""JSON lines, one object per row; a nested `scores` object has one score per metric."""

import io
import re
from mmap import mmap
from pathlib import Path

import pyarrow as pa

from ..predictions import Predictions
from ..scores import Scores
from .base import Source
from .options import ReadOptions
from .plain import table_from_arrow

NAME = "JSON lines"
_NULL, _NULL_LINE = re.compile(rb"\s*null"), re.compile(rb"\n[ \t\r]*null")


def missing(source: Source) -> str:
    if source.path.is_dir():
        return "it is a folder"
    if source.first_object is not None or source.path.suffix in (".jsonl", ".json"):
        return ""
    return "its first line is no JSON object"


def arrow_table(source: Source) -> pa.Table:
    """The lines as rows."""
    from pyarrow import json as arrow_json

    content = source.text().encode() if source.encoding.startswith("utf-16") else source.content()
    content = content.removeprefix(b"\xef\xbb\xbf")
    refuse_null_rows(content, source.path)
    try:
        return arrow_json.read_json(io.BytesIO(content))
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(
            f"{source.path} cannot be read as JSON lines, one object per row: {str(error).splitlines()[0]}"
        ) from error


def refuse_null_rows(content: bytes | mmap, path: Path) -> None:
    """An error for a row that is `null`: pyarrow, and `datasets` with it, does not refuse it but ends the process."""
    nothing = _NULL.match(content) or _NULL_LINE.search(content)
    if nothing:
        line = content[: nothing.end()].count(b"\n") + 1
        raise ValueError(f"{path}, line {line} is null, expected a JSON object.")


def read(source: Source, options: ReadOptions) -> Predictions | Scores:
    table = arrow_table(source)
    nested = "scores"
    if nested in table.column_names and pa.types.is_struct(table.schema.field(nested).type):
        names = [field.name for field in table.schema.field(nested).type]
        for name, column in zip(names, table.column(nested).flatten(), strict=True):
            table = table.append_column(name, column)
        table = table.drop_columns([nested])
        options = options if options.scores else _with_scores(options, names)
    return table_from_arrow(table, source.path, options)


def _with_scores(options: ReadOptions, names: list[str]) -> ReadOptions:
    from dataclasses import replace

    return replace(options, scores=tuple(names))
