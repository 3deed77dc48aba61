"""How cost grows: time over members, classes, rows and bytes, with the exponent that a straight line in logs gives.

    python -m benchmarks.speed.growth                  # all four
    python -m benchmarks.speed.growth --only classes   # members | classes | rows | checkpoint

Each size takes its turn in every round and the quickest of the rounds counts, so that a slow minute of the machine
does not bend the line. An exponent of 1 is cost in proportion to the size, 0 is cost that does not depend on it. Small
sizes are dominated by what every call costs, so the exponent is fitted to the upper half of the sizes; all are shown.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from benchmarks import ROOT
from benchmarks.speed.merging import copy_in_pieces, make_checkpoint
from benchmarks.speed.training import classifier
from hf_pct.flips.counts import count_flips
from hf_pct.merging.checkpoints.stream import merge_checkpoints
from hf_pct.methods.loss_modules import LogitDifferenceInhibitionLoss
from hf_pct.models.ensembles import Ensemble

Jobs = dict[float, Callable[[], object]]


def quickest(jobs: Jobs, rounds: int) -> list[float]:
    """Seconds of each job, the least of the rounds."""
    seconds = {size: float("inf") for size in jobs}
    for number in range(rounds + 1):
        for size, job in jobs.items():
            began = time.perf_counter()
            job()
            if number:  # the first round allocates
                seconds[size] = min(seconds[size], time.perf_counter() - began)
    return list(seconds.values())


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    half = len(sizes) // 2
    return float(np.polyfit(np.log(sizes[half:]), np.log(seconds[half:]), 1)[0])


def members() -> Jobs:
    """A live ensemble on one batch of 32 sentences of 14 tokens."""
    models = [classifier() for _ in range(16)]
    inputs = {
        "input_ids": torch.randint(1000, 2000, (32, 14)),
        "attention_mask": torch.ones(32, 14, dtype=torch.int64),
    }

    def run(count: int) -> None:
        chosen = models[0] if count == 1 else ensembles[count]
        with torch.inference_mode():
            chosen(**inputs)

    ensembles = {count: Ensemble(models[:count]).eval() for count in (2, 4, 8, 16)}
    return {count: lambda count=count: run(count) for count in (1, 2, 4, 8, 16)}  # type: ignore[misc]


def classes(top_k: int | None) -> Jobs:
    """Logit difference inhibition, forward and backward, on 256 rows."""
    loss = LogitDifferenceInhibitionLoss(top_k=top_k)

    def job(count: int) -> Callable[[], object]:
        new, reference = (torch.randn(256, count) for _ in range(2))
        labels = torch.randint(0, count, (256,))
        return lambda: loss(new.requires_grad_(), reference, labels).backward()

    return {count: job(count) for count in (10, 100, 1000, 10_000)}


def rows() -> Jobs:
    def job(count: int) -> Callable[[], object]:
        generator = np.random.default_rng(0)
        truth, old, new = (generator.integers(0, 60, count) for _ in range(3))
        return lambda: count_flips(old, new, truth)

    return {count: job(count) for count in (10**4, 10**5, 10**6, 10**7)}


def checkpoint(root: Path, work: Callable[[Path], object]) -> Jobs:
    """Work on two sharded checkpoints of so many GB, their files in the page cache where memory allows."""

    def job(size: float) -> Callable[[], object]:
        folder = root / f"{size:g}"
        for number, name in enumerate(("old", "new")):
            if not (folder / name).exists():
                make_checkpoint(folder / name, size, 4, number)

        def run() -> None:
            work(folder)
            shutil.rmtree(folder / "out")

        return run

    return {size: job(size) for size in (0.1, 0.5, 1.0, 2.0, 4.0)}


def merge(folder: Path) -> None:
    merge_checkpoints(folder / "old", folder / "new", folder / "out", alpha=0.4)


def copy(folder: Path) -> None:
    """What the disk itself asks for as many bytes."""
    copy_in_pieces(folder / "new", folder / "out")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("members", "classes", "rows", "checkpoint"))
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    print("| cost | over | sizes | milliseconds | exponent | expected |\n|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory(dir=build) as folder:
        kinds: dict[str, tuple[str, str, float, Callable[[], Jobs]]] = {
            "members": ("forward of a live ensemble", "members", 1, members),
            "classes": ("LDI over the top 10, forward and backward", "classes", 1, lambda: classes(10)),
            "all classes": ("LDI over all classes, forward and backward", "classes", 1, lambda: classes(None)),
            "rows": ("count_flips", "rows", 1, rows),
            "checkpoint": ("merging two checkpoints", "GB", 1, lambda: checkpoint(Path(folder), merge)),
            "copied checkpoint": ("copying one of them", "GB", 1, lambda: checkpoint(Path(folder), copy)),
        }
        for name, (cost, over, expected, make) in kinds.items():
            if options.only is None or name.endswith(options.only):
                jobs = make()
                seconds = quickest(jobs, options.rounds)
                shown = (", ".join(f"{size:g}" for size in jobs), ", ".join(f"{spent * 1e3:.3g}" for spent in seconds))
                slope = exponent(list(jobs), seconds)
                print(f"| {cost} | {over} | {shown[0]} | {shown[1]} | {slope:.2f} | {expected:g} |", flush=True)


if __name__ == "__main__":
    main()
