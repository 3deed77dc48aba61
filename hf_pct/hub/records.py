"""`pct_config.json`: how a model was trained, as settings that differ from their defaults; no paths, no secrets."""

from __future__ import annotations

import json
from dataclasses import MISSING, fields
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from .._version import __version__
from ..core.decode import JsonObject
from ..models.revisions import commit_in_cache, snapshot_origin
from .client.names import model_id, public_model, public_name

if TYPE_CHECKING:
    from torch import nn
    from transformers import Trainer, TrainingArguments


FILE_NAME = "pct_config.json"
FORMAT_VERSION = 1
# where a run wrote and what it reported to, not how the model was made
_LEFT_OUT = (
    "output_dir",
    "run_name",
    "report_to",
    "reference_cache_dir",
    "disable_tqdm",
    "use_cpu",
    "resume_from_checkpoint",
    "local_rank",
    "project",
)
_LEFT_OUT_PREFIXES = ("hub_", "push_to_hub", "logging_", "log_", "save_", "eval_", "dataloader_", "do_", "trackio_")


def training_record(trainer: Trainer, old_model: str | None = None, old_revision: str | None = None) -> JsonObject:
    """What `pct_config.json` holds for a trainer."""
    args = trainer.args
    return {
        "format_version": FORMAT_VERSION,
        "trainer": type(trainer).__name__,
        "method": trainer.method.name,
        "old_model": public_model(old_model, commit_in_cache(old_model, old_revision)),
        "old_revision": old_revision,
        **started_from(trainer.model),
        "settings": changed_settings(args) | trainer.method.changed_settings(),
        "versions": _versions(),
    }


def started_from(model: nn.Module) -> dict[str, str | None]:
    """The Hub model whose weights the training started from, if it was one, and its commit."""
    name = getattr(getattr(model, "config", None), "_name_or_path", None) or None
    commit = commit_in_cache(name)
    known = model_id(name, commit)
    return {"base_model": known, "base_revision": commit if known else None}


def changed_settings(args: TrainingArguments) -> JsonObject:
    """The fields of an arguments dataclass that were set to something else than their default."""
    changed = {}
    for setting in fields(args):
        if setting.name in _LEFT_OUT or setting.name.startswith(_LEFT_OUT_PREFIXES) or "token" in setting.name:
            continue
        default = setting.default_factory() if setting.default_factory is not MISSING else setting.default
        value = getattr(args, setting.name)
        value = value.value if isinstance(value, Enum) else value
        default = default.value if isinstance(default, Enum) else default
        if value == default or value is None or not isinstance(value, bool | int | float | str | list):
            continue
        if isinstance(value, list):
            value = [public_name(entry) if isinstance(entry, str) else entry for entry in value]
        changed[setting.name] = public_name(value) if isinstance(value, str) else value
    return changed


def public_source(source: JsonObject) -> JsonObject:
    """One input of a merge without where it lay on this machine: the Hub's id and commit, or a folder's name."""
    path = str(source.get("path") or "")
    name, commit = snapshot_origin(path) or (path, source.get("revision"))
    known = model_id(name, commit)
    return {**source, "path": public_model(name, commit), "revision": commit if known else None}


def write_record(folder: Path, record: JsonObject) -> Path:
    """Write it beside the weights."""
    path = folder / FILE_NAME
    path.write_text(json.dumps(record, indent=2, ensure_ascii=False, default=str) + "\n", encoding="utf-8")
    return path


def _versions() -> dict[str, str]:
    import torch
    import transformers

    return {"hf_pct": __version__, "torch": torch.__version__, "transformers": transformers.__version__}
