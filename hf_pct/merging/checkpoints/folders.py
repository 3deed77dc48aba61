"""Model folders on disk, and everything that keeps some of them from being merged, found before a byte is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...core.decode import JsonObject, load_json
from ...core.labels import LabelAlignment
from ...core.model_folder import read_model_config, side_files
from ...core.weight_files import Entry, WeightFile, open_weights
from ...models.heads import head_entries, match_labels

# what decides how text becomes ids; padding and truncation settings do not
TOKENIZER_PARTS = ("model", "added_tokens", "normalizer", "pre_tokenizer", "post_processor")
VOCABULARIES = ("vocab.txt", "vocab.json", "merges.txt", "spiece.model", "sentencepiece.bpe.model", "tokenizer.model")


@dataclass(frozen=True)
class Checkpoint:
    """A folder with a config and safetensors weights, in one file or in shards."""

    folder: Path
    files: tuple[WeightFile, ...]
    entries: dict[str, Entry]
    config: JsonObject

    @property
    def label_names(self) -> list[str] | None:
        names = self.config.get("id2label") or {}
        return [str(names[key]) for key in sorted(names, key=int)] or None

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: entry.shape for name, entry in self.entries.items()}

    def side_files(self) -> list[Path]:
        """What a merged model needs besides weights."""
        return side_files(self.folder)


def open_checkpoint(folder: str | Path) -> tuple[Checkpoint | None, list[str]]:
    """Read headers and config only. Returns every problem; the checkpoint is None when there is no weight file."""
    folder = Path(folder)
    if not folder.is_dir():
        return None, [f"{folder}: no such folder; expected a model saved by `save_pretrained`"]
    problems: list[str] = []
    config: JsonObject = {}
    if (folder / "config.json").is_file():
        try:
            config = read_model_config(folder / "config.json")
        except ValueError as error:
            problems.append(str(error))
    weights, weight_problems = open_weights(folder)
    problems += weight_problems
    if weights is None:
        return None, problems
    return Checkpoint(folder, weights.files, weights.entries, config), problems


def compare_checkpoints(old: Checkpoint, new: Checkpoint) -> tuple[LabelAlignment | None, list[str]]:
    """How the two heads' labels match (None when both order them alike), and every reason not to merge the two."""
    pair, problems = f"{old.folder} and {new.folder}", []
    for key in ("model_type", "architectures", "architecture"):
        if old.config.get(key) != new.config.get(key):
            problems.append(f"{pair}: {key} differs, {old.config.get(key)!r} and {new.config.get(key)!r}")
    match: LabelAlignment | None = None
    heads: set[str] = set()
    if old.label_names and new.label_names and old.label_names != new.label_names:
        try:
            match = match_labels(old.label_names, new.label_names)
            heads.update(head_entries(old.shapes, new.shapes, match))
        except ValueError as error:
            problems.append(f"{pair}: {error}")
    if match and not heads:
        problems.append(f"{pair}: the labels differ but no head (classifier, score, head, fc) has one row per label")
    problems += [f"{name}: only in {old.folder}" for name in old.entries if name not in new.entries]
    problems += [f"{name}: only in {new.folder}" for name in new.entries if name not in old.entries]
    for name in old.entries.keys() & new.entries.keys():
        a, b = old.entries[name], new.entries[name]
        if (a.shape[1:] if name in heads else a.shape) != (b.shape[1:] if name in heads else b.shape):
            problems.append(f"{name}: shape {a.shape} in {old.folder}, {b.shape} in {new.folder}")
        if a.dtype != b.dtype:
            problems.append(f"{name}: {a.dtype} in {old.folder}, {b.dtype} in {new.folder}; save both in one dtype")
    return match, problems + compare_tokenizers(old.folder, new.folder)


def compare_tokenizers(old: Path, new: Path) -> list[str]:
    """Token ids must mean the same in both models. A folder without a tokenizer says nothing and is no problem."""
    a, b = old / "tokenizer.json", new / "tokenizer.json"
    if a.is_file() and b.is_file():
        if a.read_bytes() == b.read_bytes():
            return []
        one, two = (load_json(path, "a tokenizer") for path in (a, b))
        odd = [path for path, parts in ((a, one), (b, two)) if not isinstance(parts, dict)]
        if odd:
            return [f"{path} is not a tokenizer, expected a JSON object as save_pretrained writes it" for path in odd]
        differ = [part for part in TOKENIZER_PARTS if one.get(part) != two.get(part)]
        return [f"{old} and {new}: the tokenizers differ in {', '.join(differ)}"] if differ else []
    return [
        f"{old} and {new}: the tokenizers differ in {name}"
        for name in VOCABULARIES
        if (old / name).is_file() and (new / name).is_file() and (old / name).read_bytes() != (new / name).read_bytes()
    ]


def open_all(old: str | Path, new: Sequence[str | Path]) -> tuple[Checkpoint | None, list[Checkpoint], list[str]]:
    """Open every folder and collect what is wrong with any of them."""
    old_checkpoint, problems = open_checkpoint(old)
    opened = []
    for folder in new:
        checkpoint, lines = open_checkpoint(folder)
        problems += lines
        if checkpoint is not None:
            opened.append(checkpoint)
    return old_checkpoint, opened, problems
