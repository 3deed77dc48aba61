"""Files that appear whole or not at all, and never in place of something a person made."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def check_can_write(path: str | os.PathLike, overwrite: bool = False) -> Path:
    """The path, its folder made; an error when something is there already and `overwrite` was not asked for."""
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder, expected the name of a file to write.")
    if target.exists() and not overwrite:
        raise FileExistsError(f"{target} exists and is kept. Choose another name, or pass overwrite (--overwrite).")
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


@contextmanager
def write_whole(path: str | os.PathLike, overwrite: bool = False) -> Iterator[Path]:
    """A temporary path beside `path` that takes its name when the block ends well, and vanishes when it does not."""
    target = check_can_write(path, overwrite)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".partial", dir=target.parent)
    os.close(handle)
    partial = Path(name)
    try:
        yield partial
        partial.chmod(0o666 & ~current_umask())  # mkstemp makes files that only their owner can read
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def write_text(path: str | os.PathLike, text: str, overwrite: bool = False) -> Path:
    """Write a text file whole."""
    with write_whole(path, overwrite) as partial:
        partial.write_text(text, encoding="utf-8")
    return Path(path)


def current_umask() -> int:
    """The rights that new files are made without; the system tells it only while setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
