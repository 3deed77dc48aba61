"""`hf-pct merge`: the options, and one function that carries them out.

Exit codes: 0 merged, 1 no alpha keeps the promise (the new model is written unmerged), 2 wrong use, 3 the models
cannot be merged. Wrong use and models that do not fit are raised as errors, which `hf-pct` turns into 2 and 3.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from hf_pct.cli_arguments import add_data_arguments, add_max_length
from hf_pct.merging.groups import check_alpha

EXAMPLE = """hf-pct merge ./intent-v1 ./intent-v2 --alpha 0.4 --output_dir merged
  hf-pct merge ./intent-v1 ./intent-v2 --alpha auto --dataset dev.jsonl --margin 0.005 --output_dir merged
  hf-pct merge --config merged/pct_merge.json --output_dir merged-again"""


def add_merge_arguments(parser: argparse.ArgumentParser) -> None:
    """Everything that `run_merge` reads."""
    parser.add_argument("models", metavar="OLD NEW", nargs="*", help="the old model, then one or more new ones")
    parser.add_argument("--output_dir", type=Path, required=True, help="a folder that is empty or does not exist")
    parser.add_argument("--method", choices=("linear", "soup", "fisher"), default="linear", help="how to merge")
    parser.add_argument(
        "--alpha", type=_alpha, help="share of the OLD model, 0 to 1, or auto: by contract on --dataset"
    )
    parser.add_argument("--config", type=Path, help="a pct_merge.json: make the same merge again")
    parser.add_argument("--fisher", type=Path, help="the old model's Fisher, as save_fisher writes it")
    parser.add_argument(
        "--fisher_label", choices=("argmax", "true", "expectation"), default="argmax", help="its labels"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    data = add_data_arguments(parser, "development data, for --alpha auto and for a Fisher")
    add_max_length(data)
    data.add_argument("--train_dataset", help="a file: training rows for BatchNorm statistics and the Fisher")
    contract = parser.add_argument_group("the contract of --alpha auto (rates are fractions: 0.01 is 1 %)")
    contract.add_argument("--alphas", type=float, nargs="+", help="alphas to try; 0, 0.1 ... 1 by default")
    contract.add_argument("--margin", type=float, default=0.0, help="accuracy that may be lost against the new model")
    contract.add_argument("--target_accuracy", type=float, help="accuracy to reach instead: a target's lower bound")
    contract.add_argument("--test_confidence", type=float, help="ask for a paired test at this level, such as 0.95")
    contract.add_argument("--max_nfr", type=float, help="flips allowed; the most accurate alpha within them is taken")
    contract.add_argument("--certify", action="store_true", help="search on half of the rows, prove on the other half")
    contract.add_argument("--delta", type=float, default=0.05, help="risk that the certificate is wrong")
    contract.add_argument("--align", choices=("permutation",), help="re-base the new model onto the old one first")


def run_merge(args: argparse.Namespace) -> int:
    """Merge as asked; returns the exit code."""
    _check_use(args)
    from hf_pct.merging.outputs import output_problems

    problems = output_problems(args.output_dir)
    if problems:  # before the work, not after it
        raise ValueError("; ".join(problems))
    progress = not args.quiet
    if args.config:
        from hf_pct.merging.replay import replay

        models = [resolve_folder(model) for model in args.models]
        replay(args.config, args.output_dir, old=models[0] if models else None, new=models[1:], progress=progress)
        print(f"{args.config} made again in {args.output_dir}: the same weights, byte for byte")
        return 0
    if args.alpha == "auto" or (args.method == "fisher" and not args.fisher):
        from hf_pct.merging.automatic import merge_automatically

        return merge_automatically(args)
    from hf_pct.merging.checkpoints import open_checkpoint
    from hf_pct.merging.streaming import merge_checkpoints

    old, *new = (resolve_folder(model) for model in args.models)
    record = merge_checkpoints(
        old, new, args.output_dir, alpha=args.alpha, method=args.method, fisher=args.fisher, progress=progress
    )
    print(f"merged at alpha {record.alpha} (share of the old model) into {args.output_dir}")
    checkpoint, _ = open_checkpoint(old)
    if args.alpha not in (0, 1) and checkpoint and any(n.endswith(".running_mean") for n in checkpoint.entries):
        print(
            "note: this model has BatchNorm layers. Their statistics were interpolated, which is not what the merged "
            "network needs: re-estimate them with --alpha auto --train_dataset, or with BCWIMerger."
        )
    return 0


def _check_use(args: argparse.Namespace) -> None:
    problems = []
    if args.config:
        if args.alpha is not None:
            problems.append("--config already says which alpha; leave --alpha out")
        if len(args.models) == 1:
            problems.append("with --config give no models, or the old and all new ones where they are now")
    else:
        if len(args.models) < 2:
            problems.append(f"{len(args.models)} models were given, expected OLD and at least one NEW")
        if args.alpha is None:
            problems.append("--alpha is missing: a number from 0 to 1, or auto")
        if len(args.models) > 2 and args.method == "linear":
            problems.append(f"--method linear takes one new model, got {len(args.models) - 1}; use --method soup")
        if (args.alpha == "auto" or (args.method == "fisher" and not args.fisher)) and not args.dataset:
            problems.append("--alpha auto, and --method fisher without --fisher, need --dataset")
        if args.align and args.alpha != "auto":
            problems.append("--align needs --alpha auto: whether it helped must be measured")
        if isinstance(args.alpha, dict) and args.method == "fisher" and not args.fisher:
            problems.append("shares by group with --method fisher need a Fisher that is there already: --fisher FILE")
    if problems:
        raise ValueError("; ".join(problems))


def _alpha(text: str) -> float | str | dict[str, float]:
    """A number, `auto`, or a JSON object of shares by group."""
    if text == "auto":
        return text
    try:
        value = json.loads(text)
        check_alpha(value)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a number from 0 to 1, nor auto, nor shares by group such as "
            f'{{"head": 0.2, "default": 0.4}} ({error})'
        ) from error
    return value if isinstance(value, dict) else float(value)


def resolve_folder(model: str) -> str:
    """A folder as it is; a Hub id as the folder of its downloaded files, without pickled weights."""
    if os.path.isdir(model):
        return model
    if model.startswith((".", "/", "~")) or model.count("/") > 1:
        return model  # a folder that does not exist: the merge names it among its problems
    from huggingface_hub import snapshot_download

    try:
        return snapshot_download(model, allow_patterns=["*.json", "*.safetensors", "*.txt", "*.model"])
    except Exception as error:  # every library error means the same here: it is not there
        raise ValueError(
            f"{model} is not a folder, and not a model on the Hub that can be reached ({str(error).splitlines()[0]})"
        ) from error
