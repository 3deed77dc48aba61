"""Which commit of a Hub model was loaded: a report that names a branch proves nothing a week later."""

import os
import re
from pathlib import Path

from huggingface_hub import snapshot_download, try_to_load_from_cache
from huggingface_hub.errors import HFValidationError


def is_commit(revision: str | None) -> bool:
    """Whether a revision is a commit and not a branch or a tag, which may move."""
    return bool(revision) and re.fullmatch(r"[0-9a-f]{40}", str(revision)) is not None


def commit_in_cache(name: str | None, revision: str | None = None) -> str | None:
    """The commit of a Hub model that was loaded in this process or before: the cache keeps files by commit."""
    if is_commit(revision) or not name or Path(name).exists():
        return revision if is_commit(revision) else None
    try:
        path = try_to_load_from_cache(name, "config.json", revision=revision)
    except HFValidationError:
        return None
    return Path(path).parent.name if isinstance(path, str) else None


def snapshot_origin(folder: str | Path) -> tuple[str, str] | None:
    """The id and the commit that a folder of the Hub's cache holds; None for any other folder."""
    commit, snapshots, repo = [*reversed(Path(folder).parts), "", "", ""][:3]
    if snapshots != "snapshots" or not repo.startswith("models--") or not is_commit(commit):
        return None
    return repo.removeprefix("models--").replace("--", "/"), commit


def recorded_name(name: str | Path) -> str:
    """How a model or dataset is written down: a relative path as `./path`, so that nobody takes it for a Hub id."""
    text = str(name)
    local = not text.startswith((".", "/", "~")) and Path(text).exists() and not Path(text).is_absolute()
    return f"./{text}" if local else text


def resolve_folder(model: str) -> str:
    """A folder as it is; a Hub id as the folder of its downloaded files, without pickled weights."""
    if os.path.isdir(model):
        return model
    if model.startswith((".", "/", "~")) or model.count("/") > 1:
        return model  # a folder that does not exist: the merge names it among its problems
    try:
        return snapshot_download(model, allow_patterns=["*.json", "*.safetensors", "*.txt", "*.model"])
    except Exception as error:  # every library error means the same here: it is not there
        raise ValueError(
            f"{model} is not a folder, and not a model on the Hub that can be reached ({str(error).splitlines()[0]})"
        ) from error
