"""What the example scripts share: settings from YAML and flags, one label space, and train, measure, write."""

from __future__ import annotations

import logging
import os
import sys
from argparse import RawDescriptionHelpFormatter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from datasets import ClassLabel, Dataset
from torch import nn
from transformers import HfArgumentParser, set_seed

from ..core.decode import JsonObject, load_yaml
from ..core.errors import NOT_COMPARABLE, WRONG_USE, NotComparableError
from ..core.text import log_safe
from ..flips.compare import compare
from ..flips.comparison_files import write_comparison
from ..flips.report import FlipReport
from ..methods.argument_fields import arguments_for, older_names, warn_of_older_name
from ..methods.base import TrainingMethod
from ..methods.registry import methods_of
from ..models.data import load_data
from ..models.load import load_config, load_model
from ..models.load.adapters import is_adapter
from ..models.load.processors import position_limit
from ..models.predict import predict
from ..models.types import Processor
from .arguments import method_field
from .trainer import PCTrainer

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedTokenizerBase


logger = logging.getLogger(__name__)


_METHODS = methods_of(TrainingMethod)
_TRAINERS: dict[str, type[PCTrainer]] = {
    name: getattr(import_module(__package__), name) for name in {method.trainer for method in _METHODS.values()}
}
_widest: Any = max((trainer.arguments_class for trainer in _TRAINERS.values()), key=lambda cls: len(cls.declared))


@arguments_for(_METHODS.values())
class UpdateArguments(_widest):
    """The settings of every method, for scripts in which `method` chooses among them."""

    methods = tuple(_METHODS)
    method: str = method_field("fd-lm", _METHODS)


@dataclass
class DataArguments:
    """Where rows come from, under the names that transformers' own example scripts use."""

    dataset_name: str | None = field(default=None, metadata={"help": "A dataset on the Hub."})
    dataset_config_name: str | None = field(default=None, metadata={"help": "Its configuration."})
    train_file: str | None = field(default=None, metadata={"help": "Training rows: parquet, CSV or JSON lines."})
    validation_file: str | None = field(default=None, metadata={"help": "Rows to evaluate and to count flips on."})
    train_split_name: str = field(default="train", metadata={"help": "Split of dataset_name to train on."})
    validation_split_name: str = field(
        default="validation", metadata={"help": "Split of dataset_name to evaluate on."}
    )
    label_column_name: str = field(default="label", metadata={"help": "Column with the class: its name or its index."})
    max_train_samples: int | None = field(default=None, metadata={"help": "Use this many training rows."})
    max_eval_samples: int | None = field(default=None, metadata={"help": "Use this many evaluation rows."})

    def load(self) -> tuple[Dataset, Dataset]:
        """Training rows and evaluation rows, cut to what was asked for."""
        if (self.dataset_name is None) == (self.train_file is None):
            raise ValueError(
                f"dataset_name={self.dataset_name!r}, train_file={self.train_file!r}: expected exactly one of them."
            )
        if self.train_file is not None:
            if self.validation_file is None:
                raise ValueError(
                    "train_file was given without validation_file: flips are counted on rows not trained on."
                )
            train, held_out = load_data(self.train_file), load_data(self.validation_file)
        else:
            train, held_out = (
                load_data(str(self.dataset_name), split=split, config=self.dataset_config_name)
                for split in (self.train_split_name, self.validation_split_name)
            )
        return _first(train, self.max_train_samples), _first(held_out, self.max_eval_samples)


def parse_arguments(classes: Sequence[type], argv: Sequence[str] | None = None) -> tuple[object, ...]:
    """Dataclasses from flags; `--config FILE`, or a first argument that ends in .yaml, gives values below the flags.

    What is wrong with them ends a script as argparse does: with the usage, one message and exit code 2.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    about = sys.modules["__main__"].__doc__ if argv is None else None
    parser = HfArgumentParser(list(classes), description=about, formatter_class=RawDescriptionHelpFormatter)
    older = older_names(classes)
    try:
        return _read_arguments(parser, arguments, older)
    except (ValueError, OSError) as error:
        if argv is not None:
            raise
        return parser.error(str(error))


def run_script(main: Callable[[], None]) -> None:
    """Run a script. An error that a user can fix ends it with one message instead of a traceback.

    The exit code is 2, or 3 when two models cannot be compared; `HF_PCT_DEBUG=1` shows where an error comes from.
    """
    try:
        main()
    except (ValueError, OSError, ImportError) as error:
        if os.environ.get("HF_PCT_DEBUG"):
            raise
        kind, code = (
            ("not comparable", NOT_COMPARABLE) if isinstance(error, NotComparableError) else ("error", WRONG_USE)
        )
        first, *rest = log_safe(str(error)).split("\n")
        lines = [f"{Path(sys.argv[0]).name}: {kind}: {first}", *(f"  {line.strip()}" for line in rest)]
        print("\n".join(lines), file=sys.stderr)
        sys.exit(code)


def _read_arguments(parser: HfArgumentParser, arguments: list[str], older: Mapping[str, str]) -> tuple[object, ...]:
    flags = (flag.partition("=")[0].removeprefix("--") for flag in arguments if flag.startswith("--"))
    for name in (flag.replace("-", "_") for flag in flags):
        if name in older:
            warn_of_older_name(name, older[name])
    path = _settings_file(arguments)
    if path is not None:
        values = _by_present_names(path, load_yaml(path, "a YAML file of arguments") or {}, older)
        known = {action.dest: action for action in parser._actions}
        unknown = sorted(set(values) - set(known))
        if unknown:
            raise ValueError(
                f"{path} sets {', '.join(unknown)}, which no argument is called. See --help for the names."
            )
        for name in values:
            known[name].required = False
        parser.set_defaults(**values)
    return parser.parse_args_into_dataclasses(arguments)


def _settings_file(arguments: list[str]) -> Path | None:
    """The YAML file of settings, taken out of the arguments: the first of them, or what `--config` names."""
    first = arguments[0] if arguments else ""
    files = [arguments.pop(0)] if first.endswith((".yaml", ".yml")) and not first.startswith("--") else []
    for at, word in reversed(list(enumerate(arguments))):
        if word == "--config":
            if at + 1 == len(arguments):
                raise ValueError("--config is the last argument, expected a YAML file of settings after it.")
            files.append(arguments[at + 1])
            del arguments[at : at + 2]
        elif word.startswith("--config="):
            files.append(arguments.pop(at).partition("=")[2])
    if len(files) > 1:
        raise ValueError(f"Got {len(files)} files of settings, expected one: {', '.join(files)}.")
    return Path(files[0]) if files else None


def _by_present_names(path: Path, values: object, older: Mapping[str, str]) -> JsonObject:
    """The settings of a YAML file, with older names replaced by those that they have now."""
    if not isinstance(values, dict):
        raise ValueError(f"{path} holds {type(values).__name__}, expected settings by name, one per line.")
    renamed = {}
    for key, value in values.items():
        name = older.get(key, key)
        if name != key:
            warn_of_older_name(key, name)
        if name in renamed:
            raise ValueError(f"{path} sets {name} and {key}, which is its older name.")
        renamed[name] = value
    return renamed


def label_names(train: Dataset, held_out: Dataset, column: str, old_names: Sequence[str] = ()) -> list[str]:
    """The new model's classes: the old model's in their order, then those that the rows add.

    Small splits hold out classes that they never train on. Those are classes too, which the model gets wrong; a
    warning names them.
    """
    trained, measured = (_class_names(rows, column, old_names) for rows in (train, held_out))
    unseen = [name for name in measured if name not in {*trained, *old_names}]
    if unseen:
        logger.warning("%d classes are evaluated but have no training row: %s", len(unseen), ", ".join(unseen[:5]))
    return list(dict.fromkeys([*old_names, *trained, *measured]))


def _class_names(rows: Dataset, column: str, old_names: Sequence[str]) -> Sequence[str]:
    if column not in rows.column_names:
        raise ValueError(f"label_column_name is {column!r}, the rows have {', '.join(rows.column_names)}.")
    feature = rows.features[column]
    if isinstance(feature, ClassLabel):
        return feature.names
    values = sorted(set(rows[column]))
    if values and isinstance(values[0], int):  # bare indices: those of the old model, or classes without names
        return old_names or [str(index) for index in range(values[-1] + 1)]
    return values


def with_label_ids(rows: Dataset, column: str, names: Sequence[str]) -> Dataset:
    """The rows with a column `labels`: the index of each row's class among `names`."""
    feature, values = rows.features[column], list(rows[column])
    if isinstance(feature, ClassLabel):
        values = [feature.names[value] for value in values]
    if values and isinstance(values[0], str):
        index = {name: position for position, name in enumerate(names)}
        values = [index[value] for value in values]
    outside = sorted({value for value in values if not 0 <= value < len(names)})
    if outside:
        raise ValueError(
            f"Labels {outside[:5]} are not indices of the {len(names)} classes; name the classes instead."
        )
    return rows.add_column("labels", values)


def label_list(model: str | None, revision: str | None) -> list[str]:
    """A model's classes in the order of its logits; none without a model. Most say them in their config alone."""
    if model is None:
        return []
    folder = Path(model)
    if is_adapter(model, revision) or (folder.is_dir() and not (folder / "config.json").is_file()):
        return list(load_model(model, revision=revision).label_names or ())
    names = load_config(model, revision).id2label
    return [names[index] for index in sorted(names)]


def cut_texts_at(tokenizer: PreTrainedTokenizerBase, tokens: int, model: nn.Module | None = None) -> None:
    """Let a tokenizer remember where texts are cut in training: saved with the model, it is where they are cut later.

    `predict`, `compare`, `merge` and `verify`, and transformers' own pipelines, read it from the model's folder.
    """
    if tokens < 1:
        raise ValueError(f"max_seq_length is {tokens}, expected at least 1.")
    positions = None if model is None else position_limit(model)  # a tokenizer may allow more than its model does
    tokenizer.model_max_length = min(tokens, tokenizer.model_max_length, positions or tokens)


def update_trainer(
    new_model: Callable[[], nn.Module],
    args: UpdateArguments,
    *trainers: type[PCTrainer],
    search: bool = False,
    **settings: Any,
) -> PCTrainer:
    """The trainer that `args.method` asks for; `new_model` makes a model to start from, other weights each time.

    `trainers` are subclasses that take the place of the kit's own. With `search` the trainer makes its models itself,
    as `hyperparameter_search` needs.
    """
    available = {**_TRAINERS, **{trainer.trainer_name: trainer for trainer in trainers}}
    chosen = available[args.training_method().trainer]
    if chosen.needs_model_init or search:
        return chosen(model_init=new_model, args=args, **settings)
    set_seed(args.seed)
    return chosen(new_model(), args, **settings)


def train_and_measure(
    trainer: PCTrainer, processor: Processor, held_out: Dataset, **columns: Any
) -> FlipReport | None:
    """Train, evaluate, save; then predictions of both models on the held-out rows, the report, and a push if asked."""
    args = trainer.args
    set_seed(args.seed)
    result = trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)
    trainer.log_metrics("train", result.metrics)
    trainer.save_metrics("train", result.metrics)
    metrics = trainer.evaluate()
    trainer.log_metrics("eval", metrics)
    trainer.save_metrics("eval", metrics)
    trainer.save_model()
    trainer.save_state()
    if trainer.is_world_process_zero():
        processor.save_pretrained(args.output_dir)
    trainer.accelerator.wait_for_everyone()
    report = None
    if args.old_model is not None:
        new = predict(args.output_dir, held_out, **columns)
        old = predict(args.old_model, held_out, revision=args.old_revision, **columns)
        report = compare(old, new)
        if trainer.is_world_process_zero():
            write_comparison(Path(args.output_dir), report, old, new, overwrite=True)
            print(report.to_text())
    if args.push_to_hub:
        trainer.push_to_hub()
    trainer.accelerator.end_training()  # what Trainer.end() does, which transformers 5.0 does not have
    return report


def _first(rows: Dataset, count: int | None) -> Dataset:
    return rows if count is None else rows.select(range(min(count, len(rows))))
