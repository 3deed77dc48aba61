"""What each alpha of a sweep undoes: were merging blind, it would undo as many positive flips as negative ones.

python -m benchmarks.tables.curves massive    # from the committed answers; means over seeds
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np

from benchmarks.tables.specs import Line, Table, read_table, table_path
from benchmarks.tables.store import TEST, Store
from hf_pct.flips.choice.curve import AlphaCurve

HEADERS = ("alpha", "negative flips undone", "positive flips undone", "NFR", "proportional NFR", "seeds")


def curve_of(line: Line, seed: int, store: Store, part: str = TEST) -> AlphaCurve | None:
    """Accuracy and flips along alpha on one part of the data; nothing where the old or the new cell has no answers."""
    old, new = (store.answers(cell, part) for cell in line.pairs[seed])
    if old is None or new is None:
        return None
    swept = {alpha: store.answers(cell, part) for alpha, cell in line.sweeps.get(seed, {}).items()}
    right = {alpha: cell.answers == cell.labels for alpha, cell in {0.0: new, **swept}.items() if cell is not None}
    return AlphaCurve.of(old.answers == old.labels, right)


def undone(table: Table, store: Store) -> Iterator[str]:
    """A Markdown table for each row with a sweep that was measured at every alpha at some seed."""
    for line in (line for line in table.lines if line.sweeps):
        curves = [curve_of(line, seed, store) for seed in line.pairs]
        length = len({0.0, *next(iter(line.sweeps.values()))})
        points = [curve.undone() for curve in curves if curve is not None and len(curve.alphas) == length]
        if not points:
            continue
        yield f"{line.name}\n\n| {' | '.join(HEADERS)} |\n|{'---|' * len(HEADERS)}"
        for at in range(length):
            mean = {key: float(np.mean([seed[at][key] for seed in points])) for key in points[0][at]}
            shares = f"{mean['negative_undone']:.2f} | {mean['positive_undone']:.2f}"
            rates = f"{100 * mean['nfr']:.2f} | {100 * mean['proportional_nfr']:.2f}"
            yield f"| {mean['alpha']:.2f} | {shares} | {rates} | {len(points)} |"
        yield ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", help="a table with sweeps: massive")
    table = read_table(table_path(parser.parse_args().table))
    print("\n".join(undone(table, Store())))


if __name__ == "__main__":
    main()
