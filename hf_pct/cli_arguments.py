"""The options of `hf-pct`'s verbs. Names follow transformers' example scripts: underscores, full words."""

import argparse
from dataclasses import fields
from pathlib import Path

from .flips.gate import GateConfig
from .flips.stats import CORRECTIONS

DATASET_HELP = "a parquet, CSV or JSONL file, a saved dataset, or a Hub id"


class Formatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Defaults are shown, except where there is none to show; examples keep their lines."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        hidden = action.default in (None, False, argparse.SUPPRESS) or action.default == []
        return action.help if hidden else super()._get_help_string(action)


def add_predict_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a Hub id or a folder")
    parser.add_argument("--output", type=Path, required=True, help="the parquet file to write")
    parser.add_argument("--processor", help="tokenizer or image processor, when it is not saved with the model")
    parser.add_argument("--revision", help="branch, tag or commit of a model on the Hub")
    _add_prediction_arguments(parser, required=True)
    _add_overwrite(parser)


def add_compare_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "models",
        metavar="OLD NEW",
        nargs="*",
        help="Hub ids, folders or prediction files; more than two are a chain",
    )
    parser.add_argument(
        "--old_predictions", help="the old model's answers: parquet, JSONL or CSV with id, label, prediction"
    )
    parser.add_argument("--new_predictions", help="the new model's answers")
    parser.add_argument("--old_rerun", help="a second training run of the old recipe, model or file: the noise floor")
    parser.add_argument("--output_dir", type=Path, help="write flip_report.json, flip_report.md and both tables here")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="draw the report into this folder; needs matplotlib")
    _add_overwrite(parser)
    how = parser.add_argument_group("how to compare")
    how.add_argument("--slices", nargs="+", help="columns to count flips by; by default all with at most 100 values")
    how.add_argument("--weight", help="numeric column by which rows count: traffic, severity")
    how.add_argument("--cluster", help="column whose rows belong together (user, document): intervals are drawn by it")
    how.add_argument(
        "--allow_partial", action="store_true", help="compare the rows both have, and say what was left out"
    )
    how.add_argument("--confidence", type=float, default=0.95, help="of every interval and bound")
    how.add_argument("--correction", choices=sorted(CORRECTIONS), default="holm", help="for the p-values of classes")
    how.add_argument(
        "--accuracy_margin", type=float, default=0.0, help="accuracy that may be lost without being inferior"
    )
    how.add_argument(
        "--old_label_names",
        help="classes of the old predictions, for files that do not record them: a JSON "
        "list, a model's config.json, or a text file with one name a line",
    )
    how.add_argument("--new_label_names", help="classes of the new predictions, likewise")
    _add_prediction_arguments(parser, required=False)
    models = parser.add_argument_group("when models are given")
    models.add_argument("--old_processor", help="the old model's tokenizer or image processor, if not saved with it")
    models.add_argument("--new_processor", help="the new model's, likewise")
    models.add_argument("--old_revision", help="branch, tag or commit of an old model on the Hub")
    models.add_argument("--new_revision", help="of the new model, likewise")


def add_gate_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("report", metavar="REPORT", help="flip_report.json, as hf-pct compare writes it")
    parser.add_argument("--config", help="YAML file of rules, `max_nfr: 0.01` a line; flags go over it")
    parser.add_argument("--junit", help="write JUnit XML here")
    parser.add_argument("--markdown", help="write the verdict as Markdown here")
    _add_overwrite(parser)
    rules = parser.add_argument_group("rules (rates are fractions: 0.01 is 1 %)")
    for each in fields(GateConfig):
        text = each.metadata["help"].replace("%", "%%")
        if each.name == "allow_partial":
            rules.add_argument("--allow_partial", action="store_true", default=None, help=text)
        else:
            kind = int if each.name in ("min_rows", "min_group_rows") else float
            rules.add_argument(f"--{each.name}", type=kind, metavar="N" if kind is int else "RATE", help=text)


def _add_overwrite(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--overwrite", action="store_true", help="replace files that exist; they are kept otherwise")


def add_data_arguments(
    parser: argparse.ArgumentParser, title: str = "data", *, required: bool = False, dataset_help: str = DATASET_HELP
) -> argparse._ArgumentGroup:
    """Which data, and which of its columns: the same options for every verb that runs a model."""
    data = parser.add_argument_group(title)
    data.add_argument("--dataset", required=required, help=dataset_help)
    data.add_argument("--dataset_config", help="configuration of a dataset on the Hub")
    data.add_argument("--split", help="split of the dataset")
    data.add_argument("--id_column", help="by default id, idx, guid or uid, else the row number")
    data.add_argument("--input_column", nargs="+", help="text or image column; two for pairs of sentences")
    data.add_argument("--label_column", help="by default label, labels, intent, ...")
    data.add_argument("--batch_size", type=int, default=32, help="rows a step")
    return data


def add_max_length(data: argparse._ArgumentGroup) -> None:
    data.add_argument("--max_length", type=int, help="cut texts at this many tokens")


def _add_prediction_arguments(parser: argparse.ArgumentParser, required: bool) -> None:
    data = add_data_arguments(parser, required=required)
    add_max_length(data)
    data.add_argument(
        "--keep_columns", nargs="+", default=[], help="columns to keep: slices, weights, the text itself"
    )
    data.add_argument("--no_cache", action="store_true", help="neither use nor keep cached logits")
