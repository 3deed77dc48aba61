"""`hf-pct update`: from an old model and more data to the model to ship, by contract.

Exit codes: 0 the contract is kept, 1 nothing keeps it and the plain model was written, 2 wrong use.
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import dataclass
from pathlib import Path

from ...core.decode import JsonObject, convert, load_json

HELP = "Train, merge and choose by contract: from an old model and more data to the model to ship, with the proof."
EXAMPLE = """hf-pct update --old_model ./intents-v1 --train_file train.jsonl --validation_file dev.jsonl \\
    --test_file test.jsonl --margin 0.005 --budget 4 --output_dir ./intents-v2
  hf-pct update --config intents-v2/pct_update.json --output_dir ./intents-v2-again"""
_CONTRACT = ("margin", "max_nfr", "target_accuracy", "certify", "delta", "yardstick")
_TRAINING = ("num_train_epochs", "learning_rate", "per_device_train_batch_size", "warmup_steps", "weight_decay")
_COLUMNS = ("id_column", "input_column", "label_column")
_FILES = ("old_model", "train_file", "validation_file", "test_file", "base_model")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from ...update.planning.plan import POLICIES
    from ...update.planning.recipes import known_methods

    parser.add_argument("--old_model", help="the model in service: a folder or a Hub id")
    parser.add_argument("--train_file", help="training rows, old and new ones: parquet, CSV or JSON lines")
    parser.add_argument("--validation_file", help="development rows, none of them a training row")
    parser.add_argument("--test_file", help="rows for the flip report; the development rows by default")
    parser.add_argument("--output_dir", type=Path, required=True, help="a folder that is empty or does not exist")
    parser.add_argument("--candidates_dir", type=Path, help="trained candidates are kept here; beside output_dir")
    parser.add_argument("--base_model", help="what a model trained anew starts from; may be another architecture")
    parser.add_argument("--budget", type=float, default=1, help="how many plain trainings the search may cost")
    parser.add_argument(
        "--methods", nargs="+", help="narrow the plan to some of " + ", ".join([*known_methods(), *POLICIES]) + "; a "
        "method with several strengths is swept",
    )  # fmt: skip
    parser.add_argument(
        "--old_predictions", nargs="+", metavar="TABLE", help="answers of the old model, in place of --old_model: "
        "prediction files that cover development and test rows, by id; logits of the training rows are distilled",
    )  # fmt: skip
    parser.add_argument(
        "--allow_two_forwards", action="store_true", help="also try models that ask the old and the new one every row"
    )
    parser.add_argument("--start", default="auto", choices=("auto", "old", "anew"), help="where training starts")
    parser.add_argument("--dry_run", action="store_true", help="only show the plan, with times from a few steps")
    parser.add_argument("--allow_missing_classes", action="store_true", help="old classes may have no training row")
    parser.add_argument("--seed", type=int, default=0, help="of the first training")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    contract = parser.add_argument_group("the contract (rates are fractions: 0.01 is 1 %)")
    contract.add_argument("--margin", type=float, help="accuracy that may be lost against the yardstick")
    contract.add_argument("--max_nfr", type=float, help="negative flips allowed")
    contract.add_argument("--target_accuracy", type=float, help="accuracy to reach instead of the yardstick's")
    contract.add_argument("--yardstick", help="a candidate by name; the most accurate plain one by default")
    contract.add_argument("--certify", action="store_true", help="search on half of the rows, prove on the other half")
    contract.add_argument("--delta", type=float, default=0.05, help="risk that the certificate is wrong")
    training = parser.add_argument_group("every training")
    training.add_argument("--num_train_epochs", type=float, default=3.0, help="epochs")
    training.add_argument("--learning_rate", type=float, default=5e-5, help="learning rate")
    training.add_argument("--per_device_train_batch_size", type=int, default=16, help="rows per step")
    training.add_argument("--warmup_steps", type=float, default=0.1, help="steps, or a share of them below 1")
    training.add_argument("--weight_decay", type=float, default=0.01, help="weight decay")
    training.add_argument("--report_to", nargs="+", help="trackers; every candidate is a run of its own")
    columns = parser.add_argument_group("columns")
    columns.add_argument("--id_column_name", dest="id_column", help="by default id, idx, guid or uid")
    columns.add_argument("--text_column_name", "--image_column_name", dest="input_column", nargs="+", help="inputs")
    columns.add_argument("--label_column_name", dest="label_column", help="by default label, labels, intent, ...")


def recorded_options(path: Path) -> JsonObject | None:
    """The options in the record of an earlier update, but for where its output went; None for a plain config."""
    if path.suffix != ".json":
        return None
    record = load_json(path, "the record of an update (pct_update.json)")
    if not isinstance(record, dict):
        raise ValueError(f"{path} holds {type(record).__name__}, expected the record of an update.")
    options = convert({"options": record.get("options")}, _Record, str(path)).options
    return None if options is None else {name: options[name] for name in options if name != "candidates_dir"}


@dataclass(frozen=True)
class _Record:
    """What of a record makes the update again."""

    options: JsonObject | None = None


def run(args: argparse.Namespace) -> int:
    needed = [*([] if args.old_predictions else ["old_model"]), "train_file", "validation_file"]
    missing = [f"--{name}" for name in needed if not getattr(args, name)]
    if missing:
        raise ValueError(f"{', '.join(missing)} missing: an update needs an old model, training and development rows")
    from ...flips.choice.contract import Contract
    from ...update.run import update
    from ...update.write import RECORD as WRITTEN
    from ...update.write import sentence

    training = {name: getattr(args, name) for name in _TRAINING}
    if args.report_to:
        training |= {"report_to": args.report_to, "logging_strategy": "steps"}
    main = int(os.environ.get("RANK", "0")) == 0
    result = update(
        args.old_model,
        args.train_file,
        args.validation_file,
        contract=Contract(**{name: getattr(args, name) for name in _CONTRACT}),
        budget=args.budget,
        test_dataset=args.test_file,
        base_model=args.base_model,
        old_predictions=args.old_predictions or (),
        allow_two_forwards=args.allow_two_forwards,
        start=args.start,
        methods=args.methods,
        training=training,
        columns={name: getattr(args, name) for name in _COLUMNS if getattr(args, name)},
        output_dir=args.output_dir,
        candidates_dir=args.candidates_dir,
        allow_missing_classes=args.allow_missing_classes,
        seed=args.seed,
        dry_run=args.dry_run,
        progress=not args.quiet and main,
        announce=print if main else None,
    )
    if args.dry_run:
        print(result.plan.to_text())
        return 0
    if main:
        _keep_options(args, args.output_dir / WRITTEN)
        print(sentence(result))
        if result.certificate is not None:
            print(result.certificate.promise or "not certified: the proof rows do not show it")
        print(f"written to {args.output_dir}")
    return 0 if result.kept else 1


def _keep_options(args: argparse.Namespace, path: Path) -> None:
    """The options as they were given, so that `--config` makes the update again."""
    from ...core.files import write_text

    written = json.loads(path.read_text(encoding="utf-8"))
    hidden = ("run", "config", "debug", "output_dir", "dry_run", "quiet", "command")
    written["options"] = {name: value for name, value in vars(args).items() if name not in hidden}
    for name in _FILES:
        value = written["options"].get(name)
        if value and os.path.exists(value):
            written["options"][name] = os.path.abspath(value)
    write_text(path, json.dumps(written, indent=2, default=str) + "\n", overwrite=True)
