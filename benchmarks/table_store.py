"""Where cells are kept, and how they come to be there whole or not at all.

build/tables/<cell>/                      weights, logits on the test set (not committed)
build/tables/.<cell>.lock                 held by the process that works on the cell
benchmarks/results/tables/<cell>.npz      answers on the test set (committed): what the tables are drawn from
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
ANSWERS, LOGITS = "answers.npz", "logits.npz"


@dataclass(frozen=True)
class Answers:
    """What a model answered to the rows of a test set, as indices into all class names of the data.

    `classes` are those that the model knows; `seconds` is the processor time that making it took, without the cells
    that it was made from.
    """

    ids: np.ndarray
    labels: np.ndarray
    answers: np.ndarray
    classes: np.ndarray
    seconds: float
    alpha: float = float("nan")

    def save(self, path: Path) -> None:
        small = np.uint16 if len(self.ids) < 2**16 else np.uint32
        np.savez_compressed(
            path, ids=self.ids.astype(small), labels=self.labels.astype(np.int16),
            answers=self.answers.astype(np.int16), classes=self.classes.astype(np.int16),
            seconds=np.float32(self.seconds), alpha=np.float32(self.alpha),
        )  # fmt: skip

    @classmethod
    def load(cls, path: Path) -> Answers:
        with np.load(path) as found:
            ids, labels, answers, classes = (found[name] for name in ("ids", "labels", "answers", "classes"))
            return cls(ids, labels, answers, classes, float(found["seconds"]), float(found["alpha"]))


@dataclass(frozen=True)
class Store:
    """The two folders of a run."""

    work: Path = ROOT / "build" / "tables"
    results: Path = ROOT / "benchmarks" / "results" / "tables"

    def folder(self, cell: str) -> Path:
        return self.work / cell

    def answers(self, cell: str) -> Path:
        return self.results / f"{cell}.npz"

    def finished(self, cell: str) -> bool:
        return self.answers(cell).is_file()

    def has_weights(self, cell: str) -> bool:
        return (self.folder(cell) / ANSWERS).is_file()

    @contextmanager
    def unfinished(self, cell: str) -> Iterator[Path]:
        """A folder to work in, which becomes the cell's when the block ends well and is removed when it does not."""
        partial = self.work / f".{cell}.{os.getpid()}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        try:
            yield partial
            partial.rename(self.folder(cell))
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def publish(self, cell: str) -> None:
        """The cell's answers to the results; those of an earlier run stay as they are."""
        if self.finished(cell):
            return
        self.results.mkdir(parents=True, exist_ok=True)
        partial = self.results / f".{cell}.{os.getpid()}.partial"
        shutil.copyfile(self.folder(cell) / ANSWERS, partial)
        partial.rename(self.answers(cell))

    def sweep(self) -> None:
        """Remove what killed runs left behind; what a living process works on stays."""
        for partial in [*self.work.glob(".*.partial"), *self.results.glob(".*.partial")]:
            if not _alive(int(partial.name.split(".")[-2])):
                shutil.rmtree(partial) if partial.is_dir() else partial.unlink(missing_ok=True)

    @contextmanager
    def lock(self, cell: str) -> Iterator[bool]:
        """Whether this process has the cell to itself, for the length of the block.

        The file names the process for people. What counts is the lock that the system holds on it, which ends with its
        process, however that ends: a lock left behind by a killed run is free.
        """
        self.work.mkdir(parents=True, exist_ok=True)
        with (self.work / f".{cell}.lock").open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
            yield True


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
