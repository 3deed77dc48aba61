"""Running a model over a dataset, for the commands that take a model where a prediction file would do."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from .options import add_data_arguments, add_max_length

if TYPE_CHECKING:
    from ..flips.tables.predictions import Predictions


_RESERVED = ("id", "label", "prediction", "logits")  # names that a table of predictions has itself


def add_prediction_arguments(parser: argparse.ArgumentParser, required: bool) -> None:
    """The options that `run_model` reads."""
    data = add_data_arguments(parser, required=required)
    add_max_length(data)
    data.add_argument(
        "--keep_columns", nargs="+", default=[], help="columns to keep: slices, weights, the text itself"
    )
    data.add_argument("--no_cache", action="store_true", help="neither use nor keep cached logits")


def run_model(
    args: argparse.Namespace,
    model: str,
    processor: str | None,
    revision: str | None,
    *,
    labelled: bool = True,
    features: bool = False,
) -> Predictions:
    """The answers of one model to the dataset of the command line.

    Where the rows are not `labelled`, the labels of the table mean nothing, and all plain columns are kept.
    """
    if not args.dataset:
        raise ValueError(
            f"{model} is not a prediction file, so it is taken for a model, and a model needs --dataset_name: "
            "a file, a folder saved by `datasets`, or a Hub id."
        )
    import datasets
    from transformers.utils import logging

    from ..models.data import load_data
    from ..models.predict import predict

    # the one progress bar that a person waits for is that of the prediction
    datasets.disable_progress_bars()
    logging.disable_progress_bar()
    data = load_data(args.dataset, split=args.split, config=args.dataset_config)
    label_column, keep_columns = args.label_column, args.keep_columns
    if not labelled:
        plain = [name for name, feature in data.features.items() if isinstance(feature, datasets.Value)]
        keep_columns = keep_columns or [name for name in plain if name not in _RESERVED]
        label_column = "hf_pct_no_label"
        data = data.add_column(label_column, [0] * len(data))  # the first class, and nobody looks at it
    return predict(
        model,
        data,
        processor=processor,
        revision=revision,
        id_column=args.id_column,
        input_column=args.input_column,
        label_column=label_column,
        keep_columns=keep_columns,
        batch_size=args.batch_size,
        max_length=args.max_length,
        use_cache=not args.no_cache,
        dataset_name=args.dataset,
        features=features,
    )


def is_main_process() -> bool:
    """Under `accelerate launch` or torchrun only rank 0 prints and writes."""
    return int(os.environ.get("RANK", "0")) == 0
