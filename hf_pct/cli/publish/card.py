"""`hf-pct card`: the model card of an update."""

import argparse
from pathlib import Path

from ..options import add_output_file, add_overwrite, add_report
from .card_facts import add_card_facts

HELP = "Write the model card of an update from its flip report."
EXAMPLE = "hf-pct card out/flip_report.json --repo_id org/intent-v2 --folder ./intent-v2 --output README.md"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_report(parser)
    parser.add_argument("--repo_id", required=True, help="where the model is published: namespace/name")
    add_output_file(parser, "the Markdown file to write")
    parser.add_argument("--folder", type=Path, help="the model's files: they say the task and how it was made")
    parser.add_argument(
        "--task", choices=("text-classification", "image-classification"), help="when there is no --folder to tell"
    )
    add_card_facts(parser)
    add_overwrite(parser)


def run(args: argparse.Namespace) -> int:
    """Write a card; needs neither the Hub nor torch."""
    from ...core.files import check_can_write, keep_inputs, write_text
    from ...flips.report import FlipReport
    from ...hub.card.text import make_card
    from ...hub.evidence import check_folder
    from ...hub.public_report import public_report

    check_can_write(args.output, args.overwrite)
    keep_inputs([args.output], [args.report])
    full = FlipReport.load(args.report)
    if args.folder:
        for note in check_folder(full, args.folder):
            print(f"note: {note}")
    report = public_report(full, args.repo_id, old_model=args.old_model, old_revision=args.old_revision)
    card = make_card(
        report,
        args.repo_id,
        folder=args.folder,
        task=args.task,
        license=args.license,
        base_model=args.base_model or args.old_model,
        dataset_revision=args.dataset_revision,
    )
    write_text(args.output, str(card), args.overwrite)
    print(f"written to {args.output}")
    return 0
