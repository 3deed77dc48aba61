"""`hf-pct verify`: do the published flips hold?"""

import argparse
from inspect import signature

from ..options import add_data_arguments

HELP = "Predict again with a published update: exit 0 its flips hold, 1 they differ, 3 not comparable."
EXAMPLE = """hf-pct verify org/intent-v2
  hf-pct verify org/intent-v2 --dataset_name test.jsonl --old_model ./intent-v1"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
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
    where = "when it is not the Hub dataset that the report names: a file, a folder, an id"
    add_data_arguments(parser, dataset_help=where)


def run(args: argparse.Namespace) -> int:
    """0: the published flips hold, 1: they do not; not comparable is raised, and becomes 3."""
    from ...hub.verify import verify

    known = signature(verify).parameters
    result = verify(**{name: value for name, value in vars(args).items() if name in known})
    print(result.to_text())
    return result.exit_code
