"""The files of several versions: what `hf-pct compare` leaves for a chain, and for candidates."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from ...core.files import check_can_write, write_text, write_together
from ..comparison_files import keep_sides, write_table
from ..tables.predictions import Predictions

CHAIN, CANDIDATES = "chain", "candidates"


class Several(Protocol):
    """A report of several versions."""

    def to_markdown(self) -> str: ...

    def save(self, path: Path, overwrite: bool = False) -> Path: ...


def check_several_output(folder: Path, kind: str, sources: Sequence[str], overwrite: bool) -> None:
    """Say before the work that something is in the way, or that an input would be written over."""
    outputs = several_files(folder, kind, len(sources))
    for path in outputs:
        check_can_write(path, overwrite)
    keep_sides(outputs, sources, [path.name for path in outputs[2:]])


def write_several(
    folder: Path, kind: str, report: Several, versions: Sequence[Predictions], overwrite: bool = False
) -> list[Path]:
    """The report as JSON and Markdown, and the tables of all versions: all of them, or none."""
    target, text, *tables = several_files(folder, kind, len(versions))
    with write_together(folder, [path.name for path in (*tables, text, target)], overwrite) as partial:
        report.save(partial / target.name)
        write_text(partial / text.name, report.to_markdown())
        for path, version in zip(tables, versions, strict=True):
            write_table(partial / path.name, version, path)
    return [target, text, *tables]


def several_files(folder: Path, kind: str, count: int) -> list[Path]:
    """The report, its text, and one table for each version; of candidates the first is the old model."""
    names = [f"v{number}" for number in range(1, count + 1)]
    if kind == CANDIDATES:
        names = ["old", *(f"candidate_{number}" for number in range(1, count))]
    return [
        folder / f"{kind}.json",
        folder / f"{kind}.md",
        *(folder / f"{name}_predictions.parquet" for name in names),
    ]
