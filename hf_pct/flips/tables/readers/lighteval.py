"""lighteval details: a folder as `--save-details` leaves it, or one `details_<task>_<date>.parquet`.

lighteval numbers its documents. They are joined by that number, and the right answer is compared as text, so that data
in another order is refused instead of being compared by position.
"""

import re
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from ..predictions import Provenance
from ..scores import ONE_TASK, Scores
from .base import Source, as_text, declared
from .log_rows import LogRows
from .options import ReadOptions
from .parquet import MAGIC, arrow_table

NAME = "lighteval details"
_FILE = re.compile(r"details_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT[^_]+)\.parquet$")
_COLUMNS = ("doc", "metric", "model_response")


class _Doc(msgspec.Struct):
    id: object = None
    query: object = None
    choices: list[object] | None = None
    gold_index: int | list[int] | None = None
    task_name: str | None = None


class _Response(msgspec.Struct):
    text: list[object] | None = None
    text_post_processed: list[object] | None = None
    logprobs: list[float] | None = None


class _Detail(msgspec.Struct):
    doc: _Doc
    metric: dict[str, Any]
    model_response: _Response


def missing(source: Source) -> str:
    if source.path.is_dir():
        return "" if _detail_files(source.path) else "no details_*.parquet in it (run lighteval with --save-details)"
    if not source.head.startswith(MAGIC):
        return "it is no parquet file"
    import pyarrow.parquet as pq

    try:
        present = pq.read_schema(source.path).names
    except (pa.ArrowInvalid, OSError):
        return "it is no whole parquet file"
    lacking = [name for name in _COLUMNS if name not in present]
    return f"it has no column {', '.join(lacking)}" if lacking else ""


def _detail_files(folder: Path) -> list[Path]:
    return sorted((path for path in folder.rglob("details_*.parquet") if _FILE.search(path.name)), key=_date)


def _date(path: Path) -> str:
    match = _FILE.search(path.name)
    return match["date"] if match else ""


def read(source: Source, options: ReadOptions) -> Scores:
    paths = _detail_files(source.path) if source.path.is_dir() else [source.path]
    latest: dict[str, Path] = {}
    models = {str(path.parent.parent) for path in paths}
    if len(models) > 1:
        raise ValueError(f"{source.path} holds the details of {len(models)} models. Give the folder of one of them.")
    for path in paths:  # sorted by date: of several runs the latest counts
        match = _FILE.search(path.name)
        latest[match["task"] if match else ""] = path
    rows = LogRows()
    for task, path in latest.items():
        for number, row in enumerate(arrow_table(Source(path)).to_pylist()):
            _add(rows, task, number, declared(row, _Detail, f"{path}, row {number}"))
    model = next(iter(latest.values())).parent.parent.name if source.path.is_dir() else None
    return rows.table(provenance=Provenance(model=model or None))


def _add(rows: LogRows, task: str, number: int, detail: _Detail) -> None:
    doc = detail.doc
    rows.add(
        task or doc.task_name or ONE_TASK,  # a file that was renamed still names its task in each row
        str(number if doc.id in (None, "") else doc.id),
        {name: value for name, value in detail.metric.items() if _is_number(value)},
        label=_gold(doc),
        prediction=_answer(doc, detail.model_response),
        text=as_text(doc.query),
    )


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float))


def _gold(doc: _Doc) -> str | None:
    choices = doc.choices or []
    places = doc.gold_index if isinstance(doc.gold_index, list) else [doc.gold_index]
    right = [str(choices[place]) for place in places if place is not None and 0 <= place < len(choices)]
    return " | ".join(right) or None


def _answer(doc: _Doc, response: _Response) -> str | None:
    """The generated text, or the choice with the highest likelihood."""
    texts = response.text_post_processed or response.text or []
    if texts:
        return as_text(texts[0])
    likelihoods, choices = response.logprobs or [], doc.choices or []
    if likelihoods and len(likelihoods) == len(choices):
        return str(choices[max(range(len(choices)), key=likelihoods.__getitem__)])
    return None
