"""The files around a comparison: what `hf-pct compare` reads and what it leaves in `--output_dir`."""

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from ..core.decode import convert, load_json, read_text
from ..core.files import check_can_write, keep_inputs, write_text, write_together
from ..core.model_folder import read_model_config
from .report import FlipReport
from .report_files import rows_file
from .tables.predictions import Predictions
from .tables.readers import PLAIN, ReadOptions, is_table, read_table
from .tables.scores import Scores


@dataclass(frozen=True)
class OutputFiles:
    """The names of what a comparison leaves in a folder: the report, its text, and a table per model."""

    stem: str
    tables: tuple[str, ...]

    @property
    def report(self) -> str:
        return f"{self.stem}.json"

    @property
    def text(self) -> str:
        return f"{self.stem}.md"


FLIPS = OutputFiles("flip_report", ("old_predictions.parquet", "new_predictions.parquet"))
SCORES = OutputFiles("score_report", ("old_scores.parquet", "new_scores.parquet"))
REPORT_JSON, REPORT_MARKDOWN, TABLES = FLIPS.report, FLIPS.text, FLIPS.tables


class Written(Protocol):
    """A report of any kind."""

    def to_markdown(self) -> str: ...

    def save(self, path: Path, overwrite: bool = False) -> Path: ...


def read_side(source: str, options: ReadOptions, run_model: Callable[[], Predictions]) -> Predictions | Scores:
    """Answers or scores from a file or a folder of logs when `source` is one, else by running the model it names."""
    path = Path(source)
    if not (path.suffix in PLAIN or is_table(path)):
        return run_model()
    table = read_table(path, options)
    if not table.provenance.model:  # a report is read months later: the file's name says more than "old model"
        table.provenance = replace(table.provenance, model=path.name)
    return table


def read_label_names(path: str) -> list[str]:
    """Class names in order, from a JSON list, a model's config.json (`id2label`) or a text file, one per line."""
    what = "class names: a JSON list, a model's config.json, or a text file with one name per line"
    if not path.endswith(".json"):
        lines = [line.strip() for line in read_text(path, what).strip().splitlines()]
        if not all(lines):  # leaving it out would give every class after it the name of its neighbour
            raise ValueError(f"{path}: line {lines.index('') + 1} is empty, expected one class name per line.")
        return lines
    names = load_json(path, what)
    if isinstance(names, dict) and "id2label" in names:
        by_index = read_model_config(Path(path))["id2label"] or {}
        return [str(by_index[str(index)]) for index in range(len(by_index))]
    if not isinstance(names, list):
        raise ValueError(
            f"{path} holds {type(names).__name__}, expected a list of class names or a config with id2label."
        )
    return convert(names, list[str], path)


def chain_files(versions: int) -> OutputFiles:
    """The files of a chain of versions."""
    return OutputFiles("chain", tuple(f"v{number}_predictions.parquet" for number in range(1, versions + 1)))


def candidates_files(models: int) -> OutputFiles:
    """The files of one old model, which comes first, and its candidates."""
    names = ("old", *(f"candidate_{number}" for number in range(1, models)))
    return OutputFiles("candidates", tuple(f"{name}_predictions.parquet" for name in names))


def check_output_dir(
    folder: Path, overwrite: bool, inputs: Sequence[str | os.PathLike | None] = (), files: OutputFiles = FLIPS
) -> None:
    """Report before the work, not after it, that something is in the way, or that an input would be written over.

    `inputs` are what is compared, the old side first: a table may lie where its own copy would go.
    """
    for name in (files.report, files.text, *files.tables):
        check_can_write(folder / name, overwrite)
        own = files.tables.index(name) if name in files.tables else None
        keep_inputs([folder / name], [source for number, source in enumerate(inputs) if number != own])


def write_comparison(
    folder: Path, report: FlipReport, old: Predictions, new: Predictions, overwrite: bool = False
) -> list[Path]:
    """The report as JSON and Markdown, and the two prediction tables that prove it: all of them, or none."""
    return write_output(folder, FLIPS, report, (old, new), overwrite)


def write_output(
    folder: Path, files: OutputFiles, report: Written, tables: Sequence[Predictions | Scores], overwrite: bool = False
) -> list[Path]:
    """A report of any kind as JSON and Markdown, and the tables that prove it: all of them, or none."""
    for number, name in enumerate(files.tables):
        keep_inputs([folder / name], [table.path for place, table in enumerate(tables) if place != number])
    rows = [rows_file(folder / files.report).name] if isinstance(report, FlipReport) else []
    with write_together(folder, [*files.tables, *rows, files.text, files.report], overwrite) as partial:
        report.save(partial / files.report)
        write_text(partial / files.text, report.to_markdown())
        for name, table in zip(files.tables, tables, strict=True):
            if isinstance(table, Predictions):
                write_table(partial / name, table, folder / name)
            else:
                table.save(partial / name)
        rows = [name for name in rows if (partial / name).exists()]  # only a report with very many has them
    return [folder / name for name in (files.report, files.text, *files.tables, *rows)]


def write_table(path: Path, side: Predictions, target: Path) -> None:
    """A table that came from a parquet file is copied, which is quicker than writing it again and keeps its bytes."""
    source = side.path
    if source is None or source.suffix != ".parquet":
        side.save(path)
    elif not (target.exists() and target.samefile(source)):
        shutil.copyfile(source, path)
