"""Model folders on disk, and everything that keeps some of them from being merged, found before a byte is written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hf_pct.labels import LabelAlignment
from hf_pct.merging.heads import head_entries, match_labels
from hf_pct.merging.weight_files import Entry, WeightFile, read_weight_file

PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
NOT_COPIED = (*PICKLED, "*.safetensors", "*.h5", "*.msgpack", "*.onnx", "*.gguf", "*.index.json")
NOT_COPIED_NAMES = {"README.md", "pct_merge.json", "trainer_state.json"}
# what decides how text becomes ids; padding and truncation settings do not
TOKENIZER_PARTS = ("model", "added_tokens", "normalizer", "pre_tokenizer", "post_processor")
VOCABULARIES = ("vocab.txt", "vocab.json", "merges.txt", "spiece.model", "sentencepiece.bpe.model", "tokenizer.model")


@dataclass(frozen=True)
class Checkpoint:
    """A folder with a config and safetensors weights, in one file or in shards."""

    folder: Path
    files: tuple[WeightFile, ...]
    entries: dict[str, Entry]
    config: dict[str, Any]

    @property
    def label_names(self) -> list[str] | None:
        names = self.config.get("id2label") or {}
        return [names[key] for key in sorted(names, key=int)] or None

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: entry.shape for name, entry in self.entries.items()}

    def side_files(self) -> list[Path]:
        """What a merged model needs besides weights: config, tokenizer, processor. Cards and training state stay."""
        return sorted(
            path
            for path in self.folder.iterdir()
            if path.is_file()
            and path.name not in NOT_COPIED_NAMES
            and not path.name.startswith(".")
            and not any(path.match(pattern) for pattern in NOT_COPIED)
        )


def open_checkpoint(folder: str | Path) -> tuple[Checkpoint | None, list[str]]:
    """Read headers and config only. Returns every problem; the checkpoint is None when there is no weight file."""
    folder = Path(folder)
    if not folder.is_dir():
        return None, [f"{folder}: no such folder; expected a model saved by `save_pretrained`"]
    problems: list[str] = []
    config: dict[str, Any] = {}
    if (folder / "config.json").is_file():
        try:
            config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        except ValueError as error:
            problems.append(f"{folder}/config.json: not JSON ({error})")
    names, index = _weight_names(folder, problems)
    if not names:
        return None, problems
    files = []
    for name in names:
        file, found = read_weight_file(folder / name)
        problems += found
        if file is not None:
            files.append(file)
    entries: dict[str, Entry] = {}
    for file in files:
        for entry in file.entries:
            if entry.name in entries:
                problems.append(
                    f"{folder}: {entry.name} is in {entries[entry.name].file.name} and in {file.path.name}"
                )
            entries[entry.name] = entry
    read = {file.path.name for file in files}
    problems += [
        f"{folder}: the index places {name} in {shard}, which does not hold it"
        for name, shard in index.items()
        if shard in read and (name not in entries or entries[name].file.name != shard)
    ]
    return Checkpoint(folder, tuple(files), entries, config), problems


def _weight_names(folder: Path, problems: list[str]) -> tuple[list[str], dict[str, str]]:
    """The weight files of a folder: one file, or the shards that its index names."""
    if (folder / "model.safetensors").is_file():
        return ["model.safetensors"], {}
    index_file = folder / "model.safetensors.index.json"
    if index_file.is_file():
        try:
            index = dict(json.loads(index_file.read_text(encoding="utf-8"))["weight_map"])
        except (ValueError, KeyError, TypeError) as error:
            problems.append(f"{index_file}: not an index of shards ({error})")
            return [], {}
        names = sorted(set(index.values()))
        outside = [name for name in names if Path(name).name != name]
        missing = [name for name in names if name not in outside and not (folder / name).is_file()]
        problems += [f"{folder}: the index names {name!r}, which is not a file name" for name in outside]
        problems += [f"{folder}: shard {name} is missing" for name in missing]
        return [name for name in names if name not in {*outside, *missing}], index
    if (folder / "adapter_model.safetensors").is_file():
        problems.append(f"{folder}: holds an adapter, not a model; merge adapters with `merge_lora`")
        return [], {}
    pickled = sorted(path.name for pattern in PICKLED for path in folder.glob(pattern))
    found = f"; found only pickled files, which can run code when loaded: {pickled[:5]}" if pickled else ""
    problems.append(
        f"{folder}: no model.safetensors{found}. Load the model where you trust it and save it again with "
        "`save_pretrained`, which writes safetensors"
    )
    return [], {}


def compare_checkpoints(old: Checkpoint, new: Checkpoint) -> tuple[LabelAlignment | None, list[str]]:
    """How the two heads' labels match (None when both order them alike), and every reason not to merge the two."""
    pair, problems = f"{old.folder} and {new.folder}", []
    for key in ("model_type", "architectures", "architecture"):
        if old.config.get(key) != new.config.get(key):
            problems.append(f"{pair}: {key} differs, {old.config.get(key)!r} and {new.config.get(key)!r}")
    match: LabelAlignment | None = None
    if old.label_names and new.label_names and old.label_names != new.label_names:
        try:
            match = match_labels(old.label_names, new.label_names)
        except ValueError as error:
            problems.append(f"{pair}: {error}")
    heads = set(head_entries(old.shapes, new.shapes, match)) if match else set()
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
        one, two = (json.loads(path.read_text(encoding="utf-8")) for path in (a, b))
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
        checkpoint, found = open_checkpoint(folder)
        problems += found
        if checkpoint is not None:
            opened.append(checkpoint)
    return old_checkpoint, opened, problems
