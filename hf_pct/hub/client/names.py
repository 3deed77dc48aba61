"""Which names are ids on the Hub, and names made fit to be shown: nothing local, nothing on two lines."""

import re
from pathlib import Path

from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id

from ...core.text import one_line
from ...models.revisions import is_commit

__all__ = ["check_repo_id", "hub_id", "model_id", "one_line", "public_model", "public_name"]
_FILE_ENDINGS = (".parquet", ".csv", ".json", ".jsonl", ".safetensors", ".arrow")


def hub_id(name: str | None, revision: str | None = None, *, bare: bool = False) -> str | None:
    """`name` if it reads like an id on the Hub, else None: folders and files do not.

    A name without a namespace (`distilbert-base-uncased`) looks like a folder's; it is an id when a commit came with
    it, because only the Hub has those, or where `bare` names are known to be ids.
    """
    if not name or name.startswith((".", "/", "~")) or name.endswith(_FILE_ENDINGS) or Path(name).exists():
        return None
    if "/" not in name and not bare and not is_commit(revision):
        return None
    return _valid_id(name)


def _valid_id(name: str) -> str | None:
    try:
        validate_repo_id(name)
    except HFValidationError:
        return None
    return name


def model_id(name: str | None, revision: str | None) -> str | None:
    """A model's name if it is an id on the Hub for sure: only models from there were recorded with a commit.

    `models/old` may as well be a folder, or the repository of somebody else.
    """
    if not name or not is_commit(revision) or name.startswith((".", "/", "~")) or name.endswith(_FILE_ENDINGS):
        return None
    return _valid_id(name)


def public_model(name: str | None, revision: str | None = None) -> str | None:
    """A model's name as it may be published: an id with its commit as it is, of all others the last part."""
    return name if name is None or model_id(name, revision) else _last_part(name)


def check_repo_id(repo_id: str) -> str:
    """A repository id as the Hub allows them; the error says how one looks."""
    try:
        validate_repo_id(repo_id)
    except HFValidationError as error:
        raise ValueError(f"{repo_id!r} is not a name on the Hub, expected namespace/name: {error}") from error
    return repo_id


def public_name(name: str | None, revision: str | None = None) -> str | None:
    """A name that may be published: a Hub id as it is, of a path only its last part."""
    if name is None or hub_id(name, revision):
        return name
    looks_local = Path(name).exists() or name.startswith((".", "/", "~")) or "\\" in name or name.count("/") > 1
    return _last_part(name) if looks_local or name.endswith(_FILE_ENDINGS) else name


def _last_part(name: str) -> str:
    return re.split(r"[/\\]", name.rstrip("/\\"))[-1]
