"""Which names are ids on the Hub, and names made fit to be shown: nothing local, nothing on two lines."""

import re
from pathlib import Path

from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id

from ..revisions import is_commit

_FILE_ENDINGS = (".parquet", ".csv", ".json", ".jsonl", ".safetensors", ".arrow")


def hub_id(name: str | None, revision: str | None = None, *, bare: bool = False) -> str | None:
    """`name` if it is an id on the Hub, else None: folders and files are not.

    A name without a namespace (`distilbert-base-uncased`) looks like a folder's; it is an id when a commit came with
    it, because only the Hub has those, or where `bare` names are known to be ids.
    """
    if not name or name.startswith((".", "/", "~")) or name.endswith(_FILE_ENDINGS) or Path(name).exists():
        return None
    if "/" not in name and not bare and not is_commit(revision):
        return None
    try:
        validate_repo_id(name)
    except HFValidationError:
        return None
    return name


def check_repo_id(repo_id: str) -> str:
    """A repository id as the Hub allows them; the error says how one looks."""
    try:
        validate_repo_id(repo_id)
    except HFValidationError as error:
        raise ValueError(f"{repo_id!r} is not a name on the Hub, expected namespace/name: {error}") from error
    return repo_id


def one_line(text: object) -> str:
    """Text without line breaks and control characters, whatever a model or a file is called."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in str(text)).split())


def public_name(name: str | None, revision: str | None = None) -> str | None:
    """A name that may be published: a Hub id as it is, of a path only its last part."""
    if name is None or hub_id(name, revision):
        return name
    looks_local = Path(name).exists() or name.startswith((".", "/", "~")) or "\\" in name or name.count("/") > 1
    return re.split(r"[/\\]", name.rstrip("/\\"))[-1] if looks_local or name.endswith(_FILE_ENDINGS) else name
