"""The files around a comparison: what `hf-pct compare` reads and what it leaves in `--output_dir`."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from .files import check_can_write, write_text, write_whole
from .flips.chain import ChainReport
from .flips.prediction_files import READABLE
from .flips.predictions import Predictions
from .flips.report import FlipReport

REPORT_JSON, REPORT_MARKDOWN = "flip_report.json", "flip_report.md"
TABLES = ("old_predictions.parquet", "new_predictions.parquet")


def read_side(source: str, label_names: str | None, run_model: Callable[[], Predictions]) -> Predictions:
    """Predictions from a file when `source` is one, else by running the model that it names."""
    if Path(source).suffix in READABLE:
        return Predictions.load(source, read_label_names(label_names) if label_names else None)
    return run_model()


def read_label_names(path: str) -> list[str]:
    """Class names in order: from a JSON list, a model's config.json (`id2label`), or a text file, one name a line."""
    text = Path(path).read_text(encoding="utf-8")
    if not path.endswith(".json"):
        return [line.strip() for line in text.splitlines() if line.strip()]
    try:
        names = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if isinstance(names, dict) and "id2label" in names:
        names = [names["id2label"][index] for index in sorted(names["id2label"], key=int)]
    if not isinstance(names, list):
        raise ValueError(
            f"{path} holds {type(names).__name__}, expected a list of class names or a config with id2label."
        )
    return names


def check_output_dir(folder: Path, overwrite: bool) -> None:
    """Say before the work, not after it, that something is in the way."""
    for name in (REPORT_JSON, REPORT_MARKDOWN, *TABLES):
        check_can_write(folder / name, overwrite)


def write_comparison(
    folder: Path, report: FlipReport, old: Predictions, new: Predictions, overwrite: bool = False
) -> list[Path]:
    """The report as JSON and Markdown, and the two prediction tables that prove it."""
    for name, side in zip(TABLES, (old, new), strict=True):
        _write_table(folder / name, side, overwrite)
    report.save(folder / REPORT_JSON, overwrite)
    write_text(folder / REPORT_MARKDOWN, report.to_markdown(), overwrite)
    return [folder / name for name in (REPORT_JSON, REPORT_MARKDOWN, *TABLES)]


def check_chain_output(folder: Path, versions: int, overwrite: bool) -> None:
    """As `check_output_dir`, for a chain."""
    for path in _chain_files(folder, versions):
        check_can_write(path, overwrite)


def write_chain(
    folder: Path, chain: ChainReport, versions: Sequence[Predictions], overwrite: bool = False
) -> list[Path]:
    """The chain as JSON and Markdown, and the tables of all versions."""
    report, text, *tables = _chain_files(folder, len(versions))
    for path, version in zip(tables, versions, strict=True):
        _write_table(path, version, overwrite)
    chain.save(report, overwrite)
    write_text(text, chain.to_markdown(), overwrite)
    return [report, text, *tables]


def _chain_files(folder: Path, versions: int) -> list[Path]:
    tables = [folder / f"v{number}_predictions.parquet" for number in range(1, versions + 1)]
    return [folder / "chain.json", folder / "chain.md", *tables]


def _write_table(path: Path, side: Predictions, overwrite: bool) -> None:
    """A table that came from a parquet file is copied, which is quicker than writing it again and keeps its bytes."""
    source = side.path
    if source is None or source.suffix != ".parquet":
        side.save(path, overwrite)
    elif not (path.exists() and path.samefile(source)):
        with write_whole(path, overwrite) as partial:
            shutil.copyfile(source, partial)
