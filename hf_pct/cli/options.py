"""Options that several commands share. Names follow transformers' example scripts: underscores, full words."""

import argparse
from pathlib import Path

DATASET_HELP = "a parquet, CSV or JSONL file, a saved dataset, or a Hub id"
REPORT_HELP = "flip_report.json, as hf-pct compare writes it"


class Formatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Defaults are shown, except where there is none to show; examples keep their lines."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        hidden = action.default in (None, False, argparse.SUPPRESS) or action.default == []
        return action.help if hidden else super()._get_help_string(action)


def add_report(parser: argparse.ArgumentParser) -> None:
    """The report that a command reads."""
    parser.add_argument("report", metavar="REPORT", help=REPORT_HELP)


def add_folder(parser: argparse.ArgumentParser) -> None:
    """The model that a report must be about."""
    parser.add_argument(
        "--folder", type=Path, help="the new model's folder: a report about other weights is refused (exit 3)"
    )


def add_overwrite(parser: argparse.ArgumentParser) -> None:
    """Whether files that exist are replaced."""
    parser.add_argument("--overwrite", action="store_true", help="replace files that exist; they are kept otherwise")


def add_output_file(parser: argparse.ArgumentParser, what: str, *names: str) -> None:
    """The one file that a command writes."""
    parser.add_argument(*names, "--output", type=Path, required=True, help=what)


def add_data_arguments(
    parser: argparse.ArgumentParser, title: str = "data", *, required: bool = False, dataset_help: str = DATASET_HELP
) -> argparse._ArgumentGroup:
    """Which data, and which of its columns: the same options for every command that runs a model."""
    data = parser.add_argument_group(title)
    data.add_argument(
        "--dataset_name", "--dataset", dest="dataset", metavar="DATA", required=required, help=dataset_help
    )
    data.add_argument(
        "--dataset_config_name",
        "--dataset_config",
        dest="dataset_config",
        metavar="NAME",
        help="configuration of a dataset on the Hub",
    )
    data.add_argument("--split", help="split of the dataset")
    data.add_argument(
        "--id_column_name",
        "--id_column",
        dest="id_column",
        metavar="COLUMN",
        help="by default id, idx, guid or uid, else the row number",
    )
    data.add_argument(
        "--input_column_name",
        "--input_column",
        "--text_column_name",
        "--text_column_names",
        "--image_column_name",
        dest="input_column",
        metavar="COLUMN",
        nargs="+",
        help="text or image column; two for pairs of sentences",
    )
    data.add_argument(
        "--label_column_name",
        "--label_column",
        dest="label_column",
        metavar="COLUMN",
        help="by default label, labels, intent, ...",
    )
    data.add_argument(
        "--per_device_eval_batch_size",
        "--batch_size",
        dest="batch_size",
        metavar="ROWS",
        type=int,
        default=32,
        help="rows per step",
    )
    return data


def add_max_length(data: argparse._ArgumentGroup) -> None:
    data.add_argument(
        "--max_seq_length",
        "--max_length",
        dest="max_length",
        metavar="TOKENS",
        type=int,
        help="cut texts at this many tokens",
    )
