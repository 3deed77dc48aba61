"""deepeval test runs (`.latest_run_full.json`, `test_run_<date>.json`): test cases with one score per metric.

A test case is known by its input; the same input again is a further run of it.
"""

import msgspec

from ..metric import Metric, named_metric
from ..predictions import Provenance
from ..scores import Scores
from .base import Source, as_text, content_id, parse_whole, run_numbers
from .options import ReadOptions

NAME = "deepeval test run"


class _Measured(msgspec.Struct):
    """What one metric said of a test case."""

    name: str
    score: float | None = None
    threshold: float | None = None
    success: bool | None = None


class _TestCase(msgspec.Struct, rename="camel"):
    input: object = None
    actual_output: object = None
    expected_output: object = None
    success: bool | None = None
    metrics_data: list[_Measured] | None = None

    @property
    def by_metric(self) -> dict[str, _Measured]:
        return {measured.name: measured for measured in self.metrics_data or []}


class _Run(msgspec.Struct, rename="camel"):
    test_cases: list[_TestCase] | None = None
    hyperparameters: dict[str, object] | None = None
    dataset_alias: str | None = None


class _File(_Run, rename="camel"):
    """A test run, or a run inside `testRunData`."""

    test_run_data: _Run | None = None


def missing(source: Source) -> str:
    if source.path.is_dir():
        return "it is a folder"
    if not source.start.lstrip().startswith(("{", "[")):
        return "it is no JSON"
    return "" if '"metricsData"' in source.start or '"testCases"' in source.start else "it has no metricsData"


def read(source: Source, options: ReadOptions) -> Scores:
    run = _read_run(source)
    cases = run.test_cases or []
    judged = [case for case in cases if case.success is not None]
    if not judged:
        raise ValueError(f"{source.path} has no test case with metricsData. Run deepeval again, with metrics.")
    notes = (
        [f"{len(cases) - len(judged)} test cases were not judged and are left out"] if len(judged) < len(cases) else []
    )
    inputs = [as_text(case.input) or "" for case in judged]
    keys = [content_id(text) for text in inputs]
    runs = run_numbers(keys)
    scores: dict[str, list[float | None]] = {"success": [float(bool(case.success)) for case in judged]}
    metrics: list[Metric] = []
    by_case = [case.by_metric for case in judged]
    for name in dict.fromkeys(name for measured in by_case for name in measured):
        values = [measured[name].score if name in measured else None for measured in by_case]
        if any(value is None for value in values):
            notes.append(f"The metric {name} has no score in some test cases and is left out.")
            continue
        scores[name] = values
        metrics.append(_metric(name, [measured[name] for measured in by_case]))
    return Scores(
        keys,
        scores,
        labels=[as_text(case.expected_output) for case in judged],
        predictions=[as_text(case.actual_output) for case in judged],
        texts=inputs,
        repeats=runs if max(runs) > 1 else None,
        metrics=metrics,
        default_metric="success",
        provenance=Provenance(model=_model(run), dataset=run.dataset_alias),
        notes=notes,
    )


def _read_run(source: Source) -> _Run:
    if source.start.lstrip().startswith("["):
        return _Run(parse_whole(source, list[_TestCase]))
    data = parse_whole(source, _File)
    return data.test_run_data or data


def _metric(name: str, measurements: list[_Measured]) -> Metric:
    """The direction as the verdicts show it: a success below the threshold means that lower is better."""
    thresholds = {measured.threshold for measured in measurements}
    threshold = next(iter(thresholds)) if len(thresholds) == 1 else None
    higher = [
        bool(measured.success) == (measured.score > measured.threshold)
        for measured in measurements
        if measured.score is not None and measured.threshold not in (None, measured.score)
    ]
    direction = None if not higher or len(set(higher)) > 1 else higher[0]
    return named_metric(name, direction, threshold)


def _model(run: _Run) -> str | None:
    return as_text((run.hyperparameters or {}).get("model"))
