"""The data of a page: the flipped rows by column, without what must not be shown, in a block of safe JSON."""

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from ...flips.report import FlipReport

CORE = ("id", "kind", "label", "old_answer", "new_answer", "old_confidence", "new_confidence")
MAX_ROWS = 100_000
MAX_CHARACTERS = 2_000
# Slices with fewer rows a value than this may be the examples themselves: a column of sentences, or of users.
MIN_ROWS_A_VALUE = 5
_SAFE_INTEGER = 2**53 - 1


@dataclass(frozen=True)
class PageRows:
    """The flipped rows as a page holds them: each column as values, or as codes of the few names that occur."""

    count: int
    columns: dict[str, dict[str, list]]
    slices: list[str]
    notes: list[str] = field(default_factory=list)


def page_slices(report: FlipReport, texts: bool) -> tuple[list[str], list[str]]:
    """The slices a page may show, and why others are left out: without texts, none that might be text itself."""
    if texts:
        return list(report.slices), []
    kept = [
        name
        for name, groups in report.slices.items()
        if groups and sum(group.rows for group in groups) >= MIN_ROWS_A_VALUE * len(groups)
    ]
    left_out = [name for name in report.slices if name not in kept]
    if not left_out:
        return kept, []
    return kept, [f"Slices with fewer than {MIN_ROWS_A_VALUE} rows a value are left out: {', '.join(left_out)}."]


def page_rows(flips: pa.Table, slices: Collection[str], *, texts: bool = True) -> PageRows:
    """The flipped rows without what must not be shown. `texts=False` keeps ids, answers, confidences and `slices`."""
    notes = []
    names = [name for name in flips.column_names if texts or name in CORE or name in slices]
    if not texts:
        notes.append("The examples themselves are left out; rows are named by their ids.")
    if flips.num_rows > MAX_ROWS:
        notes.append(f"Of {flips.num_rows:,} flipped rows the first {MAX_ROWS:,} are listed, broken ones first.")
    count = min(flips.num_rows, MAX_ROWS)  # a table without columns forgets its length when it is sliced
    shown = flips.select(names).slice(0, count)
    columns, cut = {}, 0
    for name in names:
        columns[name], shortened = _encode(shown.column(name))
        cut += shortened
    if cut:
        notes.append(f"{cut:,} texts are cut at {MAX_CHARACTERS:,} characters.")
    return PageRows(count, columns, [name for name in slices if name in columns], notes)


def data_block(
    report: FlipReport, rows: PageRows, slices: Collection[str], thumbnails: Mapping[str, str] | None = None
) -> str:
    """JSON that is safe inside a script element: no character in it can begin a tag, an entity or a comment."""
    head = report.to_dict(flips=False)
    head["slices"] = {name: groups for name, groups in head["slices"].items() if name in slices}
    data = {
        "report": head,
        "rows": rows.count,
        "columns": rows.columns,
        "slices": rows.slices,
        "thumbnails": dict(thumbnails or {}),
    }
    return safe_json(data)


def safe_json(data: object) -> str:
    """JSON without a character that could begin a tag, an entity or a comment, and without NaN."""
    text = json.dumps(_finite(data), ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=str)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _encode(column: pa.ChunkedArray) -> tuple[dict[str, list], int]:
    """A column for JSON, and how many texts were cut in it."""
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        lengths = pc.utf8_length(column)
        cut = pc.sum(pc.greater(lengths, MAX_CHARACTERS)).as_py() or 0
        if cut:
            column = pc.utf8_slice_codeunits(column, 0, MAX_CHARACTERS)
        encoded = column.dictionary_encode().combine_chunks()
        if len(encoded.dictionary) * 2 <= len(column):
            return {"codes": encoded.indices.fill_null(-1).to_pylist(), "names": encoded.dictionary.to_pylist()}, cut
        return {"values": column.to_pylist()}, cut
    if pa.types.is_floating(column.type):
        return {"values": [None if value is None else round(value, 6) for value in column.to_pylist()]}, 0
    values = column.to_pylist()
    if pa.types.is_integer(column.type) and any(abs(value or 0) > _SAFE_INTEGER for value in values):
        values = [None if value is None else str(value) for value in values]  # JavaScript would round them
    return {"values": values}, 0


def _finite(value: object) -> object:
    """JSON has no NaN and no infinity; what is not a number is null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(entry) for entry in value]
    return value
