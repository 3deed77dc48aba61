"""`hf-pct push`: a model and its flips, in one commit."""

import argparse
from pathlib import Path

from ..options import REPORT_HELP
from .card_facts import add_card_facts

HELP = "Publish a model on the Hub together with its flips, in one commit."
EXAMPLE = "hf-pct push ./intent-v2 --repo_id org/intent-v2 --report out/flip_report.json --set_new_version"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="the new model: config, safetensors, tokenizer")
    parser.add_argument("--repo_id", required=True, help="where to publish it: namespace/name")
    parser.add_argument("--report", type=Path, required=True, help=REPORT_HELP)
    parser.add_argument("--processor", help="tokenizer or image processor, when it is not in the folder")
    parser.add_argument("--private", action="store_true", default=None, help="make a private repository")
    parser.add_argument("--revision", help="branch to commit to; main by default")
    parser.add_argument("--commit_message", help="by default it says what is updated")
    parser.add_argument("--replace_card", action="store_true", help="write over a README.md that is there already")
    add_card_facts(parser)
    parser.add_argument(
        "--set_new_version",
        action="store_true",
        help="open a pull request on the old model's repository that points to this one",
    )
    rows = parser.add_argument_group("the flipped rows (ids, answers and confidences are published, nothing else)")
    rows.add_argument("--public_columns", nargs="+", default=[], help="further columns to publish, such as text")
    rows.add_argument("--flips_dataset", help="also publish the flipped rows, with all columns, as this dataset")
    rows.add_argument("--flips_public", action="store_true", help="make that dataset public; it is private otherwise")


def run(args: argparse.Namespace) -> int:
    """Publish a folder."""
    from ...hub.publish import push_update

    done = push_update(
        args.folder,
        args.report,
        args.repo_id,
        processor=args.processor,
        private=args.private,
        revision=args.revision,
        commit_message=args.commit_message,
        replace_card=args.replace_card,
        license=args.license,
        base_model=args.base_model,
        old_model=args.old_model,
        old_revision=args.old_revision,
        dataset_revision=args.dataset_revision,
        public_columns=args.public_columns,
        set_new_version=args.set_new_version,
        flips_dataset=args.flips_dataset,
        flips_public=args.flips_public,
    )
    for note in done.notes:
        print(f"note: {note}")
    if done.flips_dataset:
        print(f"flipped rows: {done.flips_dataset}")
    if done.new_version_url:
        print(f"pull request on the old model: {done.new_version_url}")
    print(f"published: {done.url}")
    return 0
