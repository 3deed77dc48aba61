"""`hf-pct demo`: the kit on real data in a few minutes."""

import argparse
from pathlib import Path

HELP = "Train a small old and a small new model on real data, compare them and show the report."
EXAMPLE = "hf-pct demo"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output_dir", type=Path, default=Path("hf_pct_demo"), help="where to write")
    parser.add_argument("--seed", type=int, default=0, help="of everything that is drawn")
    parser.add_argument("--quick", action="store_true", help="smaller models and less data, to see that it runs")


def run(args: argparse.Namespace) -> int:
    from ..demo.story import run_demo

    return run_demo(args.output_dir, seed=args.seed, quick=args.quick)
