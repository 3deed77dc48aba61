"""`hf-pct page`: a saved report in, one self-contained HTML file out."""

import argparse

from ..options import add_folder, add_output_file, add_overwrite, add_report

HELP = "Write a report as one HTML file that can be mailed and opened without a network."
EXAMPLE = "hf-pct page out/flip_report.json -o update.html --gate gate.yaml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_report(parser)
    add_output_file(parser, "the HTML file to write", "-o")
    parser.add_argument("--gate", help="YAML file of gate rules: the page then lists which hold and which do not")
    parser.add_argument(
        "--curve", help="pct_merge.json, as hf-pct merge --alpha auto writes it: draws the alpha curve"
    )
    parser.add_argument("--chain", help='JSON with "versions" and their matrix "nfr": shows a chain of versions')
    add_folder(parser)
    parser.add_argument("--no_texts", action="store_true", help="leave the examples out: ids, answers and slices only")
    parser.add_argument("--images", help="dataset with the images of the rows: a file, a saved dataset, or a Hub id")
    parser.add_argument("--split", help="split of the dataset given with --images")
    parser.add_argument("--max_images", type=int, default=500, help="thumbnails to carry at most, broken rows first")
    add_overwrite(parser)


def run(args: argparse.Namespace) -> int:
    """Write the page. The exit code says whether it was written; `hf-pct gate` judges the update."""
    from ...core.files import check_can_write, keep_inputs
    from ...flips.chain import ChainReport
    from ...flips.gate.consistency import check_consistency
    from ...flips.gate.reports import check_gate, load_any_report
    from ...flips.report import FlipReport
    from ...flips.scored.consistency import check_score_consistency
    from ...flips.scored.report import ScoreReport
    from ...flips.scored.rules import ScoreGateConfig
    from ...flips.traffic.report import TrafficReport
    from ...viz.page.write import write_page

    check_can_write(args.output, args.overwrite)  # before the work, not after it
    keep_inputs([args.output], [args.report, args.gate, args.curve, args.chain, args.images])
    if args.max_images < 1:
        raise ValueError(f"--max_images is {args.max_images}, expected at least 1.")
    if args.images and args.no_texts:
        raise ValueError("--images and --no_texts were both given; images are examples too. Leave one of them out.")
    report = load_any_report(args.report)
    if isinstance(report, ChainReport):
        raise ValueError(
            f"{args.report} is a chain of versions, which is shown beside the flips of two of them. Compare these and "
            f"pass it along: hf-pct page flip_report.json --chain {args.report} -o {args.output}."
        )
    if isinstance(report, TrafficReport):
        raise ValueError(
            f"{args.report} is a traffic report, which has no page of its own. hf-pct traffic prints it, and hf-pct "
            "label-plan --page makes a page to label its rows."
        )
    if isinstance(report, FlipReport):
        check_consistency(report)  # a page shows no numbers that a gate would not believe
    if isinstance(report, ScoreReport):
        check_score_consistency(report)
    if args.folder:
        from ...hub.evidence import check_folder

        if not isinstance(report, FlipReport):
            raise ValueError("--folder is for flip reports; other reports do not name one model's weights.")
        for note in check_folder(report, args.folder):
            print(f"note: {note}")
    gate = check_gate(report, ScoreGateConfig.from_yaml(args.gate)) if args.gate else None
    images = None
    if args.images:
        from ...models.data import load_data

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
