"""The rows of an update, checked before anything is trained: nothing judged was trained on, no class vanished."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...core.errors import first_five
from ...core.text import quoted
from ...flips.tables.spelling import spelling_form
from ...models.data import Rows, load_data, read_rows
from ...models.fingerprints import data_fingerprint
from ...models.load import LoadedModel
from ...models.revisions import recorded_name
from ...models.types import RowSource

PARTS = {"train": "training", "dev": "development", "test": "test"}


@dataclass(frozen=True)
class UpdateData:
    """Training, development and test rows, and the new model's classes: the old ones, then added ones."""

    train: Rows
    dev: Rows
    test: Rows | None
    names: tuple[str, ...]
    added: tuple[str, ...]
    columns: Mapping[str, Any] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        return f"{self.train.fingerprint}-{'-'.join(self.names)}"


def read_data(
    old: LoadedModel,
    parts: Mapping[str, object],
    columns: Mapping[str, object],
    allow_missing_classes: bool = False,
    old_names: Sequence[str] | None = None,
) -> tuple[UpdateData, list[str]]:
    """The rows of `train`, `dev` and `test` (may be None), and everything that is wrong with them.

    What cannot be read at all is raised, for every part at once.
    """
    known = tuple(old_names if old_names is not None else old.label_names or ())
    rows, unreadable = _read_parts(old, parts, columns, known)
    if unreadable:
        raise ValueError("This update cannot be planned:\n  " + "\n  ".join(unreadable))
    train, dev, test = rows["train"], rows["dev"], rows.get("test")
    if train is None or dev is None:
        raise ValueError("An update needs training rows and development rows.")
    problems = overlaps({"development": dev, "test": test}, train)
    if test is not None:
        problems += overlaps({"test": test}, dev, "development")
    trained = set(train.labels)
    vanished = [name for name in known if name not in trained]
    added = tuple(sorted(trained - set(known)))
    if vanished and not allow_missing_classes:
        problems.append(
            f"{len(vanished)} classes of the old model have no training row: {first_five(vanished)}; an update would "
            "forget them. Add rows, or allow it with allow_missing_classes (--allow_missing_classes)"
        )
    problems += _misspelt(added, known, "training")
    names = (*known, *added)
    for name, part in (("development", dev), ("test", test)):
        unknown = sorted(set(part.labels) - set(names)) if part is not None else []
        if unknown:
            problems.append(
                f"{len(unknown)} classes of the {name} rows are never trained: {first_five(unknown)}"
                + _did_you_mean(unknown, names)
            )
    return UpdateData(train, dev, test, names, added, dict(columns)), problems


def _read_parts(
    old: LoadedModel, parts: Mapping[str, object], columns: Mapping[str, object], names: Sequence[str]
) -> tuple[dict[str, Rows | None], list[str]]:
    rows: dict[str, Rows | None] = {}
    problems = []
    for part, value in parts.items():
        try:
            rows[part] = _read(old, value, columns, names)
        except (ValueError, OSError) as error:
            problems.append(f"the {PARTS[part]} rows: {error}")
    return rows, problems


def _misspelt(added: Sequence[str], known: Sequence[str], what: str) -> list[str]:
    """Labels that would count as added classes and are old ones in another spelling."""
    by_form = {spelling_form(name): name for name in known}
    twins = [name for name in added if spelling_form(name) in by_form]
    if not twins:
        return []
    pairs = ", ".join(f"{quoted(name)} for {quoted(by_form[spelling_form(name)])}" for name in twins[:5])
    return [
        f"{len(twins)} labels of the {what} rows are classes of the old model in another spelling: {pairs}; they "
        "would count as added classes. Write them as the old model does"
    ]


def _did_you_mean(unknown: Sequence[str], names: Sequence[str]) -> str:
    near = {name: difflib.get_close_matches(name, names, n=1) for name in unknown[:5]}
    said = [f"{quoted(name)} may be {quoted(match[0])}" for name, match in near.items() if match]
    return f" ({', '.join(said)})" if said else ""


def overlaps(judged: Mapping[str, Rows | None], train: Rows, trained: str = "training") -> list[str]:
    """Parts that share rows with the training rows, by content and whatever their ids are."""
    seen = set(content_keys(train))
    problems = []
    for name, rows in judged.items():
        shared = sum(key in seen for key in content_keys(rows)) if rows is not None else 0
        if shared:
            problems.append(
                f"{shared} of {len(rows or ())} {name} rows are among the {trained} rows (same content): what is "
                "measured on them says nothing about new rows; remove them from one of the two"
            )
    return problems


def content_keys(rows: Rows) -> list[object]:
    """What each row is, apart from its id and label: texts without spaces at their ends, images by their hash."""
    return [_content(value) for value in rows.inputs(range(len(rows)))]


def _content(value: object) -> object:
    if isinstance(value, str):
        return " ".join(value.split())
    if isinstance(value, tuple):
        return tuple(_content(part) for part in value)
    return data_fingerprint([[value]])


def _read(
    old: LoadedModel, value: str | Path | RowSource | None, columns: Mapping[str, Any], names: Sequence[str]
) -> Rows | None:
    if value is None:
        return None
    data = value
    if isinstance(value, str) or hasattr(value, "__fspath__"):
        data = load_data(value)
        data.info.dataset_name = recorded_name(value)  # reports name the file, and not the format that it was read as
    return read_rows(data, usual_inputs=old.task.usual_columns, model_names=names or None, **columns)
