"""The files of a model that go up, put together in one folder and looked at before anything leaves the machine.

Only files that a reader of the model needs are taken: an output folder also holds optimizer states, pickled training
arguments and whatever else was left there.
"""

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from .names import public_name
from .timm_format import is_timm_config, write_raw_timm, write_timm

WEIGHTS = ("model*.safetensors", "model.safetensors.index.json", "adapter_model.safetensors")
MODEL_FILES = (
    *WEIGHTS,
    "config.json",
    "adapter_config.json",
    "tokenizer*.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.*",
    "merges.txt",
    "*.spm",
    "*sentencepiece*.model",
    "spiece.model",
    "preprocessor_config.json",
    "processor_config.json",
)
RECORDS = ("pct_config.json", "pct_merge.json")
# of another model once these files are up: what a commit takes away with it
_PICKLED = ("pytorch_model*.bin", "pytorch_model.bin.index.json", "adapter_model.bin", "tf_model.h5", "*.msgpack")
STALE = (*MODEL_FILES, *_PICKLED, *RECORDS)


def gather(
    model: Any,
    target: Path,
    *,
    processor: Any = None,
    label_names: Sequence[str] | None = None,
    model_args: Mapping[str, Any] | None = None,
) -> Path:
    """Fill the empty folder `target` with the model: a folder, a transformers or PEFT model, or a timm model."""
    if isinstance(model, str | os.PathLike):
        _from_folder(Path(model), target)
    elif hasattr(model, "save_pretrained"):
        saved = target.parent / "saved"
        model.save_pretrained(saved)
        _from_folder(saved, target)
    elif hasattr(model, "pretrained_cfg"):
        write_raw_timm(model, target, label_names, model_args)
    else:
        raise ValueError(
            f"{type(model).__name__} cannot be published. Expected a folder, a transformers model or a timm model."
        )
    if processor is not None and not is_timm_config(read_json(target, "config.json")):
        _add_processor(processor, target)  # timm's transform is in config.json and has no file of its own
    problems = _problems(target)
    if problems:
        name = model if isinstance(model, str | os.PathLike) else type(model).__name__
        raise ValueError(f"{name} cannot be published:\n  " + "\n  ".join(problems))
    return target


def read_json(folder: Path, name: str) -> dict[str, Any]:
    """A JSON object in a folder; empty when the file is not there."""
    path = folder / name
    if not path.is_file():
        return {}
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(values, dict):
        raise ValueError(f"{path} holds {type(values).__name__}, expected a JSON object.")
    return values


def is_stale(path: str, uploaded: Sequence[str]) -> bool:
    """Whether a file of the repository would be left from another model: one that readers of a model look for."""
    return path not in uploaded and "/" not in path and _matches(path, STALE)


def _from_folder(folder: Path, target: Path) -> None:
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder. Expected a folder with config.json and model.safetensors.")
    wanted = sorted(path for path in folder.iterdir() if path.is_file() and _is_wanted(path.name))
    timm = is_timm_config(read_json(folder, "config.json")) and any(folder.glob("model*.safetensors"))
    if timm:
        write_timm(folder, target)
        wanted = [path for path in wanted if not _matches(path.name, (*WEIGHTS, "config.json"))]
    for path in wanted:
        if path.name == "pct_merge.json":
            _write_public_record(path, target / path.name)
        else:
            _link(path, target / path.name)


def _write_public_record(path: Path, target: Path) -> None:
    """The record of a merge with the names of its inputs, but not where they lay on this machine."""
    record = read_json(path.parent, path.name)
    for source in (record.get("old"), record.get("fisher"), *(record.get("new") or ())):
        if isinstance(source, dict) and source.get("path"):
            source["path"] = public_name(str(source["path"]))
    target.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _link(path: Path, target: Path) -> None:
    """Gigabytes are not copied to be uploaded."""
    try:
        target.symlink_to(path.resolve())
    except OSError:
        shutil.copyfile(path, target)


def _add_processor(processor: Any, target: Path) -> None:
    """Save beside the folder and link: writing into it could write through a link into the person's own files."""
    if isinstance(processor, str | os.PathLike):
        from transformers import AutoImageProcessor, AutoTokenizer

        named = str((read_json(target, "config.json").get("architectures") or [""])[0])
        auto: Any = AutoImageProcessor if named.endswith("ForImageClassification") else AutoTokenizer
        processor = auto.from_pretrained(str(processor))
    saved = target.parent / "processor"
    processor.save_pretrained(saved)
    for path in saved.iterdir():
        if _is_wanted(path.name):
            (target / path.name).unlink(missing_ok=True)
            _link(path, target / path.name)


def _is_wanted(name: str) -> bool:
    return _matches(name, (*MODEL_FILES, *RECORDS))


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


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
