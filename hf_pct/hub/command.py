"""`hf-pct card | push | verify | push-metric`: the options, and one function each that carries them out.

The token comes from `hf auth login` or HF_TOKEN and is no option: command lines are seen by others and kept in
histories.
"""

import argparse
from pathlib import Path

from ..cli_arguments import add_data_arguments

CARD_EXAMPLE = "hf-pct card out/flip_report.json --repo_id org/intent-v2 --folder ./intent-v2 --output README.md"
PUSH_EXAMPLE = "hf-pct push ./intent-v2 --repo_id org/intent-v2 --report out/flip_report.json --set_new_version"
VERIFY_EXAMPLE = (
    "hf-pct verify org/intent-v2\n  hf-pct verify org/intent-v2 --dataset test.jsonl --old_model ./intent-v1"
)
PUSH_METRIC_EXAMPLE = "hf-pct push-metric org/nfr"


def add_card_arguments(parser: argparse.ArgumentParser) -> None:
    """Everything that `run_card` reads."""
    parser.add_argument("report", metavar="REPORT", help="flip_report.json, as hf-pct compare writes it")
    parser.add_argument("--repo_id", required=True, help="where the model is published: namespace/name")
    parser.add_argument("--output", type=Path, required=True, help="the Markdown file to write")
    parser.add_argument("--folder", type=Path, help="the model's files: they say the task and how it was made")
    parser.add_argument(
        "--task", choices=("text-classification", "image-classification"), help="when there is no --folder to tell"
    )
    _add_card_facts(parser)
    parser.add_argument("--overwrite", action="store_true", help="replace a file that exists; it is kept otherwise")


def run_card(args: argparse.Namespace) -> int:
    """Write a card; needs neither the Hub nor torch."""
    from ..files import check_can_write, write_text
    from ..flips.report import FlipReport
    from .card import make_card
    from .public_report import public_report

    check_can_write(args.output, args.overwrite)
    report = public_report(
        FlipReport.load(args.report), args.repo_id, old_model=args.old_model, old_revision=args.old_revision
    )
    card = make_card(
        report,
        args.repo_id,
        folder=args.folder,
        task=args.task,
        license=args.license,
        base_model=args.base_model,
        dataset_revision=args.dataset_revision,
    )
    write_text(args.output, str(card), args.overwrite)
    print(f"written to {args.output}")
    return 0


def add_push_arguments(parser: argparse.ArgumentParser) -> None:
    """Everything that `run_push` reads."""
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="the new model: config, safetensors, tokenizer")
    parser.add_argument("--repo_id", required=True, help="where to publish it: namespace/name")
    parser.add_argument("--report", type=Path, required=True, help="flip_report.json, as hf-pct compare writes it")
    parser.add_argument("--processor", help="tokenizer or image processor, when it is not in the folder")
    parser.add_argument("--private", action="store_true", default=None, help="make a private repository")
    parser.add_argument("--revision", help="branch to commit to; main by default")
    parser.add_argument("--commit_message", help="by default it says what is updated")
    parser.add_argument("--replace_card", action="store_true", help="write over a README.md that is there already")
    _add_card_facts(parser)
    parser.add_argument(
        "--set_new_version",
        action="store_true",
        help="open a pull request on the old model's repository that points to this one",
    )
    rows = parser.add_argument_group("the flipped rows (ids, answers and confidences are published, nothing else)")
    rows.add_argument("--public_columns", nargs="+", default=[], help="further columns to publish, such as text")
    rows.add_argument("--flips_dataset", help="also publish the flipped rows, with all columns, as this dataset")
    rows.add_argument("--flips_public", action="store_true", help="make that dataset public; it is private otherwise")


def run_push(args: argparse.Namespace) -> int:
    """Publish a folder."""
    from .publish import push_update

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


def add_verify_arguments(parser: argparse.ArgumentParser) -> None:
    """Everything that `run_verify` reads."""
    parser.add_argument("repo_id", metavar="REPO_ID", help="a model that was published with hf-pct push")
    parser.add_argument("--revision", help="its branch, tag or commit")
    parser.add_argument("--old_model", help="where the old model is, when it is not on the Hub as the report names it")
    parser.add_argument("--old_revision", help="its commit, when the report does not record it")
    parser.add_argument(
        "--new_only",
        action="store_true",
        help="without the old model: the flipped rows and the accuracy of the new one",
    )
    parser.add_argument("--tolerance", type=int, default=0, help="rows that a count may differ by, on other hardware")
    given = "when it is not the Hub dataset that the report names: a file, a folder, an id"
    add_data_arguments(parser, dataset_help=given)


def run_verify(args: argparse.Namespace) -> int:
    """0: the published flips hold, 1: they do not; not comparable is raised, and becomes 3."""
    from .verify import verify

    options = {name: value for name, value in vars(args).items() if name not in ("repo_id", "run", "verb")}
    result = verify(args.repo_id, **options)
    print(result.to_text())
    return result.exit_code


def add_push_metric_arguments(parser: argparse.ArgumentParser) -> None:
    """Everything that `run_push_metric` reads."""
    parser.add_argument("repo_id", metavar="REPO_ID", help="the Space: namespace/name; evaluate.load takes it by that")
    parser.add_argument("--metric", default="nfr", help="which of the kit's metrics")
    parser.add_argument("--private", action="store_true", default=None, help="make a private Space")
    parser.add_argument(
        "--sdk", choices=("gradio", "static"), default="gradio", help="static: without the page to try the metric on"
    )


def run_push_metric(args: argparse.Namespace) -> int:
    """Publish a metric as a Space."""
    from .metric_space import push_metric

    done = push_metric(args.repo_id, args.metric, private=args.private, sdk=args.sdk)
    print(f"published: {done.url}")
    return 0


def _add_card_facts(parser: argparse.ArgumentParser) -> None:
    """What the report and the files may not know."""
    facts = parser.add_argument_group("for the card")
    facts.add_argument("--license", help="by default that of the old model's card")
    facts.add_argument("--base_model", nargs="+", help="what the weights started from; by default the old model")
    facts.add_argument("--old_model", help="the old model's id on the Hub, when it was measured from a copy")
    facts.add_argument("--old_revision", help="its commit")
    facts.add_argument("--dataset_revision", help="commit of the dataset that was measured on")
