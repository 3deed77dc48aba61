"""lm-eval logs: a folder as `--output_path` leaves it, or one `samples_*.jsonl`.

A row is one document under one filter. Documents are joined by the hash of their content, so that a log in another
order, or of other documents, is never compared by position. The prompt is kept as text, the target as label.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import msgspec

from ....core.decode import convert, load_json
from ....core.errors import first_five
from ..metric import named_metric
from ..predictions import Provenance
from ..scores import ONE_TASK, Scores
from .base import Source, as_text, declared, numbered, one_of, parse_lines
from .log_rows import LogRows
from .options import ReadOptions

NAME = "lm-eval samples"
_KEYS = ("doc_hash", "target_hash", "filter", "metrics")
_FILE = re.compile(r"samples_(?P<task>.+?)_(?P<date>\d{4}-\d\d-\d\dT.+)\.jsonl(\.gz)?$")


class _Sample(msgspec.Struct):
    """A row; its scores stand beside these, under the names in `metrics`."""

    doc_hash: str
    target_hash: str
    filter: str
    metrics: list[str]
    doc_id: object = None
    target: object = None
    arguments: dict[str, dict[str, object]] | None = None
    filtered_resps: list[Any] | None = None


def missing(source: Source) -> str:
    if source.path.is_dir():
        return "" if _sample_files(source.path) else "no samples_*.jsonl in it (run lm-eval with --log_samples)"
    row = source.first_object
    if row is None:
        return "its first line is no JSON object"
    lacking = [key for key in _KEYS if key not in row]
    return f"its rows have no {', '.join(lacking)}" if lacking else ""


def _sample_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("samples_*.jsonl*") if _FILE.search(path.name))


def read(source: Source, options: ReadOptions) -> Scores:
    paths = _sample_files(source.path) if source.path.is_dir() else [source.path]
    latest = _latest(paths, source.path)
    directions, provenance = _results(latest.values())
    rows, problems = LogRows(), []
    for task, path in latest.items():
        try:
            _read_task(task, Source(path), options, rows)
        except ValueError as error:
            problems.append(str(error))
    if problems:
        raise ValueError("\n".join(problems))
    metrics = [named_metric(name, directions.get(name)) for name in rows.metric_names()]
    return rows.table(metrics, provenance)


def _latest(paths: list[Path], where: Path) -> dict[str, Path]:
    """One file per task. Two runs of one model are two dates: the newest counts. Two models are an error."""
    by_task: dict[str, Path] = {}
    folders = {path.parent for path in paths}
    if len(folders) > 1:
        raise ValueError(
            f"{where} holds the logs of {len(folders)} models: {first_five(sorted(path.name for path in folders))}. "
            "Give the folder of one of them."
        )
    for path in paths:
        match = _FILE.search(path.name)
        by_task[match["task"] if match else ONE_TASK] = path  # sorted: the latest date is last
    return by_task


def _read_task(task: str, source: Source, options: ReadOptions, rows: LogRows) -> None:
    """One file, row by row: a log may be larger than memory, and only a few of its columns are kept."""
    by_filter: dict[str, LogRows] = {}
    by_length = _by_length(options.metrics)
    for number, row in enumerate(parse_lines(source), start=1):
        sample = declared(row, _Sample, f"{source.path}, line {number}")
        kept = by_filter.get(sample.filter)
        if kept is None:
            kept = by_filter[sample.filter] = LogRows()
        prompt, label, answer = _contents(sample, by_length)
        scores = {name: _number(row.get(name), name, sample, source) for name in sample.metrics}
        kept.add(task, sample.doc_hash, scores, label=label, prediction=answer, text=prompt)
    chosen = by_filter[one_of(options.filters, list(by_filter), "filter", f"Task {task}", "--filter")]
    chosen.ids = numbered(chosen.ids)
    rows.extend(chosen)


def _number(value: object, metric: str, sample: _Sample, source: Source) -> float | None:
    if value is None or isinstance(value, (int, float)):
        return value
    if isinstance(value, list) and value and isinstance(value[0], (int, float)):
        return value[0]  # log-likelihood and weight, as perplexities keep them
    raise ValueError(
        f"{source.path}: the metric {metric} of doc_id {sample.doc_id} is {json.dumps(value)[:60]}, expected a "
        "number: it is only defined over all rows and cannot be compared row by row."
    )


def _contents(sample: _Sample, by_length: bool) -> tuple[str | None, str | None, str | None]:
    """What was asked, what would be right, and what was answered: the generated text, or the likeliest choice."""
    arguments = list((sample.arguments or {}).values())
    prompt = as_text(arguments[0].get("arg_0")) if arguments else None
    # a log without targets still says by their hash whether they changed
    target, answers = as_text(sample.target) or sample.target_hash, sample.filtered_resps
    if not answers:
        return prompt, target, None
    if isinstance(answers[0], list) and len(answers[0]) == 2 and len(arguments) == len(answers):
        choices = [as_text(argument.get("arg_1")) or "" for argument in arguments]
        try:
            likelihoods = [float(answer[0]) for answer in answers]
            if by_length:
                likelihoods = [value / len(text.strip()) for value, text in zip(likelihoods, choices, strict=True)]
        except (TypeError, ValueError, IndexError, ZeroDivisionError):
            return prompt, target, as_text(answers[0])
        if target.isdecimal() and int(target) < len(choices):
            target = choices[int(target)]
        return prompt, target, choices[likelihoods.index(max(likelihoods))]
    return prompt, target, as_text(answers[0])


def _by_length(metrics: Sequence[str]) -> bool:
    """Whether the answer to a choice is the likeliest one per character, as acc_norm takes it."""
    return "acc_norm" in metrics and ("acc" not in metrics or metrics.index("acc_norm") < metrics.index("acc"))


@dataclass(frozen=True)
class _Summary:
    """What is read here of a `results_*.json`."""

    higher_is_better: dict[str, dict[str, object]] | None = None
    model_name: str | None = None
    model_revision: str | None = None
    lm_eval_version: str | None = None
    transformers_version: str | None = None


def _read_summary(path: Path) -> _Summary:
    values = load_json(path, "the summary of an lm-eval run")
    if not isinstance(values, dict):
        raise ValueError(f"{path} holds {type(values).__name__}, expected a JSON object.")
    wanted = {field.name: values[field.name] for field in fields(_Summary) if field.name in values}
    return convert(wanted, _Summary, str(path))  # its other numbers may be NaN


def _results(paths: Iterable[Path]) -> tuple[dict[str, bool], Provenance]:
    """The directions of the metrics and the model's name, from the `results_*.json` beside the samples."""
    directions: dict[str, bool] = {}
    provenance = Provenance()
    for folder in dict.fromkeys(path.parent for path in paths):
        for path in sorted(folder.glob("results_*.json")):
            try:
                results = _read_summary(path)
            except ValueError:
                continue  # the samples say what is compared; a torn summary beside them changes nothing
            for task in (results.higher_is_better or {}).values():
                directions |= {name: higher for name, higher in task.items() if isinstance(higher, bool)}
            versions = {"lm_eval": results.lm_eval_version, "transformers": results.transformers_version}
            provenance = Provenance(
                model=results.model_name,
                revision=results.model_revision,
                versions={name: str(version) for name, version in versions.items() if version},
            )
    return directions, provenance
