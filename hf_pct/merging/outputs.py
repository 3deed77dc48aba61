"""An output folder that appears whole or not at all, and never over something that is already there."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hf_pct.files import current_umask


def output_problems(target: Path, needed: int = 0) -> list[str]:
    """Why nothing can be written there: something is in the way, or the disk is too full."""
    problems = []
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        problems.append(f"{target}: exists and is not empty; choose another output folder, nothing is overwritten")
    parent = next(folder for folder in target.absolute().parents if folder.is_dir())
    free = shutil.disk_usage(parent).free
    if free < needed:
        problems.append(f"{target}: the merged weights need {needed:,} bytes, {free:,} are free on that disk")
    return problems


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """A temporary folder beside the target that takes its name when the block ends well, and is removed otherwise."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".partial", dir=target.parent))
    try:
        yield partial
        partial.chmod(0o777 & ~current_umask())  # mkdtemp makes folders that only their owner can read
        if target.is_dir():
            target.rmdir()  # empty, or this fails and nothing is lost
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
