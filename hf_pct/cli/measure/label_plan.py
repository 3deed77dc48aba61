"""`hf-pct label-plan`: which of the rows that two models answer differently a person should label."""

import argparse
from pathlib import Path

from ..options import add_overwrite
from .answer_sides import add_sides, read_traffic

HELP = "Draw the differing rows to label: a CSV or JSONL to fill in, and a page to do it by keyboard."
EXAMPLE = """hf-pct label-plan old.parquet new.parquet --labels 300 --output plan.csv
  hf-pct label-plan old.parquet new.parquet --labels 300 --output plan.csv --page label.html"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_sides(parser)
    parser.add_argument("--labels", type=int, default=300, metavar="N", help="how many rows to draw")
    parser.add_argument(
        "--strategy",
        choices=("uniform", "stratified"),
        default="uniform",
        help="uniform allows a verdict after every label; stratified takes some of every frequent pair of answers",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the random draw")
    parser.add_argument("--output", type=Path, required=True, help="the CSV or JSONL file to fill in")
    parser.add_argument("--page", type=Path, help="also write a page to label by keyboard: one HTML file, offline")
    add_overwrite(parser)


def run(args: argparse.Namespace) -> int:
    from ...core.files import check_can_write, keep_inputs
    from ...flips.traffic.plan import label_plan
    from ..model_runs import is_main_process

    if args.output.suffix not in (".csv", ".jsonl"):
        raise ValueError(f"{args.output} ends in {args.output.suffix or 'nothing'}, expected .csv or .jsonl.")
    keep_inputs([args.output, args.page], [args.old, args.new])
    for path in filter(None, (args.output, args.page)):
        check_can_write(path, args.overwrite)
    traffic = read_traffic(args)
    plan = label_plan(traffic, args.labels, strategy=args.strategy, seed=args.seed)
    if not is_main_process():
        return 0
    plan.save(args.output, args.overwrite)
    written = [args.output]
    if args.page:
        from ...viz.page.labelling import write_labelling_page

        written.append(write_labelling_page(args.page, plan, overwrite=args.overwrite))
    print(f"{len(plan):,} of {traffic.differ:,} differing rows (of {traffic.rows:,}), in the order to label them.")
    print("Fill in the column right: old, new, neither or unsure; or the right answer in the column label.")
    print("written: " + ", ".join(map(str, written)))
    return 0
