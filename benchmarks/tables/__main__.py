"""The papers' tables on real data: train what is missing, then draw the table from the cells' answers.

    python -m benchmarks.tables T1                  # or make bench-T1; goes on where it stopped
    python -m benchmarks.tables T1 --report_only    # the table from the answers that are there
    python -m benchmarks.tables T1 --against none   # and how each row differs from this one, seed by seed
    python -m benchmarks.tables T1 --quick          # one seed, one epoch, a few hundred rows, in a temporary folder

A table is a file in `configs/` beside this one; `benchmarks/README.md` says how to add one. Exits with 1 when a cell
failed; the others are computed all the same.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.tables.queue import plan, run_cells
from benchmarks.tables.report import known_seconds, summarise, to_differences, write_report
from benchmarks.tables.specs import Table, read_table, table_path
from benchmarks.tables.store import Store


def estimate(table: Table, store: Store, cells: list[str], processes: int) -> str:
    """How much is left; minutes as soon as a cell of the table has been timed."""
    known = known_seconds(table, store)
    left = f"{table.name}: {len(cells)} of {len(table.cells)} cells to compute in {processes} processes"
    if not cells or not known:
        return left
    minutes = float(np.mean(list(known.values()))) * len(cells) / processes / 60
    return f"{left}, about {minutes:.0f} minutes at the mean of those that are there"


def run_table(table: Table, store: Store, processes: int, report_only: bool) -> int:
    failed: dict[str, str] = {}
    if not report_only:
        from benchmarks.tables.cells import run_cell

        began = time.monotonic()
        print(estimate(table, store, plan(table, store), processes), flush=True)
        failed = run_cells(table, store, run_cell, processes, lambda line: print(line, flush=True))
        print(f"{table.name}: {(time.monotonic() - began) / 60:.1f} minutes", flush=True)
    print(write_report(table, store))
    for cell, reason in failed.items():
        print(f"{cell}: {reason}", file=sys.stderr)
    return int(bool(failed))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", help="T1, T2 and so on: a file in benchmarks/tables/configs")
    parser.add_argument("--processes", type=int, default=2, help="how many cells are computed side by side")
    parser.add_argument("--report_only", action="store_true", help="draw the table, compute nothing")
    parser.add_argument("--against", metavar="ROW", help="as --report_only, with differences from this row below it")
    parser.add_argument("--quick", action="store_true", help="see that the table runs; nothing is kept")
    options = parser.parse_args(arguments)
    table = read_table(table_path(options.table), options.quick)
    if options.against and options.quick:
        parser.error("--against compares the rows of a whole table: leave out --quick")
    if not options.quick:
        code = run_table(table, Store(), options.processes, options.report_only or bool(options.against))
        if options.against:
            print(to_differences(summarise(table, Store()), options.against))
        return code
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "work", Path(folder) / "results")
        return run_table(table, store, options.processes, report_only=False)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a polite end is the same as Ctrl-C
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("Stopped: nothing is half written, and the next run goes on at the next cell.")
