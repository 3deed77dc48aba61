"""`hf-pct predict`: a model's answers to a dataset, as a file."""

import argparse
from pathlib import Path

from ..model_runs import add_prediction_arguments, is_main_process, run_model
from ..options import add_overwrite

HELP = "Run a model over a dataset and keep its answers as a file."
EXAMPLE = "hf-pct predict ./intent-v1 --dataset_name test.jsonl --output v1.parquet"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a Hub id or a folder")
    parser.add_argument("--output", type=Path, required=True, help="the parquet file to write")
    parser.add_argument("--processor", help="tokenizer or image processor, when it is not saved with the model")
    parser.add_argument("--revision", help="branch, tag or commit of a model on the Hub")
    parser.add_argument(
        "--features",
        action="store_true",
        help="also keep what goes into the last layer, as hf-pct retrieval compares it",
    )
    add_prediction_arguments(parser, required=True)
    add_overwrite(parser)


def run(args: argparse.Namespace) -> int:
    from ...core.files import check_can_write, keep_inputs

    check_can_write(args.output, args.overwrite)  # before the work, not after it
    keep_inputs([args.output], [args.dataset])
    predictions = run_model(args, args.model, args.processor, args.revision, features=args.features)
    if is_main_process():
        predictions.save(args.output, args.overwrite)
        print(f"{predictions!r}\nwritten to {args.output}")
    return 0
