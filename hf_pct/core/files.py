"""Files and folders that appear whole or not at all, never in place of something a person made.

Everything is written into a private folder beside its target, and moved to its name in one step when it is complete.
The private folder is locked by the process that writes into it. A lock ends with its process, however that ends, so
the next run knows what a killed one left behind, and removes it.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: nothing is locked, and nothing is removed either
    fcntl = None  # type: ignore[assignment]

_LEFT_BEHIND = re.compile(r"\..+\.[A-Za-z0-9_]{8,}(\.\d+)?(\.locked)?\.partial")
_WITHOUT_A_LOCK = 24 * 3600.0  # seconds after which a file that its writer does not lock is nobody's
_IN_A_MOMENT = 60.0  # and one whose writer does: it may just be about to
_SMALLEST = 4096
_cleaned: set[str] = set()


class OutputError(OSError, ValueError):
    """The place where something should be written cannot take it. Found before the work; `hf-pct` exits with 2."""


def check_can_write(path: str | os.PathLike, overwrite: bool = False, needed: int = _SMALLEST) -> Path:
    """The path, its folder made; an error when something is there already and `overwrite` was not asked for."""
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder, expected the name of a file to write.")
    if target.exists() and not overwrite:
        raise FileExistsError(f"{target} exists and is kept. Choose another name, or pass overwrite (--overwrite).")
    _make_folder(target.parent)
    problems = _place_problems(target, needed)
    if problems:
        raise OutputError("; ".join(problems))
    return target


def output_problems(target: Path, needed: int = _SMALLEST) -> list[str]:
    """Why no output folder can be made there: something is in the way, the place is read-only, or the disk is full."""
    problems = []
    if target.is_symlink():
        problems.append(f"{target}: is a link to {os.readlink(target)}; give the folder itself")
    elif target.exists() and (not target.is_dir() or any(target.iterdir())):
        problems.append(f"{target}: exists and is not empty; choose another output folder, nothing is overwritten")
    return problems + _place_problems(target, needed)


def check_output_folder(target: Path, needed: int = _SMALLEST) -> None:
    """Raise everything that keeps an output folder from being made."""
    problems = output_problems(target, needed)
    if problems:
        raise OutputError("; ".join(problems))


def _place_problems(target: Path, needed: int) -> list[str]:
    """What is wrong with the disk or the folder that a target would lie in."""
    parent = next(folder for folder in target.absolute().parents if folder.exists())
    if not parent.is_dir():
        return [f"{target}: {parent} is a file, expected a folder"]
    if not os.access(parent, os.W_OK | os.X_OK):
        return [f"{target}: {parent} cannot be written to (read-only, or no permission)"]
    free = shutil.disk_usage(parent).free
    if free < needed:
        return [f"{target}: it needs {needed:,} bytes, {free:,} are free on that disk"]
    return []


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder}: the folder cannot be made ({error.strerror}).") from error


@contextmanager
def write_whole(path: str | os.PathLike, overwrite: bool = False) -> Iterator[Path]:
    """A temporary path that takes the name `path` when the block ends well, and vanishes when it does not."""
    target = check_can_write(path, overwrite)
    with private_folder(target) as private:
        partial = private / target.name
        partial.touch()
        yield partial
        partial.chmod(0o666 & ~current_umask())  # some libraries make files that only their owner can read
        os.replace(partial, target)


def write_text(path: str | os.PathLike, text: str, overwrite: bool = False) -> Path:
    """Write a text file whole."""
    with write_whole(path, overwrite) as partial:
        partial.write_text(text, encoding="utf-8")
    return Path(path)


def keep_inputs(targets: Iterable[str | os.PathLike | None], inputs: Iterable[str | os.PathLike | None]) -> None:
    """Refuse to write over what is read, also where overwriting was asked for."""
    sources = [Path(source) for source in inputs if source is not None and os.path.exists(source)]
    for target in (Path(path) for path in targets if path is not None and os.path.exists(path)):
        if any(target.samefile(source) for source in sources):
            raise OutputError(f"{target} is read here and would be written over. Choose another place for the output.")


@contextmanager
def write_together(folder: Path, names: Sequence[str], overwrite: bool = False) -> Iterator[Path]:
    """A temporary folder whose files of these names move to `folder` together, in this order, when all are written."""
    for name in names:
        check_can_write(folder / name, overwrite)
    with private_folder(folder / names[-1]) as private:
        yield private
        for name in names:
            if (private / name).exists():
                (private / name).chmod(0o666 & ~current_umask())
                os.replace(private / name, folder / name)


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """A temporary folder that takes the target's name when the block ends well, and is removed otherwise."""
    check_output_folder(target)
    _make_folder(target.parent)
    with private_folder(target) as private:
        partial = private / target.name
        partial.mkdir()
        yield partial
        if target.is_dir():
            target.rmdir()  # empty, or this fails and nothing is lost
        partial.rename(target)


@contextmanager
def private_folder(target: Path) -> Iterator[Path]:
    """A folder beside the target that is this process's own until the block ends; then it is removed."""
    remove_left_behind(target.parent)
    folder, lock = _locked_folder(target)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _locked_folder(target: Path) -> tuple[Path, int | None]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f".{target.name[:100]}.", suffix=".partial", dir=target.parent))
        folder.chmod(0o777 & ~current_umask())
        if fcntl is None:
            return folder, None
        lock = os.open(folder, os.O_RDONLY)
        with suppress(OSError):  # some network disks know no locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.is_dir():
            return folder, lock
        os.close(lock)  # another run took it for left behind in the moment before it was locked


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Lock a file `.name.token.locked.partial` that is written under this name, possibly by several processes."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if fcntl is not None:
            with suppress(OSError):  # some network disks know no locks
                fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def remove_left_behind(folder: Path) -> list[Path]:
    """Remove what killed runs left in a folder, once per process; a run that is still writing keeps its own."""
    place = os.path.realpath(folder)
    if fcntl is None or place in _cleaned:
        return []
    _cleaned.add(place)
    with os.scandir(place) as listing:
        named = [Path(entry.path) for entry in listing if _LEFT_BEHIND.fullmatch(entry.name)]
    return [path for path in named if _remove_if_abandoned(path)]


def _remove_if_abandoned(path: Path) -> bool:
    try:
        lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if path.is_dir():
            shutil.rmtree(path)
        elif time.time() - os.fstat(lock).st_mtime > (_IN_A_MOMENT if ".locked." in path.name else _WITHOUT_A_LOCK):
            path.unlink()
        else:
            return False
    except OSError:  # locked by a living process, or not ours to remove
        return False
    finally:
        os.close(lock)
    return True


def reserve(path: Path, size: int) -> None:
    """Give a file its full size with real space behind it, so that a full disk is an error now.

    Writing through a mapping into space that is not there kills the process instead.
    """
    with open(path, "r+b" if path.exists() else "w+b") as file:
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, max(size, 1))
            file.truncate(size)
        except OSError as error:
            free = shutil.disk_usage(path.parent).free
            raise OutputError(
                f"{path.parent}: {size:,} bytes cannot be reserved there ({error.strerror}); {free:,} are free."
            ) from error


def current_umask() -> int:
    """The rights that new files are made without; the system reports it only while setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
