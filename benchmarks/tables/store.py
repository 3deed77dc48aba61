"""Where cells are kept, and how they come to be there whole or not at all.

build/tables/<cell>/                weights, logits on the test set, answers (not committed)
build/tables/.<cell>.lock           held by the process that works on the cell
benchmarks/results/<table>.parquet  answers of the table's cells (committed): what the tables are drawn from

A file of answers has one line per cell and part of the data (`test`, `dev`). A cell that several tables share stands
in the file of the table that computed it first.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import ROOT
from hf_pct.core.files import write_whole

ANSWERS, LOGITS = "answers.parquet", "logits.npz"
TEST, DEV = "test", "dev"
_SCHEMA = pa.schema(
    [
        ("cell", pa.string()),
        ("part", pa.string()),
        ("seconds", pa.float32()),
        ("alpha", pa.float32()),
        ("classes", pa.list_(pa.int16())),
        ("ids", pa.list_(pa.uint32())),
        ("labels", pa.list_(pa.int16())),
        ("answers", pa.list_(pa.int16())),
    ]
)


@dataclass(frozen=True)
class Answers:
    """What a model answered to the rows of one part of the data, as indices into all class names of the data.

    `classes` are those that the model knows; `seconds` is the processor time that making it took, without the cells
    that it was made from.
    """

    ids: np.ndarray
    labels: np.ndarray
    answers: np.ndarray
    classes: np.ndarray
    seconds: float
    alpha: float = float("nan")

    def line(self, cell: str, part: str) -> dict[str, object]:
        lists = {name: getattr(self, name) for name in ("classes", "ids", "labels", "answers")}
        return {"cell": cell, "part": part, "seconds": self.seconds, "alpha": self.alpha, **lists}


def read_answers(path: Path) -> dict[tuple[str, str], Answers]:
    """Every cell and part of a file of answers; a file is read again only when it has changed."""
    if not path.is_file():
        return {}
    status = path.stat()
    return _read(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=256)
def _read(path: Path, changed: int, size: int) -> dict[tuple[str, str], Answers]:
    columns = pq.read_table(path, schema=_SCHEMA).to_pydict()
    lines = (dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True))
    return {
        (line["cell"], line["part"]): Answers(
            *(np.array(line[name]) for name in ("ids", "labels", "answers", "classes")), line["seconds"], line["alpha"]
        )
        for line in lines
    }


def write_answers(path: Path, answers: Mapping[tuple[str, str], Answers]) -> None:
    """A file of answers, whole; what stood there is replaced."""
    lines = [value.line(*key) for key, value in sorted(answers.items())]
    with write_whole(path, overwrite=True) as partial:
        pq.write_table(pa.Table.from_pylist(lines, _SCHEMA), partial, compression="zstd", compression_level=19)


@dataclass(frozen=True)
class Store:
    """The two folders of a run."""

    work: Path = ROOT / "build" / "tables"
    results: Path = ROOT / "benchmarks" / "results"

    def folder(self, cell: str) -> Path:
        return self.work / cell

    def answers(self, cell: str, part: str = TEST) -> Answers | None:
        """What a cell answered, from whichever table computed it; nothing when none has."""
        files = (read_answers(path) for path in sorted(self.results.glob("*.parquet")))
        return next((answers[cell, part] for answers in files if (cell, part) in answers), None)

    def finished(self, cell: str) -> bool:
        return self.answers(cell) is not None

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

    def publish(self, table: str, cell: str) -> None:
        """The cell's answers to the results; those of an earlier run stay as they are."""
        own = read_answers(self.folder(cell) / ANSWERS)
        new = {key: answers for key, answers in own.items() if self.answers(*key) is None}
        if new:
            self.keep(table, new)

    def keep(self, table: str, answers: Mapping[tuple[str, str], Answers]) -> None:
        """Add answers to a table's file; processes that finish cells of one table at a time take turns."""
        self.work.mkdir(parents=True, exist_ok=True)
        with (self.work / f".{table}.answers.lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            path = self.results / f"{table}.parquet"
            write_answers(path, {**read_answers(path), **answers})

    def sweep(self) -> None:
        """Remove what killed runs left behind; what a living process works on stays."""
        for partial in self.work.glob(".*.partial"):
            if not _alive(int(partial.name.split(".")[-2])):
                shutil.rmtree(partial)

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
