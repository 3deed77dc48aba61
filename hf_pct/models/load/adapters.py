"""Adapter folders as models: the base that they name, with the adapter in its weights."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from huggingface_hub import hf_hub_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError
from safetensors import safe_open
from torch import nn
from transformers.utils import cached_file

from ...core.decode import read_json
from ...core.files import write_text
from ...core.versions import missing_extra
from ..revisions import snapshot_origin
from .weights import load_config, load_weights

if TYPE_CHECKING:
    from transformers import PretrainedConfig


ADAPTER_CONFIG, ADAPTER_WEIGHTS = ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors")
LABELS_FILE = "pct_labels.json"
"""The names of an adapter's classes, which PEFT does not keep."""
_PREFIX = "base_model.model."
_OWN_PROCESSOR = ("tokenizer_config.json", "preprocessor_config.json", "processor_config.json")


@dataclass(frozen=True)
class _AdapterSettings:
    """What is read here of the settings that PEFT writes."""

    base_model_name_or_path: str | None = None
    revision: str | None = None


@dataclass(frozen=True)
class _AdapterLabels:
    label_names: list[str]


def is_adapter(name: str, revision: str | None = None) -> bool:
    """Whether a folder or a Hub id holds an adapter and no model of its own."""
    if Path(name).is_dir():
        return (Path(name) / ADAPTER_CONFIG).is_file() and not (Path(name) / "config.json").is_file()
    if Path(name).exists() or Path(name).is_absolute() or name.count("/") > 1:
        return False
    try:
        files = [_on_hub(name, file, revision) for file in ("config.json", ADAPTER_CONFIG)]
    except (OSError, ValueError):
        return False  # `load_config` says what is wrong
    return files[0] is None and files[1] is not None


def _on_hub(name: str, file: str, revision: str | None) -> str | None:
    """Where a file of a Hub repository is now, or None when the repository does not have it."""
    quietly = {
        f"_raise_exceptions_for_{what}": False for what in ("missing_entries", "connection_errors", "gated_repo")
    }
    return cached_file(name, file, revision=revision, **quietly)


def adapter_folder(source: str, revision: str | None = None) -> Path:
    """Where an adapter's files are: PEFT itself would take a pickle from the Hub where there are no safetensors."""
    if Path(source).is_dir():
        return Path(source)
    try:
        paths = [Path(hf_hub_download(source, name, revision=revision)) for name in ADAPTER_FILES]
    except (OSError, HFValidationError, HfHubHTTPError) as error:
        raise ValueError(
            f"{source} is not a folder with an adapter in it, and not an adapter on the Hub that can be reached "
            f"({str(error).splitlines()[0]}) Expected {' and '.join(ADAPTER_FILES)}."
        ) from error
    for name in (LABELS_FILE, *_OWN_PROCESSOR):
        _on_hub(source, name, revision)  # beside the others, where the repository has it
    return paths[0].parent


def load_adapter(
    name: str,
    revision: str | None = None,
    dtype: torch.dtype = torch.float32,
    label_names: Sequence[str] | None = None,
) -> tuple[nn.Module, str | None, tuple[str, str | None]]:
    """The model that an adapter and its base make, the adapter's revision, and where and of which its processor is.

    The adapter is added to the weights where its kind allows that, so that the result is a plain model: it can be
    merged, compared tensor by tensor, and used as an old model.
    """
    folder = adapter_folder(name, revision)
    origin = snapshot_origin(folder)  # a branch may move, a commit does not
    revision = origin[1] if origin else revision
    lacking = [file for file in ADAPTER_FILES if not (folder / file).is_file()]
    if lacking:
        raise ValueError(f"{folder} holds an adapter without {' and '.join(lacking)}; weights must be safetensors.")
    settings = read_json(folder / ADAPTER_CONFIG, _AdapterSettings, "the settings of an adapter")
    base = settings.base_model_name_or_path
    if not base:
        raise ValueError(f"{folder / ADAPTER_CONFIG} does not name its base model (base_model_name_or_path).")
    try:
        config = load_config(base, settings.revision)
    except ValueError as error:
        raise ValueError(f"The adapter in {folder} was trained on {base}, which cannot be loaded: {error}") from error
    names = list(label_names or saved_labels(folder) or _class_names(folder, config))
    module, missing = base_with_head(base, [folder], settings.revision, dtype, names)
    if missing[folder]:
        raise ValueError(headless(folder, base, missing[folder]) + ".")
    model = peft_model_class().from_pretrained(module, str(folder))
    plain = model.merge_and_unload() if hasattr(model, "merge_and_unload") else model
    plain.eval()
    if any((folder / file).is_file() for file in _OWN_PROCESSOR):
        return plain, revision, (name, revision)
    return plain, revision, (base, settings.revision)


def base_with_head(
    base: str,
    folders: Sequence[Path],
    revision: str | None = None,
    dtype: torch.dtype = torch.float32,
    label_names: Sequence[str] | None = None,
) -> tuple[nn.Module, dict[Path, list[str]]]:
    """A base model with a head for these classes, and by folder the weights that neither it nor the adapter has."""
    module, _, lacking = load_weights(base, revision, dtype, label_names)
    missing = {}
    for folder in folders:
        with safe_open(folder / ADAPTER_WEIGHTS, "pt") as weights:
            own = {name.removeprefix(_PREFIX) for name in weights.keys()}  # noqa: SIM118, it is no dict
        missing[folder] = sorted(lacking - own)
    return module, missing


def headless(folder: Path, base: str, lacking: Sequence[str]) -> str:
    """What is wrong with an adapter that has no trained head, and whose base has none either."""
    return (
        f"{folder} has no {', '.join(lacking)} and neither has its base {base}, so its answers would be random. Train "
        "adapters with modules_to_save=['classifier'], or name a base with that head"
    )


def save_labels(folder: Path, label_names: Sequence[str]) -> None:
    """Keep the names of the classes beside an adapter."""
    text = json.dumps({"label_names": list(label_names)}, indent=2) + "\n"
    write_text(folder / LABELS_FILE, text, overwrite=True)


def saved_labels(folder: Path) -> list[str] | None:
    """The names of an adapter's classes, where they were kept beside it."""
    path = folder / LABELS_FILE
    return read_json(path, _AdapterLabels, "the names of an adapter's classes").label_names if path.is_file() else None


def adapter_labels(folder: Path) -> list[str] | None:
    """The names of an adapter's classes: those kept beside it, or its base's; None where neither can be read."""
    if (names := saved_labels(folder)) is not None:
        return names
    settings = read_json(folder / ADAPTER_CONFIG, _AdapterSettings, "the settings of an adapter")
    try:
        return _class_names(folder, load_config(str(settings.base_model_name_or_path), settings.revision))
    except ValueError:
        return None


def _class_names(folder: Path, config: PretrainedConfig) -> list[str]:
    """The base's classes; where the adapter has a head for another number of them, LABEL_0, LABEL_1, ..."""
    names = [str(config.id2label[index]) for index in sorted(config.id2label, key=int)]
    with safe_open(folder / ADAPTER_WEIGHTS, "pt") as weights:
        heads = [
            weights.get_slice(name).get_shape()[0]
            for name in weights.keys()  # noqa: SIM118, it is no dict
            if name.endswith(("classifier.weight", "score.weight", "out_proj.weight", "head.weight", "fc.weight"))
            and "lora_" not in name
            and ".attention." not in name
        ]
    count = heads[-1] if heads else len(names)
    return names if count == len(names) else [f"LABEL_{index}" for index in range(count)]


def peft_model_class() -> Any:
    """PEFT's model class, where PEFT is installed."""
    try:
        from peft import PeftModel
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(missing_extra("Adapters", "adapters")) from error
    return PeftModel
