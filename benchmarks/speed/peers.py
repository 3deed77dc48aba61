"""The kit beside what people use instead, in one run, each as a ratio with its spread.

    python -m benchmarks.speed.peers                              # stock Trainer, scikit-learn, the loop for Fisher
    python -m benchmarks.speed.peers --mergekit                   # also mergekit, in an environment of its own
    python -m benchmarks.speed.peers --only training

training  a step of each method over a step of the stock `Trainer`, beside the cost table of the BCWI talk
flips     two scikit-learn confusion matrices over `count_flips`
fisher    the textbook loop over single samples against the batched Fisher
merge     mergekit's linear merge over `hf-pct merge` of the same files, both as processes of their own

mergekit is installed into `build/peers/mergekit` and nowhere else; nothing that it needs becomes a dependency.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import datasets
import numpy as np
import torch

from benchmarks import ROOT
from benchmarks.speed import merging, training
from benchmarks.speed.measure import bench_counts

BUILD = ROOT / "build"
TALK = {  # Schumann et al., training time over plain fine-tuning
    "EWC": "1.9",
    "prior weight decay": "1.1",
    "Mixout": "1.6",
    "focal distillation, live": "1.3 (distillation)",
    "no treatment, again": "1 (BCWI)",
}


def training_rows(rounds: int) -> list[tuple[str, str, str, str]]:
    datasets.disable_progress_bars()
    with tempfile.TemporaryDirectory() as folder:
        trainers = training.build(Path(folder), 32, rounds + 4, rows=512)
        seconds = training.measure(trainers, rounds, lambda line: print(line, file=sys.stderr, flush=True))
    plain = np.array(seconds.pop("no treatment"))
    lines = []
    for name, values in seconds.items():
        low, middle, high = np.quantile(np.array(values) / plain, [0.25, 0.5, 0.75])
        ratio = f"{middle:.2f}x ({low:.2f} to {high:.2f})"
        lines.append((f"training step, {name}", "stock Trainer's step", ratio, TALK.get(name, "")))
    return lines


def flips_rows() -> list[tuple[str, str, str, str]]:
    return [(what, measure, ratio, "") for what, measure, ratio, _ in bench_counts(10_000_000, 9)]


def fisher_rows() -> list[tuple[str, str, str, str]]:
    measured = merging.measure_fisher(128, 5)
    apart = f"largest relative difference {measured['relative_difference']:.1e}"
    return [("batched Fisher", "loop over single samples", str(measured["batched_over_loop_rounds"]), apart)]


def merge_rows(size_gb: float) -> list[tuple[str, str, str, str]]:
    measured = merging.measure_disk(size_gb, 5, str(mergekit_python()))
    copied, mergekit = measured["merge_over_copy_rounds"], measured["merge_over_mergekit_rounds"]
    return [
        (f"merging {size_gb:g} GB", "a plain copy of one checkpoint", str(copied), ""),
        (f"`hf-pct merge`, {size_gb:g} GB, a process", "mergekit, linear", str(mergekit), ""),
    ]


def mergekit_python() -> Path:
    """The Python of mergekit's own environment, made on the first call."""
    folder = BUILD / "peers" / "mergekit"
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        limits = BUILD.parent / "constraints.txt"  # the same torch, so that it is the merging that is compared
        torch_line = next(line for line in limits.read_text().splitlines() if line.startswith("torch=="))
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", "mergekit", torch_line], check=True)
    return python


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("training", "flips", "fisher", "merge"))
    parser.add_argument("--mergekit", action="store_true", help="install mergekit in its own environment and run it")
    parser.add_argument("--rounds", type=int, default=24, help="steps that each training method takes")
    parser.add_argument("--size_gb", type=float, default=2.0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    parts = {
        "training": lambda: training_rows(options.rounds),
        "flips": flips_rows,
        "fisher": fisher_rows,
        "merge": lambda: merge_rows(options.size_gb),
    }
    print("| the kit | against | found (median, middle half) | beside it |\n|---|---|---|---|", flush=True)
    for name, rows in parts.items():
        if options.only == name or (options.only is None and (name != "merge" or options.mergekit)):
            for row in rows():
                print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
