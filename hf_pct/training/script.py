"""What the example scripts share: settings from YAML and flags, one label space, and train, measure, write."""

from __future__ import annotations

import logging
import sys
from argparse import RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from datasets import ClassLabel, Dataset
from transformers import AutoConfig, HfArgumentParser, set_seed

from ..compare_files import write_comparison
from ..data import load_data
from ..flips.compare import compare
from ..flips.report import FlipReport
from ..predict import predict
from .args import ELODIArguments
from .base import PCTrainer
from .elodi import ELODITrainer
from .focal_distill import FocalDistillTrainer

logger = logging.getLogger(__name__)


@dataclass
class UpdateArguments(ELODIArguments):
    """The settings of every method, for scripts in which `method` chooses among them."""

    method: str = field(
        default="fd-lm",
        metadata={
            "help": "elodi trains members and then a student held near their mean; the others are held near the old "
            "model: none, naive, kd, fd-kl, fd-lm, fd-dynamic.",
            "choices": ELODIArguments.methods,
        },
    )


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


def parse_arguments(classes: Sequence[type], argv: Sequence[str] | None = None) -> tuple[Any, ...]:
    """Dataclasses from flags; a first argument that ends in .yaml gives values that flags then override.

    What is wrong with them ends a script as argparse does: with the usage, one message and exit code 2.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    about = sys.modules["__main__"].__doc__ if argv is None else None
    parser = HfArgumentParser(list(classes), description=about, formatter_class=RawDescriptionHelpFormatter)
    try:
        return _read_arguments(parser, arguments)
    except (ValueError, OSError) as error:
        if argv is not None:
            raise
        return parser.error(str(error))


def _read_arguments(parser: HfArgumentParser, arguments: list[str]) -> tuple[Any, ...]:
    if arguments and arguments[0].endswith((".yaml", ".yml")):
        path = Path(arguments.pop(0))
        values = yaml.safe_load(path.read_text()) or {}
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
    found = sorted(set(rows[column]))
    if found and isinstance(found[0], int):  # bare indices: those of the old model, or classes without names
        return old_names or [str(index) for index in range(found[-1] + 1)]
    return found


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
    """A model's classes in the order of its logits, from its config alone; none without a model."""
    if model is None:
        return []
    names = AutoConfig.from_pretrained(model, revision=revision).id2label
    return [names[index] for index in sorted(names)]


def update_trainer(
    new_model: Callable[[], Any],
    args: UpdateArguments,
    focal: type[FocalDistillTrainer] = FocalDistillTrainer,
    elodi: type[ELODITrainer] = ELODITrainer,
    **settings: Any,
) -> PCTrainer:
    """The trainer that `args.method` asks for; `new_model` makes a model to start from, other weights each time."""
    if args.method == "elodi":
        return elodi(model_init=new_model, args=args, **settings)
    set_seed(args.seed)
    return focal(new_model(), args, **settings)


def train_and_measure(trainer: PCTrainer, processor: Any, held_out: Dataset, **columns: Any) -> FlipReport | None:
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
        new, old = (predict(model, held_out, **columns) for model in (args.output_dir, args.old_model))
        report = compare(old, new)
        if trainer.is_world_process_zero():
            write_comparison(Path(args.output_dir), report, old, new, overwrite=True)
            print(report.to_text())
    if args.push_to_hub:
        trainer.push_to_hub()
    trainer.end()
    return report


def _first(rows: Dataset, count: int | None) -> Dataset:
    return rows if count is None else rows.select(range(min(count, len(rows))))
