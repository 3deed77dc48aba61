"""Comparing large files: `make bench-large`. Peak memory and time of four cases, beside reading with pyarrow.

Bar: every case stays under 1.5 GB. What a comparison cannot avoid is reading ids, labels, answers and logits once, in
blocks; times are ratios to that. Files are made with few distinct blocks, so that a small disk holds them.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

LIMIT = 1.5e9
# rows, logits per row (0: answers only), share of rows that the new model breaks or fixes
CASES = {
    "10^7 rows, answers only": (10**7, 0, 0.02),
    "10^7 rows, 10 logits": (10**7, 10, 0.02),
    "10^6 rows, 1,000 logits": (10**6, 1000, 0.02),
    "10^7 rows, 2.3 million flips": (10**7, 0, 0.23),
}
READ = """
import sys, pyarrow.parquet as pq
for path in sys.argv[1:]:
    names = pq.read_schema(path).names
    needed = [n for n in names if n != "logits"]
    pq.read_table(path, columns=needed, read_dictionary=["label", "prediction"])
    if "logits" in names:
        file = pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False)
        for batch in file.iter_batches(8192, columns=["logits"]):
            pass
"""
COMPARE = """
import sys, hf_pct.cli
sys.exit(hf_pct.cli.main(["compare", sys.argv[1], sys.argv[2], "--output_dir", sys.argv[3]]))
"""


def write(path: Path, rows: int, width: int, flips: float, new: bool) -> None:
    """A table of answers, written a group of rows at a time."""
    classes = width or 50
    names = pa.array([f"class_{number}" for number in range(classes)])
    block = 100_000 if width <= 100 else 10_000
    rng = np.random.default_rng(3)
    writer = None
    for start in range(0, rows, block):
        labels = rng.integers(0, classes, block).astype(np.int32)
        flipped = rng.random(block) < flips
        old_wrong = flipped & (rng.random(block) < 0.5)
        wrong = (flipped & ~old_wrong) if new else old_wrong
        answers = np.where(wrong, (labels + 1) % classes, labels).astype(np.int32)
        columns = {
            "id": pa.array(np.arange(start, start + block)),
            "label": pa.DictionaryArray.from_arrays(pa.array(labels), names),
            "prediction": pa.DictionaryArray.from_arrays(pa.array(answers), names),
            "channel": pa.DictionaryArray.from_arrays(pa.array(labels % 3), pa.array(["app", "phone", "web"])),
        }
        if width:
            logits = rng.normal(size=(block, width)).astype(np.float32).round(1)
            logits[np.arange(block), answers] += 8
            columns["logits"] = pa.FixedSizeListArray.from_arrays(pa.array(logits.ravel()), width)
        table = pa.table(columns)
        if writer is None:
            metadata = {"format_version": 1, "label_names": names.to_pylist(), "provenance": {}}
            schema = table.schema.with_metadata({b"hf_pct": json.dumps(metadata)})
            writer = pq.ParquetWriter(path, schema, compression="zstd")
        writer.write_table(table.cast(writer.schema))
    if writer is not None:
        writer.close()


def run(code: str, *arguments: str) -> tuple[float, int]:
    """Seconds and peak bytes of a process of its own."""
    wrapped = (
        "import sys\ntry:\n    exec(compile(sys.argv.pop(1), 'run', 'exec'), {'__name__': '__main__'})\n"
        "finally:\n    status = open('/proc/self/status').read()\n"
        "    print('PEAK', status.split('VmHWM:')[1].split()[0])"
    )
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", wrapped, code, *arguments], capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(f"exit {done.returncode}: {done.stderr[-2000:]}")
    return seconds, int(done.stdout.rsplit("PEAK", 1)[1]) * 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, help="where to make the files; a temporary folder by default")
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--scale", type=float, default=1.0, help="share of the rows, to see that it runs")
    args = parser.parse_args()
    missed = False
    print("| case | files, MB | reading, s | compare, s | ratio | reading, peak MB | compare, peak MB | report, MB |")
    print("|---|---|---|---|---|---|---|---|")
    for name in args.cases:
        rows, width, flips = CASES[name]
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            paths = [Path(folder) / "old.parquet", Path(folder) / "new.parquet"]
            for path in paths:
                write(path, int(rows * args.scale), width, flips, new=path.name == "new.parquet")
            size = sum(path.stat().st_size for path in paths) / 1e6
            files = [str(path) for path in paths]
            read_seconds, read_peak = run(READ, *files)
            seconds, peak = run(COMPARE, *files, f"{folder}/out")
            report = (Path(folder) / "out" / "flip_report.json").stat().st_size / 1e6
        missed |= peak > LIMIT
        numbers = f"{read_seconds:.1f} | {seconds:.1f} | {seconds / read_seconds:.1f} | {read_peak / 1e6:.0f}"
        print(f"| {name} | {size:.0f} | {numbers} | {peak / 1e6:.0f} | {report:.1f} |", flush=True)
    print(f"\npeak of every case {'above' if missed else 'under'} {LIMIT / 1e9} GB")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
