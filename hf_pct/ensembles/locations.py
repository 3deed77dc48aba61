"""Where an ensemble's members are: beside its file, elsewhere on disk or on the Hub, and whether they are complete."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from huggingface_hub import hf_hub_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError

from ..tasks import ENSEMBLE_FILE, load_config

ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors")


def written_as(given: str | Path, home: Path) -> str:
    """How a member is written down: `./name` inside the folder, an absolute path elsewhere, else a Hub id."""
    path = Path(given)
    if path.exists():
        path = path.resolve()
        inside = path.is_relative_to(home.resolve())
        return f"./{path.relative_to(home.resolve()).as_posix()}" if inside else str(path)
    local = isinstance(given, Path) or path.is_absolute() or str(given).startswith(".")
    return str(path.absolute()) if local else str(given)


def _is_local(home: Path, entry: str) -> bool:
    return entry.startswith(("./", "../")) or Path(entry).is_absolute() or (home / entry).exists()


def source_of(home: Path, entry: str) -> str:
    """What to load for a member as it is written down."""
    return str(home / entry) if _is_local(home, entry) else entry


def source_problems(home: Path, entries: Sequence[str], kind: str) -> list[str]:
    """Members that are missing or unfinished, each by its name."""
    problems = []
    for entry in entries:
        try:
            if _is_local(home, entry):
                problems += _folder_problems(home / entry, kind)
            elif kind == "adapters":
                adapter_folder(entry)
            else:
                load_config(entry)
        except ValueError as error:
            problems.append(str(error))
    return problems


def _folder_problems(folder: Path, kind: str) -> list[str]:
    if not folder.is_dir():
        return [f"{folder} is not there"]
    if kind == "adapters":
        needed = list(ADAPTER_FILES)
    elif (folder / ENSEMBLE_FILE).exists() and not (folder / "config.json").exists():
        return [f"{folder} is an ensemble itself. List its members instead"]
    else:
        needed = ["config.json", *_weight_files(folder)]
    lacking = [name for name in needed if not (folder / name).is_file()]
    return [f"{folder} is unfinished: it lacks {' and '.join(lacking)}"] if lacking else []


def _weight_files(folder: Path) -> list[str]:
    index = folder / "model.safetensors.index.json"
    if not index.is_file():
        return ["model.safetensors"]
    try:
        return sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{index} does not say where the weights are: {error!r}") from error


def adapter_folder(source: str) -> Path:
    """Where an adapter's files are: PEFT itself would take a pickle from the Hub where there are no safetensors."""
    if Path(source).is_dir():
        return Path(source)
    try:
        paths = [Path(hf_hub_download(source, name)) for name in ADAPTER_FILES]
    except (OSError, HFValidationError, HfHubHTTPError) as error:
        raise ValueError(
            f"{source} is not a folder with an adapter in it, and not an adapter on the Hub that can be reached "
            f"({str(error).splitlines()[0]}) Expected {' and '.join(ADAPTER_FILES)}."
        ) from error
    return paths[0].parent
