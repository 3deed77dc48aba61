"""`pct_ensemble.json`: an ensemble as a folder that names its members and holds none of their weights."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING

import torch

from ..._version import __version__
from ...core.decode import JsonObject, check_plain, load_json
from ...core.files import write_text
from ..load.adapters import adapter_folder
from ..load.kinds import ENSEMBLE_FILE
from ..load.processors import same_processor
from ..load.single import LoadedModel, load_single
from ..types import Processor
from .checks import count_problems, raise_problems
from .locations import source_of, source_problems, written_as
from .mean import Ensemble
from .shared_backbone import AdapterEnsemble, load_adapters

if TYPE_CHECKING:
    from torch import nn


FORMAT, FORMAT_VERSION = "hf_pct ensemble", 1
_KINDS = ("models", "adapters")
_PROCESSOR_FILES = ("tokenizer_config.json", "preprocessor_config.json", "processor_config.json")


def save_ensemble(
    folder: str | Path,
    members: Sequence[str | Path],
    temperatures: Sequence[float] | None = None,
    kind: str = "models",
    base: str | Path | None = None,
    *,
    label_names: Sequence[str] | None = None,
    homogeneous: bool = True,
    overwrite: bool = False,
) -> Path:
    """Write which models are one ensemble. Nothing is copied: the members stay where they are.

    Args:
        folder: what `predict`, `compare` and the trainers are then given. Members inside it may move with it.
        members: folders or Hub ids of models, or of LoRA adapters.
        temperatures: what each member's logits are divided by.
        kind: `models`, or `adapters` of the model `base`.
        base: the model that the adapters were trained on.
        label_names: the classes, for adapters whose base does not say them.
        homogeneous: as in `Ensemble`.
        overwrite: replace the file if it is there.
    """
    home = Path(folder)
    problems = count_problems(len(members), temperatures)
    if kind not in _KINDS:
        problems.append(f"kind is {kind!r}, expected one of {', '.join(_KINDS)}")
    if (kind == "adapters") != (base is not None):
        problems.append(f"kind is {kind!r} and base is {base!r}, expected a base for adapters and none for models")
    if (home / "config.json").exists():
        problems.append(f"{home} holds a model already (config.json), expected a folder of the ensemble's own")
    listed = [*members, *([] if base is None else [base])]
    entries = [written_as(source, home) for source in listed]
    problems += source_problems(home, entries[: len(members)], kind)
    problems += source_problems(home, entries[len(members) :], "models")
    raise_problems(problems)
    record = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "kind": kind,
        "members": entries[: len(members)],
        "temperatures": None if temperatures is None else [float(value) for value in temperatures],
        "base": None if base is None else entries[-1],
        "label_names": None if label_names is None else list(label_names),
        "homogeneous": homogeneous,
        "hf_pct": __version__,
    }
    return write_text(home / ENSEMBLE_FILE, json.dumps(record, indent=2, ensure_ascii=False) + "\n", overwrite)


def load_ensemble(
    folder: str | Path,
    *,
    processor: Processor | None = None,
    max_length: int | None = None,
    label_names: Sequence[str] | None = None,
    dtype: torch.dtype = torch.float32,
) -> LoadedModel:
    """The ensemble of a folder as one model: weights from safetensors only, and no code from a repository."""
    home = Path(folder)
    record = _read(home / ENSEMBLE_FILE)
    adapters = record["kind"] == "adapters"
    problems = count_problems(len(record["members"]), record["temperatures"])
    problems += source_problems(home, record["members"], record["kind"])
    problems += source_problems(home, [record["base"]] if adapters else [], "models")
    raise_problems(problems, f"{home / ENSEMBLE_FILE} cannot be loaded")
    sources = [source_of(home, entry) for entry in record["members"]]
    ensemble: Ensemble
    if adapters:
        base, folders = source_of(home, record["base"]), [adapter_folder(source) for source in sources]
        model, names = load_adapters(base, folders, record["label_names"], dtype)
        processor = processor or _common_processor(model, base, folders)
        ensemble = AdapterEnsemble(model, names, temperatures=record["temperatures"], processor=processor)
    else:
        ensemble = Ensemble(
            [load_single(source, processor=processor, dtype=dtype) for source in sources],
            temperatures=record["temperatures"],
            homogeneous=record["homogeneous"],
        )
    loaded = ensemble.loaded(processor, max_length, label_names)
    return LoadedModel(ensemble, loaded.task, loaded.processor, loaded.label_names, str(folder))


def _read(path: Path) -> JsonObject:
    """The record, with every field of the kind it must be."""
    record = load_json(path, "an ensemble, as save_ensemble writes it")
    check_plain(record, str(path))
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise ValueError(f"{path} does not describe an ensemble, expected what save_ensemble writes.")
    if record.get("format_version") != FORMAT_VERSION:
        raise ValueError(
            f"{path} has format version {record.get('format_version')}, this hf_pct ({__version__}) reads "
            f"{FORMAT_VERSION}: install the version it names ({record.get('hf_pct', 'unknown')})."
        )
    record = {"temperatures": None, "base": None, "label_names": None, "homogeneous": True} | record
    expected = {
        "kind": record.get("kind") in _KINDS,
        "members": _list_of(record.get("members"), str),
        "temperatures": record["temperatures"] is None or _list_of(record["temperatures"], int | float),
        "base": isinstance(record["base"], str) == (record.get("kind") == "adapters"),
        "label_names": record["label_names"] is None or _list_of(record["label_names"], str),
        "homogeneous": isinstance(record["homogeneous"], bool),
    }
    wrong = [f"{field} is {record.get(field)!r}" for field, right in expected.items() if not right]
    if wrong:
        raise ValueError(f"{path} is damaged: {', '.join(wrong)}. Write it again with save_ensemble.")
    return record


def _list_of(value: object, kind: type | UnionType) -> bool:
    return isinstance(value, list) and all(isinstance(entry, kind) for entry in value)


def _common_processor(model: nn.Module, base: str, folders: Sequence[Path]) -> Processor:
    """The tokenizer or image processor that the adapters were saved with, or else their base's."""
    saved = [folder for folder in folders if any((folder / name).is_file() for name in _PROCESSOR_FILES)]
    processors = [load_single(model, processor=str(folder)).processor for folder in saved]
    if not processors:
        return load_single(model, processor=base).processor
    alike = [same_processor(processors[0], processor) for processor in processors]
    others = [folder for folder, same in zip(saved, alike, strict=True) if not same]
    raise_problems([f"{folder} does not read inputs as {saved[0]} does" for folder in others])
    return processors[0]
