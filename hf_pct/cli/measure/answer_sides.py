"""The two sides of unlabelled traffic, for the commands that read them: files of answers, or models over a dataset."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ..model_runs import add_prediction_arguments, run_model

if TYPE_CHECKING:
    from ...flips.traffic.answers import Answers
    from ...flips.traffic.differences import Traffic


def add_sides(parser: argparse.ArgumentParser) -> None:
    """OLD, NEW and how to read or run them."""
    parser.add_argument(
        "old", metavar="OLD", help="the old model's answers (parquet, JSONL, CSV), or the model itself"
    )
    parser.add_argument("new", metavar="NEW", help="the new model's, likewise")
    parser.add_argument("--slices", nargs="+", help="columns to count changed answers by")
    parser.add_argument("--allow_partial", action="store_true", help="use the rows that both sides have")
    parser.add_argument("--old_label_names", help="classes of the old side, when its file has logits or indices only")
    parser.add_argument("--new_label_names", help="of the new side, likewise")
    add_prediction_arguments(parser, required=False)


def read_traffic(args: argparse.Namespace, confidence: float = 0.95) -> Traffic:
    """Join both sides by id; `confidence` is that of the slices' intervals."""
    from ...flips.traffic.differences import compare_traffic

    old, new = _side(args, args.old, args.old_label_names), _side(args, args.new, args.new_label_names)
    return compare_traffic(old, new, slices=args.slices, allow_partial=args.allow_partial, confidence=confidence)


def _side(args: argparse.Namespace, source: str, label_names: str | None) -> Answers:
    from ...flips.comparison_files import read_label_names
    from ...flips.traffic.answers import READABLE, Answers

    if Path(source).suffix in READABLE or Path(source).is_file():
        return Answers.load(source, read_label_names(label_names) if label_names else None)
    return Answers.from_predictions(run_model(args, source, None, None, labelled=False))
