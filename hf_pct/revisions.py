"""Which commit of a Hub model was loaded: a report that names a branch proves nothing a week later."""

import re
from pathlib import Path

from huggingface_hub import try_to_load_from_cache
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
