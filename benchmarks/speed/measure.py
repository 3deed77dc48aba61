"""The measuring room against bare NumPy, scikit-learn and pyarrow: `make bench-measure`.

Bars: `count_flips` on ten million rows takes at most twice the three NumPy comparisons that it cannot avoid, is at
    least five times faster than two scikit-learn confusion matrices, and needs at most three bytes per row; `hf-pct
    compare` on two files of a million rows takes at most three times as long as reading them with pyarrow, and never
    loads torch. Exits with 1 when a bar is missed.
"""

import argparse
import subprocess
import sys
import tempfile
import tracemalloc
from pathlib import Path

import numpy as np

from benchmarks.speed.timing import interleave, ratio, verdict
from hf_pct import Predictions, compare, count_flips

READ = "import sys, pyarrow.parquet as pq\nfor path in sys.argv[1:]:\n    pq.read_table(path)"
COMPARE = (
    "import sys, hf_pct.cli\n"
    "code = hf_pct.cli.main(['compare', sys.argv[1], sys.argv[2]])\n"
    "sys.exit(9 if 'torch' in sys.modules else code)"
)


def bench_counts(rows: int, rounds: int) -> list[tuple[str, str, str, str]]:
    from sklearn.metrics import confusion_matrix

    rng = np.random.default_rng(0)
    truth = rng.integers(0, 60, rows)
    old, new = (np.where(rng.random(rows) < 0.9, truth, rng.integers(0, 60, rows)) for _ in range(2))

    def comparisons() -> tuple[np.ndarray, ...]:
        return old == truth, new == truth, old == new

    seconds = interleave({"numpy": comparisons, "ours": lambda: count_flips(old, new, truth)}, rounds)
    matrices = interleave(
        {
            "sklearn": lambda: (confusion_matrix(truth, old), confusion_matrix(truth, new)),
            "ours": lambda: count_flips(old, new, truth),
        },
        max(rounds // 3, 1),
    )
    tracemalloc.start()
    count_flips(old, new, truth)
    bytes_a_row = tracemalloc.get_traced_memory()[1] / rows
    tracemalloc.stop()
    against_numpy, against_sklearn = ratio(seconds, "ours", "numpy"), ratio(matrices, "sklearn", "ours")
    what = f"count_flips, {rows:,} rows"
    return [
        (what, "time over three NumPy comparisons", f"{against_numpy} of 2.00x", verdict(against_numpy.median, 2)),
        (what, "two scikit-learn confusion matrices over it", f"{against_sklearn}, at least 5.00x",
         verdict(against_sklearn.median, 5, at_least=True)),
        (what, "extra memory", f"{bytes_a_row:.3f} bytes per row of 3", verdict(bytes_a_row, 3)),
    ]  # fmt: skip


def write_tables(folder: Path, rows: int) -> dict[str, tuple[str, str]]:
    """Two models' answers, as two runs of `hf-pct predict` leave them, and with the second in another order."""
    rng = np.random.default_rng(0)
    names = [f"intent_{index}" for index in range(60)]
    ids = np.array([f"utterance-{index:08d}" for index in range(rows)])
    truth = rng.integers(0, 60, rows)
    old = np.where(rng.random(rows) < 0.90, truth, rng.integers(0, 60, rows))
    new = np.where(rng.random(rows) < 0.95, old, rng.integers(0, 60, rows))
    order = rng.permutation(rows)
    for name, at, answers in (("old", slice(None), old), ("new", slice(None), new), ("shuffled", order, new)):
        table = Predictions(ids[at].tolist(), truth[at], answers[at], label_names=names)
        table.save(folder / f"{name}.parquet")
    paths = {name: str(folder / f"{name}.parquet") for name in ("old", "new", "shuffled")}
    return {"same order": (paths["old"], paths["new"]), "other order": (paths["old"], paths["shuffled"])}


def bench_compare(rows: int, rounds: int) -> list[tuple[str, str, str, str]]:
    import pyarrow.parquet as pq

    def process(code: str, paths: tuple[str, str]) -> None:
        subprocess.run([sys.executable, "-c", code, *paths], check=True, stdout=subprocess.DEVNULL)

    results = []
    with tempfile.TemporaryDirectory() as folder:
        for order, paths in write_tables(Path(folder), rows).items():
            whole = interleave(
                {"read": lambda p=paths: process(READ, p), "ours": lambda p=paths: process(COMPARE, p)}, rounds
            )
            inside = interleave(
                {
                    "read": lambda p=paths: [pq.read_table(path) for path in p],
                    "ours": lambda p=paths: compare(*map(Predictions.load, p)).to_text(),
                },
                rounds * 2,
            )
            command, call = ratio(whole, "ours", "read"), ratio(inside, "ours", "read")
            what = f"compare, 2 x {rows:,} rows, {order}"
            bar = verdict(command.median, 3)
            results.append((what, "`hf-pct compare` over a process that reads the files", f"{command} of 3.00x", bar))
            results.append((what, "without starting Python: load and compare over reading", str(call), "no bar"))
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count_rows", type=int, default=10_000_000)
    parser.add_argument("--file_rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    results = bench_counts(args.count_rows, args.rounds) + bench_compare(args.file_rows, args.rounds)
    print("| what | measure | found (median, middle half) | bar |\n|---|---|---|---|")
    for row in results:
        print(f"| {' | '.join(row)} |")
    return int(any(row[-1] == "MISSED" for row in results))


if __name__ == "__main__":
    sys.exit(main())
