"""`pct_config.json`: how a model was trained, as settings that differ from their defaults; no paths, no secrets."""

import json
from dataclasses import MISSING, fields
from enum import Enum
from pathlib import Path
from typing import Any

from .._version import __version__
from ..revisions import commit_in_cache
from .names import hub_id, public_name

FILE_NAME = "pct_config.json"
FORMAT_VERSION = 1
# where a run wrote and whom it told, not how the model was made
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


def training_record(trainer: Any, old_model: str | None = None, old_revision: str | None = None) -> dict[str, Any]:
    """What `pct_config.json` holds for a trainer."""
    args = trainer.args
    return {
        "format_version": FORMAT_VERSION,
        "trainer": type(trainer).__name__,
        "method": str(getattr(args, "method", "") or _method_of(type(trainer).__name__)),
        "old_model": public_name(old_model, old_revision),
        "old_revision": old_revision,
        "base_model": started_from(trainer.model),
        "settings": changed_settings(args),
        "versions": _versions(),
    }


def started_from(model: Any) -> str | None:
    """The Hub model whose weights the training started from, if it was one."""
    name = getattr(getattr(model, "config", None), "_name_or_path", None) or None
    return hub_id(name, commit_in_cache(name))


def changed_settings(args: Any) -> dict[str, Any]:
    """The fields of an arguments dataclass that were set to something else than their default."""
    changed = {}
    for each in fields(args):
        if each.name in _LEFT_OUT or each.name.startswith(_LEFT_OUT_PREFIXES) or "token" in each.name:
            continue
        default = each.default_factory() if each.default_factory is not MISSING else each.default
        value = getattr(args, each.name)
        value = value.value if isinstance(value, Enum) else value
        default = default.value if isinstance(default, Enum) else default
        if value == default or value is None or not isinstance(value, bool | int | float | str | list):
            continue
        if isinstance(value, list):
            value = [public_name(entry) if isinstance(entry, str) else entry for entry in value]
        changed[each.name] = public_name(value) if isinstance(value, str) else value
    return changed


def write_record(folder: Path, record: dict[str, Any]) -> Path:
    """Write it beside the weights."""
    path = folder / FILE_NAME
    path.write_text(json.dumps(record, indent=2, ensure_ascii=False, default=str) + "\n", encoding="utf-8")
    return path


def _method_of(trainer: str) -> str:
    return "elodi" if "ELODI" in trainer else "none"


def _versions() -> dict[str, str]:
    import torch
    import transformers

    return {"hf_pct": __version__, "torch": torch.__version__, "transformers": transformers.__version__}
