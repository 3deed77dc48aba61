"""verify: download a published update and its report, predict again, and say whether the published flips hold."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path

from huggingface_hub import HfApi
from huggingface_hub.errors import RemoteEntryNotFoundError

from ..core.decode import JsonObject, load_json, resolve_beside
from ..core.errors import NotComparableError, first_five
from ..flips.compare import compare
from ..flips.counts import FlipCounts
from ..flips.report import FlipReport
from ..flips.tables.predictions import Predictions
from ..models.types import RowSource
from .client.calls import call
from .client.names import check_repo_id, hub_id, model_id
from .publish import REPORT

HOLDS, DIFFERS = 0, 1


@dataclass(frozen=True)
class Verification:
    """What was published, what was found again, and where they differ by more than `tolerance` rows."""

    repo_id: str
    commit: str
    published: FlipReport
    checked: str
    differences: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return not self.differences

    @property
    def exit_code(self) -> int:
        return HOLDS if self.holds else DIFFERS

    def to_text(self) -> str:
        """A few lines for a terminal."""
        counts = self.published.counts
        lines = [
            f"{self.repo_id} at {self.commit[:12]}: {int(counts.negative_flips):,} negative and "
            f"{int(counts.positive_flips):,} positive flips published of {int(counts.total):,} rows",
            *(f"differs: {difference}" for difference in self.differences),
            *(f"note: {note}" for note in self.notes),
            f"{self.checked}: {'the published flips hold' if self.holds else 'the published flips do NOT hold'}",
        ]
        return "\n".join(lines)


def verify(
    repo_id: str,
    *,
    revision: str | None = None,
    dataset: str | Path | RowSource | None = None,
    split: str | None = None,
    dataset_config: str | None = None,
    old_model: str | None = None,
    old_revision: str | None = None,
    new_only: bool = False,
    tolerance: int = 0,
    id_column: str | None = None,
    input_column: str | Sequence[str] | None = None,
    label_column: str | None = None,
    batch_size: int = 32,
    token: str | None = None,
) -> Verification:
    """Predict again and compare the counts with the published ones.

    Args:
        repo_id: a model that was published with `push_update`.
        revision: its branch, tag or commit.
        dataset: the data, when it is not the Hub dataset that the report names.
        split: its split; that of the report for the report's own dataset.
        dataset_config: configuration of a dataset on the Hub.
        old_model: where the old model is, when it is not on the Hub under the name in the report.
        old_revision: its commit, when the report does not record it.
        new_only: do without the old model: check the new one on every flipped row, and its accuracy.
        tolerance: how many rows a count may differ by; other hardware may turn a row that is on the edge.
        id_column, input_column, label_column, batch_size: as in `predict`.
        token: by default the one of `hf auth login` or HF_TOKEN.

    Raises `NotComparableError` when the data is not the data that was measured on, or a part is not available.

    Example:
        >>> from hf_pct import verify
        >>> verify("my-org/my-model").holds  # doctest: +SKIP
    """
    if tolerance < 0:
        raise ValueError(f"tolerance is {tolerance}, expected a number of rows from 0 on.")
    commit, report = download_report(repo_id, revision, token)
    data, name = _load(report, dataset, split, dataset_config)
    columns = {"id_column": id_column, "input_column": input_column, "label_column": label_column}
    options: JsonObject = {**columns, "batch_size": batch_size, "dataset_name": name}
    options["max_length"] = report.new.settings.get("max_length")
    from ..models.predict import predict

    new = predict(repo_id, data, revision=commit, **options)
    _check_data(report, new, name)
    notes = _weights_note("new", report.new.weights, new)
    if new_only:
        checked = f"the new model alone on {name}"
        return Verification(repo_id, commit, report, checked, _new_differences(report, new, tolerance), notes)
    source = old_model or model_id(report.old.model, report.old.revision)
    if source is None:
        raise NotComparableError(
            f"The old model, {report.old.model or 'whose name is not recorded'}, is not on the Hub. Say where it is "
            "with old_model (--old_model), or check the new model alone: new_only (--new_only)."
        )
    options["max_length"] = report.old.settings.get("max_length")
    try:
        old = predict(source, data, revision=old_revision or (None if old_model else report.old.revision), **options)
    except (ValueError, OSError) as error:
        raise NotComparableError(
            f"The old model cannot be run again: {error} Say where it is with old_model (--old_model), or check the "
            "new model alone: new_only (--new_only)."
        ) from error
    notes += _weights_note("old", report.old.weights, old)
    fresh = compare(old, new, allow_partial=report.coverage.partial).counts
    differences = _count_differences(report.counts, fresh, tolerance)
    return Verification(repo_id, commit, report, f"both models on {name}", differences, notes)


def download_report(repo_id: str, revision: str | None = None, token: str | None = None) -> tuple[str, FlipReport]:
    """The commit that a published update is at, and the flip report in it."""
    check_repo_id(repo_id)
    api = HfApi(token=token)
    commit = str(call(f"find {repo_id}", lambda: api.model_info(repo_id, revision=revision)).sha)
    try:
        path = call(f"read {repo_id}", lambda: _download(api, repo_id, commit))
    except FileNotFoundError:
        raise NotComparableError(
            f"{repo_id} has no {REPORT}, so it claims nothing about flips. Compare it yourself: hf-pct compare OLD "
            f"{repo_id} --dataset DATA"
        ) from None
    return commit, FlipReport.load(path)


def _download(api: HfApi, repo_id: str, commit: str) -> str:
    """The report, with the file of its flipped rows beside it where it names one."""
    try:
        path = api.hf_hub_download(repo_id, REPORT, revision=commit)
    except RemoteEntryNotFoundError:
        raise FileNotFoundError(REPORT) from None
    report = load_json(path, "a flip report")
    rows = report.get("flips_file") if isinstance(report, dict) else None
    if isinstance(rows, str) and resolve_beside(path, rows, "the file of its flipped rows"):
        with suppress(RemoteEntryNotFoundError):  # the report then says that its rows are not all here
            api.hf_hub_download(repo_id, rows, revision=commit)
    return path


def _load(
    report: FlipReport, dataset: str | Path | RowSource | None, split: str | None, config: str | None
) -> tuple[RowSource, str]:
    from ..models.data import load_data

    if dataset is not None and not isinstance(dataset, str | Path):
        return dataset, "the given data"
    name = dataset or hub_id(report.new.dataset)
    if name is None:
        raise NotComparableError(
            f"The report was made on {report.new.dataset or 'data that it does not name'}, which is not on the Hub. "
            "Say where it is with dataset (--dataset)."
        )
    try:
        return load_data(name, split=split if dataset else split or report.new.split, config=config), str(name)
    except ValueError as error:
        raise NotComparableError(f"The data cannot be had: {error}") from error


def _check_data(report: FlipReport, new: Predictions, name: str) -> None:
    recorded, computed = report.new.fingerprint, new.provenance.fingerprint
    if recorded and recorded != computed:
        raise NotComparableError(
            f"{name} is not the data that the report was made on: its ids, inputs and labels have the fingerprint "
            f"{computed}, the report records {recorded}. Other rows, another split or other columns: see --split, "
            "--id_column, --input_column and --label_column."
        )


def _weights_note(side: str, recorded: str | None, fresh: Predictions) -> list[str]:
    if recorded is None or recorded == fresh.provenance.weights:
        return []
    return [f"the {side} model's weights have another hash than in the report ({fresh.provenance.weights})"]


def _count_differences(published: FlipCounts, fresh: FlipCounts, tolerance: int) -> list[str]:
    names = [count.name for count in fields(FlipCounts)]
    pairs = [(name, float(getattr(published, name)), float(getattr(fresh, name))) for name in names]
    return [
        f"{name.replace('_', ' ')}: published {before:g}, found {now:g}"
        for name, before, now in pairs
        if abs(before - now) > tolerance
    ]


def _new_differences(report: FlipReport, new: Predictions, tolerance: int) -> list[str]:
    """Without the old model: does the new one still answer the flipped rows so, and is it as often right?"""
    if report.coverage.partial:
        raise NotComparableError("The report is partial: which rows it counts cannot be known without the old model.")
    answers = dict(zip(new.ids.to_pylist(), new.predictions.tolist(), strict=True))
    rows = report.flips.to_pylist()
    missing = [row["id"] for row in rows if row["id"] not in answers]
    if missing:
        raise NotComparableError(f"{len(missing)} flipped rows are not in the data: {first_five(missing)}.")
    other = [row["id"] for row in rows if answers[row["id"]] != row["new_answer"]]
    differences = []
    if len(other) > tolerance:
        differences.append(f"{len(other)} of {len(rows)} flipped rows are answered otherwise now: {first_five(other)}")
    added = set(report.labels.added)
    right = sum(
        label == answer
        for label, answer in zip(new.labels.tolist(), new.predictions.tolist(), strict=True)
        if label not in added
    )
    claimed = int(report.counts.both_right + report.counts.positive_flips)
    if abs(right - claimed) > tolerance:
        differences.append(f"rows that the new model gets right: published {claimed}, found {right}")
    return differences
