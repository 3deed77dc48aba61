"""`hf-pct compare`: the flips between two models, two prediction files, or a chain of versions."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ..model_runs import add_prediction_arguments, is_main_process, run_model
from ..options import add_overwrite
from .score_options import SCORE_ONLY, add_score_arguments, compare_options, read_options, refuse_options
from .several import run_several

if TYPE_CHECKING:
    from ...flips.tables.predictions import Predictions
    from ...flips.tables.scores import Scores

    Side: TypeAlias = Predictions | Scores

HELP = "Count the flips between an old and a new model, two prediction files, or two logs of scores."
EXAMPLE = """hf-pct compare ./intent-v1 ./intent-v2 --dataset_name test.jsonl --output_dir out
  hf-pct compare --old_predictions v1.parquet --new_predictions v2.parquet --output_dir out
  hf-pct compare v1.parquet v2.parquet v3.parquet --output_dir chain
  hf-pct compare v1.parquet v2.parquet v3.parquet --candidates --output_dir candidates
  hf-pct compare lm_eval/v1 lm_eval/v2 --metric acc exact_match --output_dir scores
  hf-pct compare v1.csv v2.csv --columns id=qid,prediction=pred,score=f1 --right_at 0.5 --output_dir graded"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "models",
        metavar="OLD NEW",
        nargs="*",
        help="Hub ids, folders, prediction files, files of scores, or logs of lm-eval, lighteval, Inspect, promptfoo "
        "or deepeval; more than two are a chain",
    )
    parser.add_argument(
        "--candidates",
        action="store_true",
        help="the first is the old model, and all others are candidates to replace it: which one to take?",
    )
    parser.add_argument(
        "--old_predictions", help="the old model's answers: parquet, JSONL or CSV with id, label, prediction"
    )
    parser.add_argument("--new_predictions", help="the new model's answers")
    parser.add_argument("--old_rerun", help="a second training run of the old recipe, model or file: the noise floor")
    parser.add_argument("--output_dir", type=Path, help="write flip_report.json, flip_report.md and both tables here")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="draw the report into this folder; needs matplotlib")
    add_overwrite(parser)
    _add_comparison_arguments(parser)
    add_score_arguments(parser)
    add_prediction_arguments(parser, required=False)
    models = parser.add_argument_group("when models are given")
    models.add_argument("--old_processor", help="the old model's tokenizer or image processor, if not saved with it")
    models.add_argument("--new_processor", help="the new model's, likewise")
    models.add_argument("--old_revision", help="branch, tag or commit of an old model on the Hub")
    models.add_argument("--new_revision", help="of the new model, likewise")


def _add_comparison_arguments(parser: argparse.ArgumentParser) -> None:
    from ...flips.stats import CORRECTIONS

    how = parser.add_argument_group("how to compare")
    how.add_argument("--slices", nargs="+", help="columns to count flips by; by default all with at most 100 values")
    how.add_argument("--weight", help="numeric column by which rows count: traffic, severity")
    how.add_argument(
        "--cluster", help="column whose rows belong together (user, document): every number is by cluster"
    )
    how.add_argument(
        "--allow_partial", action="store_true", help="compare the rows both have, and say what was left out"
    )
    how.add_argument(
        "--ignore_spelling",
        action="store_true",
        help="take class names for the same that differ in spaces, hyphens, case or Unicode form only",
    )
    how.add_argument("--confidence", type=float, default=0.95, help="of every interval and bound")
    how.add_argument("--correction", choices=sorted(CORRECTIONS), default="holm", help="for the p-values of classes")
    how.add_argument(
        "--accuracy_margin", type=float, default=0.0, help="accuracy that may be lost without being inferior"
    )
    how.add_argument(
        "--old_label_names",
        help="classes of the old predictions, for files that do not record them: a JSON "
        "list, a model's config.json, or a text file with one name per line",
    )
    how.add_argument("--new_label_names", help="classes of the new predictions, likewise")


def run(args: argparse.Namespace) -> int:
    from ...flips.compare import compare
    from ...flips.comparison_files import check_output_dir, write_comparison
    from ...flips.tables.predictions import Predictions

    if len(args.models) > 2 or args.candidates:
        return run_several(args)
    if args.output_dir:
        sources = args.models or [args.old_predictions, args.new_predictions]
        check_output_dir(args.output_dir, args.overwrite, [*sources, args.old_rerun])
    if args.plots:
        from ...viz.figures.style import need_matplotlib

        need_matplotlib()  # before the work, not after it
    old, new, rerun = _sides(args)
    common = {name: getattr(args, name) for name in _COMMON_OPTIONS}
    if not isinstance(old, Predictions) or not isinstance(new, Predictions):
        return _run_scores(args, old, new, old_rerun=rerun, **common)
    refuse_options(args, (*SCORE_ONLY, "metric"), "these files hold answers, and it is an option for scores")
    report = compare(
        old,
        new,
        old_rerun=rerun,
        weight=args.weight,
        accuracy_margin=args.accuracy_margin,
        ignore_spelling=args.ignore_spelling,
        **common,
    )
    if not is_main_process():
        return 0
    print(report.to_text())
    if args.output_dir:
        written = write_comparison(args.output_dir, report, old, new, args.overwrite)
        print("\nwritten: " + ", ".join(str(path) for path in written))
    if args.plots:
        from ...viz.figures.plots import save_plots

        drawn = save_plots(report, args.plots, overwrite=args.overwrite)
        print("drawn: " + ", ".join(str(path) for path in drawn))
    return 0


_COMMON_OPTIONS = ("slices", "cluster", "allow_partial", "confidence", "correction")


def _run_scores(
    args: argparse.Namespace, old: Predictions | Scores, new: Predictions | Scores, **options: object
) -> int:
    """Two tables of scores, or one beside a table of answers, which are scored by exact match."""
    from ...core.files import keep_inputs
    from ...core.text import log_safe
    from ...flips.compare import compare
    from ...flips.comparison_files import SCORES, check_output_dir, write_output
    from ...flips.scored.dispatch import as_scores

    options |= compare_options(args)
    if args.output_dir:
        check_output_dir(args.output_dir, args.overwrite, files=SCORES)
        keep_inputs((args.output_dir / name for name in SCORES.tables), [old.path, new.path])
    before, after = as_scores(old, "old"), as_scores(new, "new")
    report = compare(before, after, **options)
    if is_main_process():
        print(log_safe(report.to_text()))
        if args.output_dir:
            written = write_output(args.output_dir, SCORES, report, (before, after), args.overwrite)
            print("\nwritten: " + ", ".join(str(path) for path in written))
    return 0


def _sides(args: argparse.Namespace) -> tuple[Side, Side, Side | None]:
    """Old, new and, if given, the second old run: each from a prediction file or by running a model."""
    from ...flips.comparison_files import read_side

    files, models = (args.old_predictions, args.new_predictions), args.models
    if any(files) == bool(models) or (any(files) and not all(files)) or (models and len(models) < 2):
        raise ValueError(
            f"Got {len(models)} models and {sum(map(bool, files))} prediction files, expected two models (hf-pct "
            "compare OLD NEW --dataset_name DATA) or two files (--old_predictions a.parquet --new_predictions "
            "b.parquet)."
        )
    old, new = models or files

    def side(source: str, which: str, revision: str | None) -> Side:
        processor = getattr(args, f"{which}_processor")
        return read_side(source, read_options(args, which), lambda: run_model(args, source, processor, revision))

    return (
        side(old, "old", args.old_revision),
        side(new, "new", args.new_revision),
        side(args.old_rerun, "old", None) if args.old_rerun else None,
    )
