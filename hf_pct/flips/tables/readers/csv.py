"""Text tables with a header line: commas, tabs, semicolons or bars, in UTF-8 or UTF-16, plain or gzipped."""

import csv as standard_csv
import io
from collections.abc import Sequence

import pyarrow as pa

from ..predictions import Predictions
from ..scores import Scores
from .base import Source
from .options import ReadOptions
from .plain import table_from_arrow, text_columns

NAME = "CSV or TSV"
DELIMITERS = ",\t;|"
RARE_DELIMITERS = "^~:\x01\x1f "  # prose has some of these: only in a file that says by its name that it is a table


def missing(source: Source) -> str:
    if source.path.is_dir():
        return "it is a folder"
    if _named_table(source):
        return ""
    if "\x00" in source.start[:1000] or not source.start.strip():
        return "it is empty" if not source.head else "it is no text"
    return "" if delimiter_of(source.start) else "its first line is no header with at least two columns"


def _named_table(source: Source) -> bool:
    return bool({".csv", ".tsv"} & {*source.path.suffixes})


def delimiter_of(text: str, delimiters: str = DELIMITERS) -> str:
    """The delimiter that cuts the header and the next lines into the same number of cells; empty if there is none."""
    whole = text[: text.rfind("\n") + 1] or text
    best, most = "", 1
    for delimiter in delimiters:
        rows = list(standard_csv.reader(io.StringIO(whole), delimiter=delimiter))[:20]
        widths = {len(row) for row in rows if row}
        if len(widths) == 1 and (width := widths.pop()) > most:
            best, most = delimiter, width
    return best


def read(source: Source, options: ReadOptions) -> Predictions | Scores:
    return table_from_arrow(arrow_table(source, text_columns(options)), source.path, options)


def arrow_table(source: Source, as_text: Sequence[str] | None = None) -> pa.Table:
    """The lines as rows. `as_text` are the columns that stay text whatever they look like; by default all do."""
    from pyarrow import csv

    content = source.content() if source.encoding == "utf-8" else source.text().encode()
    delimiter = delimiter_of(source.start)
    if not delimiter and _named_table(source):
        delimiter = delimiter_of(source.start, RARE_DELIMITERS)
    delimiter = delimiter or ("\t" if ".tsv" in source.path.suffixes else ",")
    if as_text is None:
        as_text = next(standard_csv.reader(io.StringIO(source.start), delimiter=delimiter), [])
    types = {name: pa.string() for name in as_text}
    try:
        table = csv.read_csv(
            io.BytesIO(content),
            parse_options=csv.ParseOptions(delimiter=delimiter, newlines_in_values=b'"' in content),
            convert_options=csv.ConvertOptions(column_types=types, strings_can_be_null=False),
        )
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(
            f"{source.path} cannot be read as a CSV file with a header line: {str(error).splitlines()[0]}"
        ) from error
    doubled = sorted({name for name in table.column_names if table.column_names.count(name) > 1})
    if doubled:
        raise ValueError(f"{source.path} has several columns called {', '.join(doubled)}. Keep the one that is meant.")
    return table
