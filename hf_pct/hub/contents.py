"""The files of a model to upload, put together in one folder and checked before anything leaves the machine.

Only files that a reader of the model needs are taken: an output folder also holds optimizer states, pickled training
arguments and whatever else was left there.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.decode import JsonObject, load_json
from ..core.model_folder import CONFIG_FILES, PROCESSOR_FILES, links_outside, matches
from ..flips.render.public import public_value
from ..models.types import SavesItself
from .client.names import public_name
from .records import public_source
from .timm_format import is_timm_config, write_raw_timm, write_timm

if TYPE_CHECKING:
    from torch import nn


WEIGHTS = ("model*.safetensors", "model.safetensors.index.json", "adapter_model.safetensors")
MODEL_FILES = (*WEIGHTS, *CONFIG_FILES, "adapter_config.json", "pct_labels.json", *PROCESSOR_FILES)
RECORDS = ("pct_config.json", "pct_merge.json", "pct_update.json")
# of another model once these files are up: what a commit takes away with it
_PICKLED = ("pytorch_model*.bin", "pytorch_model.bin.index.json", "adapter_model.bin", "tf_model.h5", "*.msgpack")
SETTINGS = ("*config.json", *RECORDS)
_WHERE_IT_LAY = ("_name_or_path", "name_or_path", "tokenizer_file", "special_tokens_map_file", "vocab_file")
_DATA_KEYS = ("id2label", "label2id", "label_names", "added_tokens_decoder")
STALE = (*MODEL_FILES, *_PICKLED, *RECORDS)


def gather(
    model: str | os.PathLike | nn.Module,
    target: Path,
    *,
    processor: str | os.PathLike | SavesItself | None = None,
    label_names: Sequence[str] | None = None,
    model_args: JsonObject | None = None,
) -> Path:
    """Fill the empty folder `target` with the model: a folder, a transformers or PEFT model, or a timm model."""
    if isinstance(model, str | os.PathLike):
        _from_folder(Path(model), target)
    elif hasattr(model, "save_pretrained"):
        saved = target.parent / "saved"
        model.save_pretrained(saved)
        if hasattr(model, "peft_config"):
            from ..models.load.adapters import save_labels
            from ..models.load.answering import label_names_of

            save_labels(saved, label_names_of(model))  # PEFT does not keep them
        _from_folder(saved, target)
    elif hasattr(model, "pretrained_cfg"):
        write_raw_timm(model, target, label_names, model_args)
    else:
        raise ValueError(
            f"{type(model).__name__} cannot be published. Expected a folder, a transformers model or a timm model."
        )
    _publish_config(target / "config.json")
    if processor is not None and not is_timm_config(read_json(target, "config.json")):
        _add_processor(processor, target)  # timm's transform is in config.json and has no file of its own
    problems = _problems(target)
    if problems:
        name = model if isinstance(model, str | os.PathLike) else type(model).__name__
        raise ValueError(f"{name} cannot be published:\n  " + "\n  ".join(problems))
    return target


def read_json(folder: Path, name: str) -> JsonObject:
    """A JSON object in a folder; empty when the file is not there."""
    path = folder / name
    if not path.is_file():
        return {}
    values = load_json(path, "a JSON object")
    if not isinstance(values, dict):
        raise ValueError(f"{path} holds {type(values).__name__}, expected a JSON object.")
    return values


def is_stale(path: str, uploaded: Sequence[str]) -> bool:
    """Whether a file of the repository would be left from another model: one that readers of a model look for."""
    return path not in uploaded and "/" not in path and matches(path, STALE)


def _from_folder(folder: Path, target: Path) -> None:
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder. Expected a folder with config.json and model.safetensors.")
    wanted = sorted(path for path in folder.iterdir() if path.is_file() and _is_wanted(path.name))
    timm = is_timm_config(read_json(folder, "config.json")) and any(folder.glob("model*.safetensors"))
    if timm:
        write_timm(folder, target)
        wanted = [path for path in wanted if not matches(path.name, (*WEIGHTS, "config.json"))]
    problems = links_outside(folder, (path for path in folder.iterdir() if _is_wanted(path.name)))
    if problems:
        raise ValueError(f"{folder} cannot be published:\n  " + "\n  ".join(problems))
    for path in wanted:
        _add_file(path, target / path.name)


def _publish_config(path: Path) -> None:
    """A config that was written here, not linked, without paths of this machine."""
    if path.is_file() and not path.is_symlink():
        public = _public_settings(read_json(path.parent, path.name))
        path.write_text(json.dumps(public, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _add_file(path: Path, target: Path) -> None:
    """One file as it goes up; settings without paths of this machine, everything else as it is."""
    if not matches(path.name, SETTINGS):
        _link(path, target)
        return
    values = read_json(path.parent, path.name)
    public = public_merge(values) if path.name == "pct_merge.json" else _public_settings(values)
    if public == values:
        _link(path, target)
    else:
        target.write_text(json.dumps(public, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def public_merge(record: JsonObject) -> JsonObject:
    """The record of a merge with the names of its inputs, but not where they lay on this machine."""
    if not record:
        return {}
    sources = {name: public_source(record[name]) for name in ("old", "fisher") if isinstance(record.get(name), dict)}
    new = [public_source(source) for source in record.get("new") or () if isinstance(source, dict)]
    return public_value(record) | {"old": {"path": None, "revision": None}, **sources, "new": new}


def _public_settings(values: object, key: str = "") -> object:
    """A config without paths of this machine: names of files that were loaded are dropped, other paths are cut.

    What people call their classes, and what a tokenizer reads, stays as it is.
    """
    if isinstance(values, dict):
        return {
            name: entry if name in _DATA_KEYS else _public_settings(entry, name)
            for name, entry in values.items()
            if name not in _WHERE_IT_LAY
        }
    if key == "base_model_name_or_path" and isinstance(values, str):
        return public_name(values)
    return public_value(values)


def _link(path: Path, target: Path) -> None:
    """Gigabytes are not copied to be uploaded."""
    try:
        target.symlink_to(path.resolve())
    except OSError:
        shutil.copyfile(path, target)


def _add_processor(processor: str | os.PathLike | SavesItself, target: Path) -> None:
    """Save beside the folder and link: writing into it could write through a link into the person's own files."""
    if isinstance(processor, str | os.PathLike):
        from transformers import AutoImageProcessor, AutoTokenizer

        named = str((read_json(target, "config.json").get("architectures") or [""])[0])
        auto = AutoImageProcessor if named.endswith("ForImageClassification") else AutoTokenizer
        loaded: SavesItself = auto.from_pretrained(str(processor))
    else:
        loaded = processor
    saved = target.parent / "processor"
    loaded.save_pretrained(saved)
    for path in saved.iterdir():
        if _is_wanted(path.name):
            (target / path.name).unlink(missing_ok=True)
            _add_file(path, target / path.name)


def _is_wanted(name: str) -> bool:
    return matches(name, (*MODEL_FILES, *RECORDS))


def _problems(target: Path) -> list[str]:
    """What is missing, all of it at once."""
    problems = []
    adapter = (target / "adapter_config.json").is_file()
    if not adapter and not (target / "config.json").is_file():
        problems.append("there is no config.json")
    if not any(target.glob("*model*.safetensors")):
        problems.append("there are no weights as safetensors; pickled weights are not published")
    index = read_json(target, "model.safetensors.index.json")
    shards = sorted(set(index.get("weight_map", {}).values()))
    problems += [f"the shard {shard} is missing" for shard in shards if not (target / shard).is_file()]
    config = read_json(target, "config.json")
    text = str((config.get("architectures") or [""])[0]).endswith("ForSequenceClassification")
    if text and not any(target.glob("tokenizer*")) and not any(target.glob("vocab*")):
        problems.append("the tokenizer is missing: save it into the folder, or pass processor (--processor)")
    return problems
