"""`hf-pct compare` with more than two models: a chain of versions, or candidates for one old model."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..model_runs import is_main_process, run_model
from .score_options import SCORE_ONLY, read_options, refuse_options

if TYPE_CHECKING:
    from ...flips.tables.predictions import Predictions

_TWO_ONLY = ("old_predictions", "new_predictions", "new_revision", "new_processor", "new_columns", "new_label_names")
_NOT_IN_A_CHAIN = ("slices", "weight", "cluster", "old_rerun", "accuracy_margin", "ignore_spelling", "plots",
                   "old_revision", "old_processor")  # fmt: skip
_PASSED_ON = ("slices", "weight", "cluster", "confidence", "correction", "accuracy_margin", "allow_partial",
              "ignore_spelling")  # fmt: skip


def run_several(args: argparse.Namespace) -> int:
    """More than two models, or `--candidates`."""
    refuse_options(args, (*SCORE_ONLY, "metric"), "it is an option for scores, of which two are compared at a time")
    refuse_options(args, _TWO_ONLY, "it is for a comparison of two, and here are several: name them in order")
    if args.candidates:
        if len(args.models) < 2:
            raise ValueError(
                f"Got {len(args.models)} models with --candidates, expected the old one and at least one candidate: "
                "hf-pct compare OLD A B C --candidates."
            )
        return _run_candidates(args)
    refuse_options(args, _NOT_IN_A_CHAIN, "a chain does not have it; compare two at a time, or add --candidates")
    return _run_chain(args)


def _run_chain(args: argparse.Namespace) -> int:
    """The matrix of NFR between every two versions, and the rows that flip back and forth."""
    from ...flips.chain import compare_chain
    from ...flips.comparison_files import chain_files, check_output_dir, write_output

    files = chain_files(len(args.models))
    if args.output_dir:
        check_output_dir(args.output_dir, args.overwrite, args.models, files)
    versions = _tables(args, args.models, "a chain")
    chain = compare_chain(versions, args.models, allow_partial=args.allow_partial)
    if is_main_process():
        print(chain.to_markdown())
        if args.output_dir:
            _say_written(write_output(args.output_dir, files, chain, versions, args.overwrite))
    return 0


def _run_candidates(args: argparse.Namespace) -> int:
    """A table of all candidates against the old model, and the paired differences between them."""
    from ...flips.comparison_files import candidates_files, check_output_dir, write_output
    from ...flips.render.candidates import candidates_text
    from ...flips.several.candidates import compare_several

    files = candidates_files(len(args.models))
    if args.output_dir:
        check_output_dir(args.output_dir, args.overwrite, args.models, files)
    if args.plots:
        from ...viz.figures.style import need_matplotlib

        need_matplotlib()  # before the work, not after it
    old, *candidates = _tables(args, args.models, "a table of candidates")
    rerun = _tables(args, [args.old_rerun], "a noise floor")[0] if args.old_rerun else None
    options = {name: getattr(args, name) for name in _PASSED_ON}
    report = compare_several(old, candidates, _short_names(args.models[1:]), old_rerun=rerun, **options)
    if not is_main_process():
        return 0
    print(candidates_text(report))
    if args.output_dir:
        print()
        _say_written(write_output(args.output_dir, files, report, [old, *candidates], args.overwrite))
    if args.plots:
        from ...viz.figures.plots import save_candidates

        print("drawn: " + ", ".join(map(str, save_candidates(report, args.plots, overwrite=args.overwrite))))
    return 0


def _tables(args: argparse.Namespace, sources: list[str], what: str) -> list[Predictions]:
    """Every model's answers, from a file or by running it; the first of the command line may have a revision."""
    from ...flips.comparison_files import read_side
    from ...flips.tables.predictions import Predictions

    read = read_options(args, "old")
    tables = []
    for source in sources:
        first = source == args.models[0]
        processor, revision = (args.old_processor, args.old_revision) if first else (None, None)
        table = read_side(source, read, partial(run_model, args, source, processor, revision))
        if not isinstance(table, Predictions):
            raise ValueError(f"{source} holds scores; {what} needs answers with labels. Compare two at a time.")
        tables.append(table)
    return tables


def _short_names(sources: list[str]) -> list[str]:
    """The last part of every path where these differ, else as they were given."""
    short = [Path(source).name if Path(source).exists() else source for source in sources]
    return short if len(set(short)) == len(short) else sources


def _say_written(paths: list[Path]) -> None:
    print("written: " + ", ".join(str(path) for path in paths))
