"""`hf-pct page`: a saved report in, one self-contained HTML file out."""

import argparse
from pathlib import Path


def add_page_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `hf-pct page`."""
    parser.add_argument("report", metavar="REPORT", help="flip_report.json, as hf-pct compare writes it")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the HTML file to write")
    parser.add_argument("--gate", help="YAML file of gate rules: the page then lists which hold and which do not")
    parser.add_argument(
        "--curve", help="pct_merge.json, as hf-pct merge --alpha auto writes it: draws the alpha curve"
    )
    parser.add_argument("--chain", help='JSON with "versions" and their matrix "nfr": shows a chain of versions')
    parser.add_argument("--no_texts", action="store_true", help="leave the examples out: ids, answers and slices only")
    parser.add_argument("--images", help="dataset with the images of the rows: a file, a saved dataset, or a Hub id")
    parser.add_argument("--split", help="split of the dataset given with --images")
    parser.add_argument("--max_images", type=int, default=500, help="thumbnails to carry at most, broken rows first")
    parser.add_argument(
        "--overwrite", action="store_true", help="replace the file when it exists; it is kept otherwise"
    )


def run_page(args: argparse.Namespace) -> int:
    """Write the page. The exit code says whether it was written; judging the update is `hf-pct gate`'s."""
    from ..files import check_can_write
    from ..flips.gate import GateConfig, check_gate
    from ..flips.report import FlipReport
    from .page import write_page

    check_can_write(args.output, args.overwrite)  # before the work, not after it
    if args.max_images < 1:
        raise ValueError(f"--max_images is {args.max_images}, expected at least 1.")
    if args.images and args.no_texts:
        raise ValueError("--images and --no_texts were both given; images are examples too. Leave one of them out.")
    report = FlipReport.load(args.report)
    gate = check_gate(report, GateConfig.from_yaml(args.gate)) if args.gate else None
    images = None
    if args.images:
        from ..data import load_data

        images = load_data(args.images, split=args.split)
    written = write_page(
        args.output,
        report,
        gate=gate,
        curve=args.curve,
        chain=args.chain,
        texts=not args.no_texts,
        images=images,
        max_images=args.max_images,
        overwrite=args.overwrite,
    )
    print(f"{written} ({written.stat().st_size / 1e6:.1f} MB): open it in any browser, it needs no network")
    return 0
