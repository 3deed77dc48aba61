"""How near ELODI's students come to their ensembles on the test rows, beside what a member more would be.

    python -m benchmarks.tables.student_gaps T2 T6 T16    # from logits in build/tables, which are not committed

A model's answer hangs on the gap between its two largest logits. So beside the distance of all logits the table shows
what a student makes of the ensemble's gap: the mean is what it lacks everywhere, the spread what differs from row to
row. The yardstick is each member beside the mean of the others: a model that no ensemble has taught.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np

from benchmarks.tables.specs import Table, read_table, table_path
from benchmarks.tables.store import LOGITS, TEST, Store

HEADERS = (
    "update", "students", "apart in logits", "a member", "ensemble's gap", "student's gap less it", "spread of that",
    "a member's less it", "spread of that", "other answers, %", "a member",
)  # fmt: skip


def nearness(model: np.ndarray, ensemble: np.ndarray) -> tuple[float, float, float, float]:
    """Root mean square of centred logits apart, mean and spread of the gaps' difference, share of other answers."""
    centred = [logits - logits.mean(-1, keepdims=True) for logits in (model, ensemble)]
    apart = float(np.sqrt(np.mean((centred[0] - centred[1]) ** 2)))
    first, second = np.argsort(-ensemble, axis=-1)[:, :2].T
    rows = np.arange(len(ensemble))
    gaps = [logits[rows, first] - logits[rows, second] for logits in (model, ensemble)]
    lacking = gaps[0] - gaps[1]
    return apart, float(lacking.mean()), float(lacking.std()), float((model.argmax(-1) != first).mean())


def gap_of(ensemble: np.ndarray) -> float:
    """The mean distance between the largest logit and the next."""
    largest = np.sort(ensemble, axis=-1)
    return float((largest[:, -1] - largest[:, -2]).mean())


def rest_of(members: Sequence[np.ndarray], left_out: int) -> np.ndarray:
    return np.mean([logits for at, logits in enumerate(members) if at != left_out], axis=0)


def describe(table: Table, store: Store) -> Iterable[str]:
    """One line for each row of the table whose two sides are students of models that stand in other cells."""
    for line in table.lines:
        ids = list(dict.fromkeys(chain.from_iterable(line.pairs.values())))
        specs = [table.cells[cell].spec for cell in ids]
        if not all(spec.get("method") == "elodi" and spec["members"] for spec in specs):
            continue
        missing = [cell for cell in table.closure(ids) if not (store.folder(cell) / LOGITS).is_file()]
        if missing:
            print(f"{table.name}: {line.name}: no logits of {missing[0]}, run the table here first", file=sys.stderr)
            continue
        students, singles, gaps = [], [], []
        for student in ids:
            members = [logits_of(store, cell) for cell in table.cells[student].spec["members"]]
            ensemble = np.mean(members, axis=0)
            gaps.append(gap_of(ensemble))
            students.append(nearness(logits_of(store, student), ensemble))
            singles += [nearness(members[at], rest_of(members, at)) for at in range(len(members))]
        (apart, lacking, spread, other), single = np.mean(students, axis=0), np.mean(singles, axis=0)
        values = (
            f"{apart:.2f}", f"{single[0]:.2f}", f"{np.mean(gaps):.2f}", f"{lacking:+.2f}", f"{spread:.2f}",
            f"{single[1]:+.2f}", f"{single[2]:.2f}", f"{100 * other:.1f}", f"{100 * single[3]:.1f}",
        )  # fmt: skip
        yield f"| {table.name}: {line.name} | {len(ids)} | {' | '.join(values)} |"


def logits_of(store: Store, cell: str) -> np.ndarray:
    with np.load(store.folder(cell) / LOGITS) as parts:
        return parts[TEST].astype(np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="+", help="tables with ELODI rows: T2, T3, T5, T6, T10, T14, T15, T16")
    tables = [read_table(table_path(name)) for name in parser.parse_args().tables]
    print(f"| {' | '.join(HEADERS)} |\n|{'---|' * len(HEADERS)}")
    for table in tables:
        lines = list(describe(table, Store()))
        if lines:
            print("\n".join(lines))
        else:
            print(f"{table.name}: no row of ELODI students whose logits are here", file=sys.stderr)


if __name__ == "__main__":
    main()
