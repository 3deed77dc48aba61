"""`hf-pct traffic`: what changed on rows that nobody labelled, and what labels of the changed ones prove."""

import argparse
from pathlib import Path

from ..options import add_overwrite
from .answer_sides import add_sides, read_traffic

HELP = "Compare two models on unlabelled traffic; with labels of differing rows: NFR, PFR and a verdict."
EXAMPLE = """hf-pct traffic ./intent-v1 ./intent-v2 --dataset_name traffic.jsonl
  hf-pct traffic old.parquet new.parquet --labels plan.csv --output traffic_report.json
  hf-pct traffic old.parquet new.parquet --labels plan.csv --until_decided --max_nfr 0.01"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_sides(parser)
    labels = parser.add_argument_group("labels")
    labels.add_argument("--labels", type=Path, help="the plan of hf-pct label-plan, filled in: CSV or JSONL")
    labels.add_argument("--allow_other", action="store_true", help="take a label that is neither answer for 'neither'")
    labels.add_argument("--future", action="store_true", help="rates of future traffic instead of these very rows")
    labels.add_argument(
        "--until_decided",
        action="store_true",
        help="a verdict that holds after every label, on --max_nfr: exit 0 ship, 1 hold back, 3 label on",
    )
    labels.add_argument("--max_nfr", type=float, metavar="RATE", help="the NFR that is allowed, with --until_decided")
    parser.add_argument("--confidence", type=float, default=0.95, help="of every interval, bound and verdict")
    parser.add_argument("--output", type=Path, help="write the report (JSON) here; hf-pct gate reads it")
    add_overwrite(parser)


def run(args: argparse.Namespace) -> int:
    from ...core.errors import NOT_COMPARABLE, PASSED, REGRESSED
    from ...core.files import check_can_write, keep_inputs
    from ...flips.render.traffic import row_lines, slice_lines
    from ...flips.traffic.labels import read_labels
    from ...flips.traffic.report import traffic_report
    from ..model_runs import is_main_process

    if args.until_decided != (args.max_nfr is not None):
        raise ValueError("--until_decided and --max_nfr go together: the verdict is about that limit.")
    keep_inputs([args.output], [args.old, args.new, args.labels])
    if args.output:
        check_can_write(args.output, args.overwrite)
    traffic = read_traffic(args, args.confidence)
    filled = read_labels(args.labels, traffic, allow_other=args.allow_other) if args.labels else None
    report = traffic_report(traffic, filled, confidence=args.confidence, future=args.future, max_nfr=args.max_nfr)
    if is_main_process():
        print(report.to_text())
        for title, lines in (
            ("churn by slice, the largest first:", slice_lines(traffic.slices)),
            ("the most telling rows:", row_lines(traffic.telling())),
        ):
            if lines and not filled:
                print("\n".join(["", title, *lines]))
        if args.output:
            report.save(args.output, args.overwrite)
            print(f"\nwritten: {args.output}")
    if report.verdict is None:
        return PASSED
    return {"ship": PASSED, "hold back": REGRESSED, "label on": NOT_COMPARABLE}[report.verdict.verdict]
