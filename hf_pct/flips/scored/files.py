"""What `hf-pct compare` leaves in `--output_dir` after comparing scores."""

from pathlib import Path

from ...core.files import check_can_write, write_text, write_together
from ..tables.scores import Scores
from .report import ScoreReport

REPORT_JSON, REPORT_MARKDOWN = "score_report.json", "score_report.md"
TABLES = ("old_scores.parquet", "new_scores.parquet")


def check_score_output(folder: Path, overwrite: bool) -> None:
    """Report before the work, not after it, that something is in the way."""
    for name in (REPORT_JSON, REPORT_MARKDOWN, *TABLES):
        check_can_write(folder / name, overwrite)


def write_score_comparison(
    folder: Path, report: ScoreReport, old: Scores, new: Scores, overwrite: bool = False
) -> list[Path]:
    """The report as JSON and Markdown, and the two tables that prove it: all of them, or none."""
    with write_together(folder, [*TABLES, REPORT_MARKDOWN, REPORT_JSON], overwrite) as partial:
        report.save(partial / REPORT_JSON)
        write_text(partial / REPORT_MARKDOWN, report.to_markdown())
        for name, side in zip(TABLES, (old, new), strict=True):
            side.save(partial / name)
    return [folder / name for name in (REPORT_JSON, REPORT_MARKDOWN, *TABLES)]
