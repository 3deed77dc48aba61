"""`hf-pct retrieval`: whether new embeddings find what the old ones found, from files."""

import argparse
from pathlib import Path

from ..options import add_overwrite

HELP = "Compare what a search finds with the old embeddings, with new queries on the old gallery, and with new ones."
EXAMPLE = (
    "hf-pct retrieval --old_gallery g1.parquet --old_queries q1.parquet --new_queries q2.parquet "
    "--new_gallery g2.parquet"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    files = (
        ("old_gallery", "the rows that are searched, by the old model", True),
        ("old_queries", "the queries, by the old model", True),
        ("new_queries", "the same queries, by the new model", True),
        ("new_gallery", "the same gallery, by the new model: what backfilling would give", False),
    )
    for name, what, required in files:
        parser.add_argument(
            f"--{name}", metavar="FILE", required=required, help=f"{what} (hf-pct predict --features writes it)"
        )
    parser.add_argument("--ks", type=int, nargs="+", default=[1, 5], metavar="K", help="the k of recall@k")
    parser.add_argument("--distance", choices=("cosine", "euclidean"), default="cosine", help="what near means")
    parser.add_argument(
        "--feature_map",
        metavar="PATH",
        help="the new model's folder or its feature_map.safetensors, when it was trained with feature_map=linear",
    )
    parser.add_argument("--confidence", type=float, default=0.95, help="of the intervals")
    parser.add_argument(
        "--require_criterion",
        action="store_true",
        help="exit with 1 unless new queries on the old gallery beat the old system beyond chance",
    )
    parser.add_argument("--output", type=Path, help="a JSON file for all numbers")
    add_overwrite(parser)


def run(args: argparse.Namespace) -> int:
    from ...core.errors import PASSED, REGRESSED
    from ...core.files import check_can_write, keep_inputs, write_text
    from ...flips.retrieval.compare import compare_retrieval
    from ...flips.tables.predictions import Predictions

    named = [args.old_gallery, args.old_queries, args.new_queries, args.new_gallery]
    paths = [path for path in named if path is not None]  # only the last may be left out
    if args.output is not None:
        check_can_write(args.output, args.overwrite)
        keep_inputs([args.output], paths)
    report = compare_retrieval(
        *map(Predictions.load, paths),
        ks=args.ks,
        distance=args.distance,
        confidence=args.confidence,
        feature_map=args.feature_map,
    )
    print(report.to_text())
    if args.output is not None:
        write_text(args.output, report.to_json(), args.overwrite)
        print(f"written: {args.output}")
    return REGRESSED if args.require_criterion and not report.shown else PASSED
