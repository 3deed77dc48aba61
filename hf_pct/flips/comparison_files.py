"""The files around a comparison: what `hf-pct compare` reads and what it leaves in `--output_dir`."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ..core.decode import convert, load_json, read_text
from ..core.files import check_can_write, keep_inputs, write_text, write_together
from ..core.model_folder import read_model_config
from .report import FlipReport
from .report_files import rows_file
from .tables.predictions import Predictions
from .tables.readers import PLAIN, ReadOptions, is_table, read_table
from .tables.scores import Scores

REPORT_JSON, REPORT_MARKDOWN = "flip_report.json", "flip_report.md"
TABLES = ("old_predictions.parquet", "new_predictions.parquet")


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


def check_output_dir(folder: Path, overwrite: bool, inputs: Sequence[str | None] = ()) -> None:
    """Report before the work, not after it, that something is in the way, or that an input would be written over.

    `inputs` are what is compared, the old side first: a table may lie where its own copy would go.
    """
    outputs = [folder / name for name in (REPORT_JSON, REPORT_MARKDOWN, *TABLES)]
    for path in outputs:
        check_can_write(path, overwrite)
    keep_sides(outputs, inputs, TABLES)


def keep_sides(outputs: Sequence[Path], inputs: Sequence[str | None], own: Sequence[str]) -> None:
    for output in outputs:
        others = [source for number, source in enumerate(inputs) if own[number : number + 1] != (output.name,)]
        keep_inputs([output], others)


def write_comparison(
    folder: Path, report: FlipReport, old: Predictions, new: Predictions, overwrite: bool = False
) -> list[Path]:
    """The report as JSON and Markdown, and the two prediction tables that prove it: all of them, or none."""
    keep_inputs([folder / TABLES[0]], [new.path])
    keep_inputs([folder / TABLES[1]], [old.path])
    names = [*TABLES, rows_file(folder / REPORT_JSON).name, REPORT_MARKDOWN, REPORT_JSON]
    with write_together(folder, names, overwrite) as partial:
        report.save(partial / REPORT_JSON)
        write_text(partial / REPORT_MARKDOWN, report.to_markdown())
        for name, side in zip(TABLES, (old, new), strict=True):
            write_table(partial / name, side, folder / name)
        rows = [name for name in names[2:3] if (partial / name).exists()]
    return [folder / name for name in (REPORT_JSON, REPORT_MARKDOWN, *TABLES, *rows)]


def write_table(path: Path, side: Predictions, target: Path) -> None:
    """A table that came from a parquet file is copied, which is quicker than writing it again and keeps its bytes."""
    source = side.path
    if source is None or source.suffix != ".parquet":
        side.save(path)
    elif not (target.exists() and target.samefile(source)):
        shutil.copyfile(source, path)
