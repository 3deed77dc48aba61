"""A FlipReport as a file: JSON that people can read, with the flipped rows in a parquet file where they are many."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, asdict, field, fields, make_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from ..core.decode import JsonObject, convert, resolve_beside
from ..core.files import check_can_write, write_text, write_whole
from .counts import RATES, FlipCounts
from .tables.plain_columns import plain_column

if TYPE_CHECKING:
    from .report import FlipReport

LISTED_ROWS = (
    5000  # flipped rows that the JSON itself lists; all of them are in the file beside it when there are more
)
# what a report may say in other words later on; everything else is covered by its seal
_NOT_SEALED = ("old", "new", "notes", "figures", "version", "flips", "flips_file", "seal")
_CLOSE = 1e-9
_EDITED = "The flip report is incomplete or was edited"
EDITED_SINCE = "The report's numbers were changed after it was written. Make it again with hf-pct compare."


def plain(value: Any) -> Any:
    """Dataclasses, tuples and numbers as JSON has them: no NaN, no infinity."""
    if hasattr(value, "__dataclass_fields__"):
        value = asdict(value)
    if isinstance(value, Mapping):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def plain_rows(table: pa.Table) -> list[JsonObject]:
    """The rows of a table as JSON has them: dates and decimals as ISO text, missing numbers as null."""
    columns = {name: plain_column(table.column(name)) for name in table.column_names}
    return [plain(row) for row in pa.table(columns).to_pylist()] if columns else []


def seal(data: Mapping[str, object]) -> str:
    """A hash of a report's numbers, by which a gate knows that none was changed since."""
    numbers = {name: _same_number(value) for name, value in data.items() if name not in _NOT_SEALED}
    return xxhash.xxh3_128_hexdigest(json.dumps(numbers, sort_keys=True, default=str).encode("utf-8", "surrogatepass"))


def _same_number(value: object) -> object:
    """1.0 as 1, wherever it stands: other languages, such as the page's, write both alike."""
    if isinstance(value, Mapping):
        return {name: _same_number(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_same_number(entry) for entry in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def report_json(head: Mapping[str, object], flips: pa.Table) -> str:
    """The text of a report: numbers indented for reading, each flipped row on a line of its own."""
    text = json.dumps(head, indent=2, ensure_ascii=False, allow_nan=False)
    rows = ",\n".join("    " + json.dumps(row, ensure_ascii=False, allow_nan=False) for row in plain_rows(flips))
    listing = f"[\n{rows}\n  ]" if rows else "[]"
    return f'{text.removesuffix("}").rstrip()},\n  "flips": {listing}\n}}\n'


def save_report(report: FlipReport, path: Path, overwrite: bool = False) -> Path:
    """Write the report; the rows first, so that a report never names a file that is not there."""
    check_can_write(path, overwrite)
    head = report.to_dict(flips=False)
    if report.flips.num_rows > LISTED_ROWS:
        rows = rows_file(path)
        with write_whole(rows, overwrite) as partial:
            pq.write_table(report.flips, partial, compression="zstd", write_page_checksum=True)
        head["flips_file"] = rows.name
    return write_text(path, report_json(head, report.flips.slice(0, LISTED_ROWS)), overwrite)


def rows_file(path: Path) -> Path:
    """Where the flipped rows of a report lie when they are too many for JSON."""
    return path.with_name(f"{path.stem}_rows.parquet")


def with_saved_rows(report: FlipReport, path: Path, data: Mapping[str, object]) -> FlipReport:
    """The report with all of its flipped rows, read from the file that it names."""
    name = data.get("flips_file")
    if name is None:
        return report
    rows = resolve_beside(path, str(name), "the file of its flipped rows")
    if not rows.is_file():
        note = f"The flipped rows beyond the first {report.flips.num_rows:,} are not here: {name} is missing."
        return replace(report, flips_cut=True, notes=[*report.notes, note])
    try:
        return replace(report, flips=pq.read_table(rows, page_checksum_verification=True), flips_cut=False)
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise ValueError(f"{rows} is not a whole parquet file ({error}).") from error


def decode_report(kind: type[FlipReport], data: Mapping[str, object]) -> FlipReport:
    """A report from plain values, every one of them of its declared type."""
    contents = {name: value for name, value in data.items() if name not in ("flips", "figures", "seal")}
    contents["figures"] = plain(data.get("figures", {}))  # what is drawn may have had gaps
    written: Any = convert(contents, _written_type(kind), _EDITED)
    counts = convert(contents, FlipCounts, _EDITED)
    values = {entry.name: getattr(written, entry.name) for entry in fields(written)}
    values |= {"flips_cut": "flips" not in data, "edited": _edited(data, counts)}
    return kind(counts=counts, flips=rows_table(data.get("flips", []), f"{_EDITED}: flips"), **values)


def _edited(data: Mapping[str, object], counts: FlipCounts) -> str:
    """What was changed in a report since it was written; empty when nothing was."""
    if "seal" in data and data["seal"] != seal(data):
        return EDITED_SINCE
    for name in ("total", *RATES):
        recorded, expected = data.get(name, getattr(counts, name)), getattr(counts, name)
        if isinstance(recorded, bool) or not isinstance(recorded, (int, float)) or abs(recorded - expected) > _CLOSE:
            return f"The report says {name} {recorded!r}, its counts say {expected!r}: it was edited or damaged."
    return ""


def _written_type(kind: type[FlipReport]) -> type:
    """The fields of a report that are plain values, as a type to decode into."""
    hints = get_type_hints(kind)
    entries: list[Any] = []
    for entry in fields(kind):
        if entry.name in ("counts", "flips", "flips_cut", "edited"):
            continue
        if entry.default is not MISSING:
            entries.append((entry.name, hints[entry.name], field(default=entry.default)))
        elif entry.default_factory is not MISSING:
            entries.append((entry.name, hints[entry.name], field(default_factory=entry.default_factory)))
        else:
            entries.append((entry.name, hints[entry.name]))
    return make_dataclass("Report", entries)


def rows_table(rows: object, what: str) -> pa.Table:
    """The rows that a report lists as a table; `what` names them in errors."""
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"{what} is not a list of rows.")
    try:
        return pa.Table.from_pylist([plain(row) for row in rows])
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{what} cannot be read ({error}).") from error
