"""The options of `hf-pct compare` for scores and for other tools' logs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...core.decode import JsonObject

if TYPE_CHECKING:
    from ...flips.tables.readers.options import ReadOptions

SCORE_ONLY = ("right_at", "tolerance", "higher_is_better", "lower_is_better", "task_weights")
ANSWERS_ONLY = ("weight", "accuracy_margin", "plots")


def add_score_arguments(parser: argparse.ArgumentParser) -> None:
    """How to read files that are not our own tables, and how to compare scores."""
    logs = parser.add_argument_group("files of scores and logs of other tools")
    help_text = "which column is what, such as id=qid,label=gold,prediction=pred,score=f1; also text=, task=, repeat="
    logs.add_argument("--columns", metavar="ROLE=COLUMN,...", help=help_text)
    logs.add_argument("--old_columns", metavar="ROLE=COLUMN,...", help="the same for the old side alone")
    logs.add_argument("--new_columns", metavar="ROLE=COLUMN,...", help="the same for the new side alone")
    logs.add_argument(
        "--filter", nargs="+", default=[], help="lm-eval filter; several are tried in this order per task"
    )
    logs.add_argument("--provider", help="provider of a promptfoo file that holds several")
    logs.add_argument("--old_provider", help="the same for the old side alone")
    logs.add_argument("--new_provider", help="the same for the new side alone")
    scores = parser.add_argument_group("how to compare scores")
    scores.add_argument(
        "--metric", nargs="+", default=[], help="metric to compare by, several in order of preference, or TASK=METRIC"
    )
    scores.add_argument(
        "--right_at",
        nargs="+",
        default=[],
        help="from which score on a row is right, also NAME=NUMBER per task or metric; none",
    )
    scores.add_argument(
        "--tolerance", nargs="+", default=[], help="drops of more than this are regressions, also NAME=NUMBER"
    )
    scores.add_argument(
        "--higher_is_better", nargs="+", default=[], metavar="METRIC", help="when the name does not say it"
    )
    scores.add_argument("--lower_is_better", nargs="+", default=[], metavar="METRIC", help="likewise")
    scores.add_argument("--task_weights", nargs="+", default=[], metavar="TASK=NUMBER", help="for the mean over tasks")


def read_options(args: argparse.Namespace, side: str) -> ReadOptions:
    """How to read the old or the new side."""
    from ...flips.comparison_files import read_label_names
    from ...flips.tables.readers.options import ReadOptions, parse_columns

    columns, scores = parse_columns(args.columns or "")
    own_columns, own_scores = parse_columns(getattr(args, f"{side}_columns") or "")
    names = getattr(args, f"{side}_label_names")
    metrics = [entry.rpartition("=")[2] for entry in args.metric]
    return ReadOptions(
        columns={**columns, **own_columns},
        scores=own_scores or scores,
        filters=tuple(args.filter),
        provider=getattr(args, f"{side}_provider") or args.provider,
        metrics=tuple(metrics),
        label_names=read_label_names(names) if names else None,
    )


def compare_options(args: argparse.Namespace) -> JsonObject:
    """The options of `compare` for scores; refuses options that only answers have."""
    refuse_options(args, ANSWERS_ONLY, "these files hold scores, and it is an option for answers with labels")
    by_task = [entry for entry in args.metric if "=" in entry]
    if by_task and len(by_task) < len(args.metric):
        raise ValueError(f"--metric mixes names and TASK=METRIC: {' '.join(args.metric)}. Give one kind.")
    directions = dict.fromkeys(args.higher_is_better, True) | dict.fromkeys(args.lower_is_better, False)
    return {
        "metric": _pairs(by_task, "--metric") if by_task else args.metric or None,
        "right_at": _numbers(args.right_at, "--right_at", none=True),
        "tolerance": _numbers(args.tolerance, "--tolerance") or 0.0,
        "higher_is_better": directions or None,
        "task_weights": _numbers(args.task_weights, "--task_weights") or None,
    }


def refuse_options(args: argparse.Namespace, names: Sequence[str], why: str) -> None:
    """An error for options that were given and would have no effect."""
    useless = [f"--{name}" for name in names if getattr(args, name)]
    if useless:
        raise ValueError(f"{', '.join(useless)}: {why}. Leave it out.")


def _pairs(entries: Sequence[str], flag: str) -> dict[str, str]:
    pairs = {}
    for entry in entries:
        name, equals, value = entry.rpartition("=")
        if not equals or not name or not value:
            raise ValueError(f"{flag} {entry!r}, expected NAME=VALUE.")
        pairs[name] = value
    return pairs


def _numbers(entries: Sequence[str], flag: str, none: bool = False) -> float | str | dict[str, float | str] | None:
    """One number for all, or a mapping; `*` is what a number without a name is for when others have one."""
    if not entries:
        return None

    def number(text: str) -> float | str:
        if none and text == "none":
            return "none"
        try:
            return float(text)
        except ValueError:
            raise ValueError(f"{flag} {text!r}, expected a number{' or none' if none else ''}.") from None

    if len(entries) == 1 and "=" not in entries[0]:
        return number(entries[0])
    named = [entry if "=" in entry else f"*={entry}" for entry in entries]
    return {name: number(value) for name, value in _pairs(named, flag).items()}
