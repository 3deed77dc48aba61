"""What each table takes in two processes: from nothing, and after the tables before it, whose models it shares.

    python -m benchmarks.tables.costs

Minutes come from the processor time that the answers of the cells remember, whatever else the machine did meanwhile.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from benchmarks.tables.report import known_seconds
from benchmarks.tables.specs import Table, all_tables
from benchmarks.tables.store import Store

PROCESSES = 2


def costs(tables: Iterable[Table], store: Store) -> str:
    """A Markdown table; a cell that several tables have counts for the first of them alone, as when all are run."""
    headers = ["table", "what", "cells", "minutes alone", "minutes after the tables above it"]
    lines = [f"| {' | '.join(headers)} |", "|" + "---|" * len(headers)]
    made: set[str] = set()
    for table in tables:
        known = known_seconds(table, store)
        new = sum(seconds for cell, seconds in known.items() if cell not in made)
        made |= known.keys()
        cells = f"{len(known)} of {len(table.cells)}"
        minutes = [f"{seconds / 60 / PROCESSES:.0f}" for seconds in (sum(known.values()), new)]
        lines.append(f"| {' | '.join([table.name, table.title, cells, *minutes])} |")
    return "\n".join(lines)


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    print(costs(all_tables(), Store()))


if __name__ == "__main__":
    main()
