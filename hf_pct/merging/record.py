"""`pct_merge.json`: what was merged, how, and with what result, so that anyone can make the same bytes again."""

from __future__ import annotations

import json
import platform
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

FORMAT_VERSION = 1
FILE_NAME = "pct_merge.json"


@dataclass(frozen=True)
class Source:
    """One input: the folder or Hub id as it was given, and the content hash of its weights."""

    path: str
    weights: str


@dataclass(frozen=True)
class MergeRecord:
    """`alpha` is the share of the old model. No dates: the same merge writes the same record."""

    method: str
    alpha: float | dict[str, float]
    old: Source
    new: tuple[Source, ...]
    fisher: Source | None = None
    labels: dict[str, list[str]] = field(default_factory=dict)
    curve: list[dict[str, Any]] | None = None
    selection: dict[str, Any] | None = None
    output: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps({"format_version": FORMAT_VERSION, **asdict(self)}, indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def load(cls, path: str | Path) -> MergeRecord:
        """Read a record; one from a newer version, or something else, is refused by name."""
        try:
            values = json.loads(Path(path).read_text(encoding="utf-8"))
            found = values.pop("format_version")
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise ValueError(f"{path} is not a {FILE_NAME}: {error!r}") from error
        if found != FORMAT_VERSION:
            raise ValueError(
                f"{path} has format version {found}, this hf_pct reads {FORMAT_VERSION}: install the version it names "
                f"({values.get('versions', {}).get('hf_pct', 'unknown')})"
            )
        try:
            values["old"] = Source(**values["old"])
            values["new"] = tuple(Source(**source) for source in values["new"])
            values["fisher"] = Source(**values["fisher"]) if values.get("fisher") else None
            return cls(**values)
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path} is not a complete {FILE_NAME}: {error}") from error


def versions() -> dict[str, str]:
    """The versions that decide the bytes, and those that decided the curve."""
    found = {"python": platform.python_version()}
    for package in ("hf_pct", "torch", "transformers", "safetensors", "numpy"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
