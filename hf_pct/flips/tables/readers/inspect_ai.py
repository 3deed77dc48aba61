"""Inspect logs (`.eval`, or `.json`): a file, or a folder of logs with one task each.

They are read through inspect-ai's own functions, the only surface that its authors keep stable; a `.json` log is plain
enough to be read without it. Epochs are repeated runs.
"""

import zipfile
from pathlib import Path

import msgspec

from ....core.decode import parse_json
from ....core.errors import first_five
from ..predictions import Provenance
from ..scores import Scores
from .base import Source, as_text, declared, parse_whole
from .log_rows import LogRows
from .options import ReadOptions

NAME = "Inspect log"
_GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}  # correct, incorrect, partial, no answer: inspect's own values


class _Score(msgspec.Struct):
    value: object = None
    answer: object = None


class _Output(msgspec.Struct):
    completion: object = None


class _Message(msgspec.Struct):
    role: str | None = None
    content: object = None


class _Sample(msgspec.Struct):
    id: int | str
    epoch: int = 1
    input: str | list[_Message] | None = None
    target: object = None
    output: _Output | None = None
    scores: dict[str, _Score] | None = None

    def numbers(self) -> dict[str, float]:
        """Every score that is a number or a grade, by scorer, or by scorer and part."""
        numbers: dict[str, float] = {}
        for scorer, score in (self.scores or {}).items():
            parts = {scorer: score.value}
            if isinstance(score.value, dict):
                parts = {f"{scorer}/{name}": part for name, part in score.value.items()}
            numbers |= {name: number for name, part in parts.items() if (number := _number(part)) is not None}
        return numbers


class _Header(msgspec.Struct):
    task: str
    model: str | None = None


class _Log(msgspec.Struct):
    eval: _Header
    status: str | None = None
    samples: list[_Sample] | None = None


def missing(source: Source) -> str:
    if source.path.is_dir():
        return "" if _logs(source.path) else "no .eval file and no JSON log in it"
    if source.is_zip:
        with zipfile.ZipFile(source.path) as file:
            names = file.namelist()
        inside = "header.json" in names or any(name.startswith("_journal/") for name in names)
        return "" if inside else "a zip file without header.json"
    return "" if _is_json_log(source) else "it is neither a zip file nor a JSON log with eval and status"


def _is_json_log(source: Source) -> bool:
    return source.start.lstrip().startswith("{") and all(f'"{key}"' in source.start for key in ("eval", "status"))


def _logs(folder: Path) -> list[Path]:
    plain = (path for path in folder.glob("*.json") if path.is_file() and _is_json_log(Source(path)))
    return sorted([*folder.rglob("*.eval"), *plain])


def read(source: Source, options: ReadOptions) -> Scores:
    paths = _logs(source.path) if source.path.is_dir() else [source.path]
    rows = LogRows()
    notes: list[str] = []
    models: dict[str, None] = {}
    tasks: set[str] = set()
    for path in paths:
        log = _load(path)
        task = log.eval.task
        if task in tasks:
            raise ValueError(
                f"{source.path} holds several logs of task {task}. Give the file of one, or a folder with "
                "one log per task."
            )
        tasks.add(task)
        models[str(log.eval.model)] = None
        if log.status != "success":
            notes.append(f"{path.name} has the status {log.status}: it may lack samples.")
        unscored = []
        for sample in log.samples or []:
            scores = sample.numbers()
            if scores:
                _add(rows, task, sample, scores)
            else:
                unscored.append(sample.id)
        if unscored:
            notes.append(f"{len(unscored)} samples of {task} have no score (ids {first_five(unscored)})")
    if len(models) > 1:
        raise ValueError(f"{source.path} holds logs of several models: {first_five(models)}. Give those of one.")
    return rows.table(provenance=Provenance(model=next(iter(models), None)), notes=notes)


def _load(path: Path) -> _Log:
    if path.suffix == ".json" or not zipfile.is_zipfile(path):
        return parse_whole(Source(path), _Log)
    try:
        from inspect_ai.log import read_eval_log
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            f"{path} is an Inspect log, and reading it needs inspect-ai: pip install inspect-ai. Or convert it once: "
            "inspect log convert --to json."
        ) from None
    return declared(parse_json(read_eval_log(str(path)).model_dump_json(), str(path)), _Log, str(path))


def _number(value: object) -> float | None:
    if isinstance(value, str) and value in _GRADES:
        return _GRADES[value]
    return float(value) if isinstance(value, (int, float)) else None


def _add(rows: LogRows, task: str, sample: _Sample, scores: dict[str, float]) -> None:
    answers = (score.answer for score in (sample.scores or {}).values())
    answer = next((answer for answer in answers if answer is not None), None)
    rows.add(
        task,
        str(sample.id),
        scores,
        label=as_text(sample.target),
        prediction=as_text(answer if answer is not None else sample.output and sample.output.completion),
        text=_prompt(sample.input),
        repeat=sample.epoch,
    )


def _prompt(asked: str | list[_Message] | None) -> str | None:
    """A plain question, or the contents of a conversation without the ids of its messages, which change every run."""
    if isinstance(asked, list):
        return "\n".join(f"{message.role}: {as_text(message.content)}" for message in asked)
    return asked
