"""`hf-pct policy`: one answer per row from several versions' tables."""

import argparse
from typing import TYPE_CHECKING

from ..options import add_overwrite

if TYPE_CHECKING:
    from ...flips.tables.predictions import Predictions
    from ...policies.bayes import BayesianUpdate
    from ...policies.fusion import FusionDecision

HELP = "Decide one answer per row from several versions' answers, so that an update changes only what it is sure of."
EXAMPLE = (
    "hf-pct policy bayes v1.parquet v2.parquet --calibration rows.csv --output decided.parquet\n"
    "  hf-pct policy fuse v1.parquet v2.parquet --calibration rows.csv --output decided.parquet"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from ...policies.bayes import CONFUSIONS, RULES

    parser.add_argument(
        "policy",
        choices=["bayes", "fuse"],
        help="bayes: every version is a witness whose mistakes are known. fuse: the surer of two models, or a mixture",
    )
    parser.add_argument("versions", nargs="+", metavar="TABLE", help="prediction files, the oldest version first")
    parser.add_argument(
        "--calibration",
        nargs="+",
        required=True,
        metavar="FILE",
        help="the rows to learn from: one file with a column id (those rows are taken out of every version), or one "
        "prediction file for each version, on other rows",
    )
    parser.add_argument("--output", required=True, help="where the decided table is written, a .parquet file")
    add_overwrite(parser)
    bayes = parser.add_argument_group("bayes (Träuble et al., 2021)")
    bayes.add_argument("--rule", choices=RULES, default="cost-ratio", help="when the stored answer is changed")
    bayes.add_argument(
        "--cost_ratio", type=float, default=5.0, help="what a negative flip costs against a positive one (default 5)"
    )
    bayes.add_argument(
        "--budget", type=float, default=1.0, help="share of the rows that each new version answers (default 1)"
    )
    bayes.add_argument("--confusion", choices=CONFUSIONS, default="auto", help="how mistakes are estimated")
    fuse = parser.add_argument_group("fuse (two versions with logits; the contract is that of merge)")
    fuse.add_argument("--kinds", nargs="+", choices=("surer", "gate"), default=["surer", "gate"], help="what to try")
    fuse.add_argument("--margin", type=float, help="accuracy that may be lost against the new model (default 0)")
    fuse.add_argument("--max_nfr", type=float, help="negative flips allowed; the most accurate policy within is taken")
    fuse.add_argument("--delta", type=float, default=0.05, help="the risk that the certificate is wrong")


def run(args: argparse.Namespace) -> int:
    from ...core.files import check_can_write, keep_inputs
    from ...flips.tables.predictions import Predictions
    from ...policies.versions import read_ids, split_by_ids

    check_can_write(args.output, args.overwrite)
    keep_inputs([args.output], [*args.versions, *args.calibration])
    versions = [Predictions.load(path) for path in args.versions]
    if len(args.calibration) == 1:
        versions, calibration = split_by_ids(versions, read_ids(args.calibration[0]))
    else:
        calibration = [Predictions.load(path) for path in args.calibration]
    decision = (_bayes if args.policy == "bayes" else _fuse)(args, versions, calibration)
    decision.table.save(args.output, args.overwrite)
    print(decision.to_text())
    print(f"written: {args.output}")
    return 0


def _bayes(
    args: argparse.Namespace, versions: "list[Predictions]", calibration: "list[Predictions]"
) -> "BayesianUpdate":
    from ...policies.bayes import bayesian_update

    return bayesian_update(
        versions, calibration, rule=args.rule, cost_ratio=args.cost_ratio, budget=args.budget, confusion=args.confusion
    )


def _fuse(
    args: argparse.Namespace, versions: "list[Predictions]", calibration: "list[Predictions]"
) -> "FusionDecision":
    from ...flips.choice.contract import Contract
    from ...policies.fusion import fuse

    if len(versions) != 2 or len(calibration) != 2:
        raise ValueError(f"fuse decides between two models, an old and a new one, got {len(versions)} tables.")
    contract = Contract(margin=args.margin, max_nfr=args.max_nfr, delta=args.delta)
    old, new = calibration
    return fuse(versions[0], versions[1], (old, new), kinds=args.kinds, contract=contract)
