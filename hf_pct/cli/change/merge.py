"""`hf-pct merge`: the options, and one function that carries them out.

Exit codes: 0 merged, 1 no alpha keeps the promise (the new model is written unmerged), 2 wrong use, 3 the models
cannot be merged. Wrong use and models that do not fit are raised as errors, which `hf-pct` turns into 2 and 3.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import get_args

from ...core.decode import parse_json
from ...merging.groups import check_alpha
from ...methods.base import MergeRule
from ...methods.registry import build, methods_of
from ...methods.settings import Setting, settings_of
from ..options import add_data_arguments, add_max_length

HELP = "Merge a new model back toward the old one: fewer flips, at no cost at training or inference."
EXAMPLE = """hf-pct merge ./intent-v1 ./intent-v2 --alpha 0.4 --output_dir merged
  hf-pct merge ./intent-v1 ./intent-v2 --alpha auto --dataset_name dev.jsonl --margin 0.005 --output_dir merged
  hf-pct merge ./lora-v1 ./lora-v2 --alpha 0.4 --output_dir merged-adapter
  hf-pct merge --config merged/pct_merge.json --output_dir merged-again"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Everything that `run` reads."""
    parser.add_argument("models", metavar="OLD NEW", nargs="*", help="the old model, then one or more new ones")
    parser.add_argument("--output_dir", type=Path, required=True, help="a folder that is empty or does not exist")
    parser.add_argument("--method", choices=tuple(_rules()), default="linear", help="how to merge")
    parser.add_argument(
        "--alpha", type=_alpha, help="share of the OLD model, 0 to 1, or auto: by contract on --dataset"
    )
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="a pct_merge.json: make the same merge again; or a YAML file with the same keys as these options",
    )
    parser.add_argument("--fisher", type=Path, help="the old model's Fisher, as save_fisher writes it")
    parser.add_argument(
        "--fisher_label", choices=("argmax", "true", "expectation"), default="argmax", help="its labels"
    )
    parser.add_argument("--rank", type=int, help="of two LoRA adapters: the merged adapter's rank; exact when unset")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    settings = parser.add_argument_group("settings of single methods")
    for name, entry in _settings().items():
        kind = next((kind for kind in (float, int) if kind is entry.type or kind in get_args(entry.type)), str)
        settings.add_argument(f"--{name}", type=kind, choices=entry.choices, help=f"{entry.help} ({entry.default})")
    data = add_data_arguments(parser, "development data, for --alpha auto and for a Fisher")
    add_max_length(data)
    data.add_argument("--train_dataset", help="a file: training rows for BatchNorm statistics and the Fisher")
    contract = parser.add_argument_group("the contract of --alpha auto (rates are fractions: 0.01 is 1 %)")
    contract.add_argument("--alphas", type=float, nargs="+", help="alphas to try; 0, 0.1 ... 1 by default")
    contract.add_argument("--margin", type=float, help="accuracy that may be lost against the new model; 0 by default")
    contract.add_argument(
        "--risk",
        type=float,
        default=0.5,
        help="chance of losing more, by the fitted curve; the default means 0.2 with margins; 0: measured rates",
    )
    contract.add_argument("--target_accuracy", type=float, help="accuracy to reach instead: a target's lower bound")
    contract.add_argument("--test_confidence", type=float, help="ask for a paired test at this level, such as 0.95")
    contract.add_argument("--max_nfr", type=float, help="flips allowed; the most accurate alpha within them is taken")
    contract.add_argument("--certify", action="store_true", help="search on half of the rows, prove on the other half")
    contract.add_argument("--delta", type=float, default=0.05, help="risk that the certificate is wrong")
    contract.add_argument("--align", choices=("permutation",), help="re-base the new model onto the old one first")


def reads_config(path: Path) -> bool:
    """A record of a merge is replayed; any other file holds options."""
    return path.suffix == ".json"


def run(args: argparse.Namespace) -> int:
    """Merge as asked; returns the exit code."""
    _check_use(args)
    from ...core.files import check_output_folder

    check_output_folder(args.output_dir)  # before the work, not after it
    from ...models.revisions import resolve_folder

    progress = not args.quiet
    if _replays(args):
        from ...merging.checkpoints.replay import replay

        models = [resolve_folder(model) for model in args.models]
        replay(args.config, args.output_dir, old=models[0] if models else None, new=models[1:], progress=progress)
        print(f"{args.config} made again in {args.output_dir}: the same weights, byte for byte")
        return 0
    old, *new = args.models = [resolve_folder(model) for model in args.models]
    adapters = _check_adapters(args)
    if args.alpha == "auto" or _computes_fisher(args):
        from .automatic_merge import merge_automatically

        return merge_automatically(args)
    if adapters:
        from ...merging.lora import merge_lora

        result = merge_lora(old, new[0], args.output_dir, alpha=args.alpha, rank=args.rank)
        print(f"merged two adapters at alpha {args.alpha} (share of the old one) into {args.output_dir}")
        print(f"rank {result.rank}, relative error {result.relative_error:.2g}")
        return 0
    from ...merging.checkpoints.folders import open_checkpoint
    from ...merging.checkpoints.stream import merge_checkpoints

    rule = build(_rules()[args.method], args)
    record = merge_checkpoints(
        old, new, args.output_dir, alpha=args.alpha, method=rule, fisher=args.fisher, progress=progress
    )
    print(f"merged at alpha {record.alpha} (share of the old model) into {args.output_dir}")
    checkpoint, _ = open_checkpoint(old)
    if args.alpha not in (0, 1) and checkpoint and any(n.endswith(".running_mean") for n in checkpoint.entries):
        print(
            "note: this model has BatchNorm layers. Their statistics were interpolated, which is not what the merged "
            "network needs: re-estimate them with --alpha auto --train_dataset, or with BCWIMerger."
        )
    return 0


def _replays(args: argparse.Namespace) -> bool:
    return args.config is not None and reads_config(args.config)


def _check_use(args: argparse.Namespace) -> None:
    problems = []
    if _replays(args):
        if args.alpha is not None:
            problems.append("--config already says which alpha; leave --alpha out")
        if len(args.models) == 1:
            problems.append("with --config give no models, or the old and all new ones where they are now")
    else:
        if len(args.models) < 2:
            problems.append(f"{len(args.models)} models were given, expected OLD and at least one NEW")
        if args.alpha is None:
            problems.append("--alpha is missing: a number from 0 to 1, or auto")
        if len(args.models) > 2 and not _rules()[args.method].several:
            new = len(args.models) - 1
            problems.append(f"--method {args.method} takes one new model, got {new}; use --method soup")
        if (args.alpha == "auto" or _computes_fisher(args)) and not args.dataset:
            problems.append(f"--alpha auto, and --method {_with_fisher()} without --fisher, need --dataset")
        if args.align and args.alpha != "auto":
            problems.append("--align needs --alpha auto: whether it helped must be measured")
        if isinstance(args.alpha, dict) and _computes_fisher(args):
            problems.append(
                f"shares by group with --method {args.method} need a Fisher that is there already: --fisher FILE"
            )
    if problems:
        raise ValueError("; ".join(problems))


def _check_adapters(args: argparse.Namespace) -> bool:
    """Whether the models are LoRA adapters; they are merged exactly, which leaves few choices."""
    from ...merging.lora import is_adapter_folder

    adapters = [model for model in args.models if is_adapter_folder(model)]
    if not adapters:
        if args.rank is not None:
            raise ValueError(f"--rank is for two LoRA adapters, and {args.models[0]} is none")
        return False
    problems = []
    if len(adapters) < len(args.models):
        whole = [model for model in args.models if model not in adapters]
        problems.append(f"{adapters[0]} is an adapter and {whole[0]} is not: merge adapters with adapters")
    if len(args.models) > 2 or args.method != "linear":
        problems.append("two adapters are merged with --method linear, as one old and one new")
    if isinstance(args.alpha, dict) or args.fisher or args.align:
        problems.append("adapters take one alpha for all parts, and neither --fisher nor --align")
    if problems:
        raise ValueError("; ".join(problems))
    return True


def _rules() -> dict[str, type[MergeRule]]:
    return methods_of(MergeRule)


def _settings() -> dict[str, Setting]:
    return {entry.name: entry for rule in _rules().values() for entry in settings_of(rule)}


def _computes_fisher(args: argparse.Namespace) -> bool:
    return _rules()[args.method].needs.fisher and not args.fisher


def _with_fisher() -> str:
    return " or ".join(name for name, rule in _rules().items() if rule.needs.fisher)


def _alpha(text: str) -> float | str | dict[str, float]:
    """A number, `auto`, or a JSON object of shares by group."""
    if text == "auto":
        return text
    try:
        value = (
            parse_json(text, "--alpha") if text.lstrip().startswith("{") else float(text)
        )  # a share may be written .4 too
        check_alpha(value)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a number from 0 to 1, nor auto, nor shares by group such as "
            f'{{"head": 0.2, "default": 0.4}} ({error})'
        ) from error
    return value if isinstance(value, dict) else float(value)
