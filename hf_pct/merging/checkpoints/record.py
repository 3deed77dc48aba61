"""`pct_merge.json`: what was merged, how, and with what result, so that anyone can make the same bytes again."""

from __future__ import annotations

import json
import platform
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TypeAlias

from ...core.decode import convert, load_json

FORMAT_VERSION = 1
FILE_NAME = "pct_merge.json"
CurveTable: TypeAlias = list[dict[str, float]]  # one entry per alpha
Settings: TypeAlias = dict[str, object]


@dataclass(frozen=True)
class MergeInput:
    """One input: the folder or Hub id as it was given, the content hash of its weights, and its commit on the Hub."""

    path: str
    weights: str
    revision: str | None = None


@dataclass(frozen=True)
class MergeRecord:
    """`alpha` is the share of the old model. No dates: the same merge writes the same record.

    `weights` is the content hash of the merged model, as its flip report records it too; `output` has the hashes of
    the files. `settings` are those of the merge rule. `not_replayable` says why the same bytes cannot be made again,
    where they cannot.
    """

    method: str
    alpha: float | dict[str, float]
    old: MergeInput
    new: tuple[MergeInput, ...]
    fisher: MergeInput | None = None
    labels: dict[str, list[str]] = field(default_factory=dict)
    curve: CurveTable | None = None
    selection: Settings | None = None
    output: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    weights: str | None = None
    settings: Settings = field(default_factory=dict)
    not_replayable: str | None = None

    def to_json(self) -> str:
        return json.dumps({"format_version": FORMAT_VERSION, **asdict(self)}, indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def load(cls, path: str | Path) -> MergeRecord:
        """Read a record; one from a newer version, or something else, is refused by name."""
        try:
            values = load_json(path, f"a {FILE_NAME}, as hf-pct merge writes it")
        except ValueError as error:
            raise ValueError(f"{path} is not a {FILE_NAME}: {error}") from error
        if not isinstance(values, dict) or "format_version" not in values:
            raise ValueError(f"{path} is not a {FILE_NAME}: it has no format_version.")
        if values["format_version"] != FORMAT_VERSION:
            named = values.get("versions")
            raise ValueError(
                f"{path} has format version {values['format_version']}, this hf_pct reads {FORMAT_VERSION}: install "
                f"the version it names ({named.get('hf_pct', 'unknown') if isinstance(named, dict) else 'unknown'})"
            )
        return convert(values, cls, f"{path} is not a complete {FILE_NAME}")


def versions() -> dict[str, str]:
    """The versions that decide the bytes, and those that decided the curve."""
    installed = {"python": platform.python_version()}
    for package in ("hf_pct", "torch", "transformers", "safetensors", "numpy"):
        try:
            installed[package] = version(package)
        except PackageNotFoundError:
            continue
    return installed
