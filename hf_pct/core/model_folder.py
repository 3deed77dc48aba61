"""What of a model's folder travels with the model: weights, config, and tokenizer or image processor.

An output folder also holds reports, tables and results about the model that was trained there. They are evidence about
those very weights: a merged or a published model gets its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from fnmatch import fnmatch
from pathlib import Path

from .decode import JsonObject, convert, load_json
from .errors import first_five

CONFIG_FILES = ("config.json", "generation_config.json")
PROCESSOR_FILES = (
    "tokenizer*.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "vocab.*",
    "merges.txt",
    "bpe.codes",
    "*.spm",
    "*.tiktoken",
    "*sentencepiece*.model",
    "spiece.model",
    "preprocessor_config.json",
    "processor_config.json",
)


@dataclass(frozen=True)
class _Config:
    """What the kit itself reads of a model's config.json, and of which type it must be."""

    model_type: str | None = None
    architectures: list[str] | None = None
    architecture: str | None = None
    id2label: dict[str, str | int | float] | None = None


def read_model_config(path: Path) -> JsonObject:
    """A model's config.json, with what names its kind and its classes checked; the rest is its library's."""
    values = load_json(path, "a model's config")
    if not isinstance(values, dict):
        raise ValueError(
            f"{path} holds {type(values).__name__}, expected a JSON object, as save_pretrained writes it."
        )
    known = {entry.name: values[entry.name] for entry in fields(_Config) if entry.name in values}
    names = convert(known, _Config, str(path)).id2label
    if names is not None and {*names} != {str(index) for index in range(len(names))}:
        raise ValueError(
            f"{path}: id2label has the keys {first_five(names)}, expected every class index from 0 to "
            f"{len(names) - 1} once."
        )
    return values


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether a file name fits one of the patterns."""
    return any(fnmatch(name, pattern) for pattern in patterns)


def side_files(folder: Path) -> list[Path]:
    """The config, tokenizer and processor files of a folder."""
    wanted = (*CONFIG_FILES, *PROCESSOR_FILES)
    return sorted(path for path in folder.iterdir() if path.is_file() and matches(path.name, wanted))


def links_outside(folder: Path, paths: Iterable[Path]) -> list[str]:
    """Files that are links to somewhere outside of the folder: what they lead to was not meant to be published.

    The Hub's cache keeps the files of a snapshot as links into a folder beside it; these belong to the model.
    """
    home = folder.resolve()
    blobs = home.parent.parent / "blobs" if home.parent.name == "snapshots" else home
    problems = []
    for path in paths:
        real = path.resolve()
        if path.is_symlink() and not real.is_relative_to(home) and not real.is_relative_to(blobs):
            problems.append(f"{path} is a link to {real}, outside of its folder; put the file itself there")
    return problems
