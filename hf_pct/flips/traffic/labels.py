"""Labels that a person filled in, held against the traffic that they are about."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from ...core.errors import first_five
from ..tables.readers import read_plain_table
from .answers import repeated_values
from .differences import Traffic
from .estimate import StratumLabels
from .plan import ALL, RARE, pair_name

VERDICTS = ("old", "new", "neither", "unsure")
ANSWERS = ("old_answer", "new_answer")


@dataclass(frozen=True)
class FilledLabel:
    """One labelled row: which side is right, in which stratum it was drawn, and when it was to be labelled."""

    id: str
    right: str
    stratum: str
    order: int


@dataclass(frozen=True)
class FilledLabels:
    """The labels in the order of the plan; `planned` is how many rows the file has, filled in or not."""

    labels: tuple[FilledLabel, ...]
    planned: int
    notes: tuple[str, ...] = ()

    def before_the_first_gap(self) -> tuple[FilledLabel, ...]:
        """The labels up to the first row that was skipped: what a verdict after every label may use."""
        kept = []
        for place, label in enumerate(self.labels, start=1):
            if label.order != place:
                break
            kept.append(label)
        return tuple(kept)


def read_labels(path: str | Path, traffic: Traffic, *, allow_other: bool = False) -> FilledLabels:
    """Read a filled label plan (CSV, JSONL or parquet) and refuse, all at once, what cannot be right.

    A row counts as labelled when `right` says old, new, neither or unsure, or when `label` holds the right answer.
    `allow_other` takes a `label` that is neither model's answer for "neither".
    """
    table = read_plain_table(Path(path))
    if "id" not in table.column_names or not {"right", "label"} & set(table.column_names):
        raise ValueError(
            f"{path} has the columns {', '.join(table.column_names) or '(none)'}, expected id and right (old, new, "
            "neither, unsure) or label (the right answer), as hf-pct label-plan writes them."
        )
    answers = dict(
        zip(
            traffic.differing["id"].to_pylist(),
            zip(*(traffic.differing[name].to_pylist() for name in ANSWERS), strict=True),
            strict=True,
        )
    )
    rows = [{name: _text(value) for name, value in row.items()} for row in table.to_pylist()]
    problems, labels = _Problems(), []
    for place, row in enumerate(rows, start=1):
        right = _verdict(row, answers, allow_other, problems)
        if right:
            order = row.get("order", "")
            labels.append(
                FilledLabel(row["id"], right, row.get("stratum") or ALL, int(order) if order.isdigit() else place)
            )
    repeated = repeated_values(pa.array([label.id for label in labels], pa.string()))
    problems.add("stand on more than one row", repeated)
    problems.raise_all(path)
    if not labels and answers:
        raise ValueError(
            f"{path} has {len(rows)} rows and none is filled in. Write old, new, neither or unsure into the column "
            "right, or the right answer into the column label."
        )
    labels.sort(key=lambda label: label.order)
    return FilledLabels(tuple(labels), len(rows), tuple(_notes(labels, rows)))


class _Problems:
    """Everything that is wrong with a file of labels, by kind, with the ids."""

    def __init__(self) -> None:
        self.kinds: dict[str, list[str]] = {}

    def add(self, kind: str, ids: list[str]) -> None:
        if ids:
            self.kinds.setdefault(kind, []).extend(ids)

    def raise_all(self, path: str | Path) -> None:
        if self.kinds:
            lines = [f"  {len(ids)} ids {kind}: {first_five(ids)}" for kind, ids in self.kinds.items()]
            raise ValueError(f"{path}: these labels cannot be used, and nothing was changed:\n" + "\n".join(lines))


def _text(value: object) -> str:
    return "" if value is None else str(value).strip()


def _verdict(
    row: Mapping[str, str], answers: Mapping[str, tuple[str, str]], allow_other: bool, problems: _Problems
) -> str:
    """old, new, neither, unsure, or nothing for a row that is not filled in."""
    right, label, name = row.get("right", "").lower(), row.get("label", ""), row["id"]
    if not right and not label:
        return ""
    if name not in answers:
        problems.add("are not rows that the two models answer differently (or not of this traffic)", [name])
        return ""
    planned = [row.get(column, answer.strip()) for column, answer in zip(ANSWERS, answers[name], strict=True)]
    if planned != [answer.strip() for answer in answers[name]]:  # "new is right" speaks of the plan's new model
        problems.add(
            "were planned for other answers than these two models give (swapped, or another version?)", [name]
        )
        return ""
    if right and right not in VERDICTS:
        problems.add(f"have {right!r} in the column right, expected {', '.join(VERDICTS)}", [name])
        return ""
    meant = ""
    if label:
        old, new = answers[name]
        meant = "old" if label == old.strip() else "new" if label == new.strip() else "neither"
        if meant == "neither" and right != "neither" and not allow_other:
            problems.add(
                f"have a label that is neither answer ({label!r}, answers {old!r} and {new!r}); write one of the two, "
                "neither in the column right, or allow other labels (--allow_other)",
                [name],
            )
            return ""
        if right and right != meant:
            problems.add(f"say {right} in the column right, but their label {label!r} means {meant}", [name])
            return ""
    return right or meant


def _notes(labels: list[FilledLabel], rows: list[dict[str, str]]) -> list[str]:
    notes = []
    if rows and "stratum" not in rows[0]:
        notes.append("The labels do not say how their rows were drawn; they are taken for a uniform random sample.")
    skipped = max((label.order for label in labels), default=0) - len(labels)
    if skipped > 0:
        notes.append(
            f"{skipped} rows of the plan were skipped before the last label. The intervals hold only if skipping had "
            "nothing to do with who is right; label unsure rows as unsure."
        )
    return notes


def count_strata(labels: tuple[FilledLabel, ...], traffic: Traffic) -> tuple[StratumLabels, ...]:
    """The labels per stratum, with the sizes of the strata counted in the traffic itself."""
    by_stratum: dict[str, list[str]] = {}
    for label in labels:
        by_stratum.setdefault(label.stratum, []).append(label.right)
    pairs = {pair_name(pair): count for pair, count in traffic.pairs()}
    sizes = {name: pairs.get(name, 0) for name in by_stratum if name not in (ALL, RARE)}
    unknown = [name for name, size in sizes.items() if not size]
    if unknown or (ALL in by_stratum and len(by_stratum) > 1):
        raise ValueError(
            f"The strata of the labels do not fit the traffic: {first_five(unknown or list(by_stratum))}. Use the "
            "plan that hf-pct label-plan made of these two models' answers."
        )
    rest = traffic.differ - sum(sizes.values())
    if rest and sizes and RARE not in by_stratum:
        raise ValueError(f"{rest} differing rows are in strata without a label yet. Label on.")
    sizes |= dict.fromkeys(set(by_stratum) & {ALL, RARE}, rest)
    return tuple(
        StratumLabels(name, sizes[name], **{verdict: rights.count(verdict) for verdict in VERDICTS})
        for name, rights in sorted(by_stratum.items())
    )
