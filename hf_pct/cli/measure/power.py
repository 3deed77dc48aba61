"""`hf-pct power`: how much a number of rows can show, before they are collected."""

import argparse

HELP = "Say how small a loss so many rows can show, and how many rows a promise needs."
EXAMPLE = """hf-pct power --rows 500 --nfr 0.02
  hf-pct power --nfr 0.02 --drop 0.01
  hf-pct power --nfr 0.002 --max_nfr 0.01"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, help="rows of the comparison: what do they show and promise?")
    parser.add_argument("--drop", type=float, metavar="RATE", help="a loss of accuracy: how many rows show it?")
    parser.add_argument("--max_nfr", type=float, metavar="RATE", help="a promise on NFR: how many rows does it need?")
    parser.add_argument("--nfr", type=float, default=0.0, help="NFR of a harmless update, which fixes as much")
    parser.add_argument("--confidence", type=float, default=0.95, help="of the test and of the promise")
    parser.add_argument("--power", type=float, default=0.8, help="the chance with which a loss must be shown")


def run(args: argparse.Namespace) -> int:
    from ...flips.power import rows_to_promise, rows_to_show, summarise_power

    if args.rows is None and args.drop is None and args.max_nfr is None:
        raise ValueError("Nothing was asked, expected --rows, --drop or --max_nfr. See hf-pct power --help.")
    if args.rows is not None:
        print(summarise_power(args.rows, args.nfr, confidence=args.confidence, power=args.power).to_text())
    if args.drop is not None:
        rows = rows_to_show(args.drop, args.nfr, confidence=args.confidence, power=args.power)
        needed = "no number of rows that can be handled" if rows is None else f"{rows:,} rows"
        print(f"to show a loss of {100 * args.drop:.2f} points in {args.power:.0%} of cases: {needed}")
    if args.max_nfr is not None:
        rows = rows_to_promise(args.max_nfr, args.nfr, args.confidence)
        needed = "impossible: the NFR itself is not below it" if rows is None else f"{rows:,} rows"
        print(f"to promise NFR <= {100 * args.max_nfr:.2f} % when {100 * args.nfr:.2f} % break: {needed}")
    return 0
