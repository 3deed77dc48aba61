"""May new features search a gallery of the old model's? recall@1 before, without and after backfilling.

    python -m benchmarks.retrieval T31 T33          # or all: make bench-retrieval; goes on where it stopped
    python -m benchmarks.retrieval --report_only    # the table from benchmarks/results/retrieval.json

The models are cells of these tables. Half of the test rows are the gallery, the other half are the queries.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import ROOT
from benchmarks.tables.report import mean_interval
from benchmarks.tables.specs import Table, read_table, table_path
from benchmarks.tables.store import Store
from hf_pct.core.files import write_text
from hf_pct.flips.retrieval.compare import NEW_NEW, NEW_OLD, OLD_OLD, compare_retrieval
from hf_pct.flips.retrieval.embeddings import Embeddings

TABLES = ("T31", "T32", "T33")
RESULTS = ROOT / "benchmarks" / "results" / "retrieval.json"
REPORT = RESULTS.with_suffix(".md")
BATCH = 128


def search_table(table: Table, store: Store, known: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Train the cells of rows that are not known yet, then search: row -> seed -> what was found."""
    from benchmarks.tables.cells import run_cell
    from benchmarks.tables.queue import run_cells

    missing = [line for line in table.lines if set(known.get(line.name, ())) != {str(seed) for seed in line.pairs}]
    for line in missing:  # features need weights, which are not kept in the repository
        for cell in table.closure(line.cells()):
            if not store.has_weights(cell):
                print(f"{table.name}: {cell}", flush=True)
                run_cell(table.cells[cell], store)
    failed = run_cells(table, store, run_cell, processes=1)
    if failed:
        sys.exit("\n".join(f"{cell}: {reason}" for cell, reason in failed.items()))
    cells = {cell for line in missing for cell in line.cells()}
    embedded = {cell: embed(table, store, cell) for cell in sorted(cells)}
    found = {
        line.name: {str(seed): search(embedded[old], embedded[new]) for seed, (old, new) in line.pairs.items()}
        for line in missing
    }
    return {line.name: found.get(line.name) or known[line.name] for line in table.lines}


def search(old: tuple[Embeddings, Embeddings], new: tuple[Embeddings, Embeddings]) -> dict[str, Any]:
    """The report of one update, as a dict, from the gallery and the queries of both models."""
    return compare_retrieval(old[0], old[1], new[1], new[0]).to_dict()


def embed(table: Table, store: Store, cell: str) -> tuple[Embeddings, Embeddings]:
    """A cell's features of the gallery and of the queries."""
    from benchmarks.tables.inputs.models import kept_model
    from benchmarks.tables.inputs.tasks import load_task
    from hf_pct.models.run import collated, collect

    task = load_task(table.cells[cell].spec["data"])
    model, processor = kept_model(store.folder(cell))
    rows = task.dataset(task.test, task.names, processor)
    answers = collect(model, collated(rows, task.collator(processor), BATCH), len(rows), features=True)
    order = np.random.default_rng(0).permutation(len(rows))
    labels = [task.names[int(label)] for label in task.test.labels]
    parts = [np.sort(part) for part in np.array_split(order, 2)]
    gallery, queries = (
        Embeddings.from_arrays(
            [str(task.test.ids[i]) for i in part], [labels[i] for i in part], answers.features[part], cell
        )
        for part in parts
    )
    return gallery, queries


def to_markdown(results: dict[str, Any]) -> str:
    lines = [
        "| table | new model | seeds | recall@1 old-old | new-old | new-new | NFR of first hits, new-old "
        "| criterion |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for table, rows in results.items():
        for name, seeds in rows.items():
            runs = list(seeds.values())
            recalls = [_mean([seed["recall"][kind]["1"] for seed in runs]) for kind in (OLD_OLD, NEW_OLD, NEW_NEW)]
            broken = _mean([seed["flips"][NEW_OLD]["nfr"] for seed in runs])
            held = f"{sum(seed['criterion'] for seed in runs)} of {len(runs)}"
            lines.append(f"| {table} | {name} | {len(runs)} | {' | '.join(recalls)} | {broken} | {held} |")
    return "\n".join(lines) + "\n"


def _mean(rates: list[float]) -> str:
    mean, half = mean_interval([100 * rate for rate in rates])
    return f"{mean:.2f} ± {half:.2f}"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", default=list(TABLES), help="T31: CIFAR-10, T32 and T33: Grocery Store")
    parser.add_argument("--report_only", action="store_true", help="draw the table, compute nothing")
    options = parser.parse_args(arguments)
    results = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    for name in () if options.report_only else options.tables:
        results[name] = search_table(read_table(Path(table_path(name))), Store(), results.get(name, {}))
        write_text(RESULTS, json.dumps(results, indent=1, sort_keys=True) + "\n", overwrite=True)
    text = to_markdown(results)
    write_text(REPORT, text, overwrite=True)
    print(text)


if __name__ == "__main__":
    main()
