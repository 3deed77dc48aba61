"""Where an ensemble's members are: beside its file, elsewhere on disk or on the Hub, and whether they are complete."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...core.weight_files import INDEX, WEIGHTS, read_index
from ..load.adapters import ADAPTER_FILES, adapter_folder
from ..load.kinds import ENSEMBLE_FILE
from ..load.weights import load_config


def written_as(source: str | Path, home: Path) -> str:
    """How a member is written down: `./name` inside the folder, an absolute path elsewhere, else a Hub id."""
    path = Path(source)
    if path.exists():
        path = path.resolve()
        inside = path.is_relative_to(home.resolve())
        return f"./{path.relative_to(home.resolve()).as_posix()}" if inside else str(path)
    local = isinstance(source, Path) or path.is_absolute() or str(source).startswith(".")
    return str(path.absolute()) if local else str(source)


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
    if not (folder / INDEX).is_file():
        return [WEIGHTS]
    problems: list[str] = []
    shards = sorted(set(read_index(folder / INDEX, problems).values()))
    if problems:
        raise ValueError(f"{folder / INDEX} does not say where the weights are: {'; '.join(problems)}")
    return shards
