"""Runs the cells that are missing, each as soon as what it needs is there, in processes of one thread each."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait

from benchmarks import ROOT
from benchmarks.tables.specs import Cell, Table
from benchmarks.tables.store import Store

Run = Callable[[Cell, Store], None]
BUSY_WAIT = 5.0  # seconds until a cell that another run works on is looked at again


def plan(table: Table, store: Store) -> list[str]:
    """The cells to compute, what is needed first: those of the rows without answers, and the weights they need.

    A cell with answers is computed again only when its weights are gone and an unfinished cell is made from them.
    """
    wanted: dict[str, None] = {}

    def want(cell: str) -> None:
        if cell in wanted:
            return
        if not store.has_weights(cell):
            for need in table.cells[cell].needs:
                if not store.has_weights(need):
                    want(need)
        wanted[cell] = None

    for line in table.lines:
        for cell in line.cells():
            if not store.finished(cell):
                want(cell)
    return list(wanted)


def work(table: str, cell: Cell, store: Store, run: Run) -> str:
    """Compute one cell in this process; `busy` when another process is at it. Never raises: errors come back."""
    try:
        with store.lock(cell.id) as mine:
            if not mine:
                return "busy"
            if not store.has_weights(cell.id):
                run(cell, store)
            store.publish(table, cell.id)
        return "done"
    except Exception as error:
        log = store.work / f"{cell.id}.failed.txt"
        log.write_text(traceback.format_exc(), encoding="utf-8")
        return f"{type(error).__name__}: {str(error).strip() or 'no message'} (traceback: {log.name})"


def run_cells(
    table: Table, store: Store, run: Run, processes: int = 2, say: Callable[[str], None] = print
) -> dict[str, str]:
    """Compute what `plan` says; returns the cells that failed with the reason. Those made from them are left out."""
    store.sweep()
    cells = plan(table, store)
    left = dict.fromkeys(cells)
    failed: dict[str, str] = {}
    done: set[str] = set()
    running: dict[Future[str], str] = {}
    pool = workers(processes)
    try:
        while left or running:
            for cell in [name for name in left if len(running) < processes and _ready(table, name, left, running)]:
                if len(running) >= processes:
                    break
                del left[cell]
                broken = [need for need in table.cells[cell].needs if need in failed]
                if broken:
                    failed[cell] = f"not computed, because {broken[0]} failed"
                    continue
                running[pool.submit(work, table.name, table.cells[cell], store, run)] = cell
            if not running:
                continue
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                cell, outcome = running.pop(future), future.result()
                if outcome == "busy":
                    left[cell] = None
                    time.sleep(BUSY_WAIT)
                elif outcome == "done":
                    done.add(cell)
                    say(f"{len(done)} of {len(cells)}: {cell}")
                else:
                    failed[cell] = outcome
                    say(f"FAILED {cell}: {outcome}")
    except BaseException:
        stop(pool)
        raise
    pool.shutdown()
    return failed


def _ready(table: Table, cell: str, left: Iterable[str], running: dict[Future[str], str]) -> bool:
    pending = {*left, *running.values()}
    return not pending.intersection(table.cells[cell].needs)


def workers(processes: int) -> ProcessPoolExecutor:
    """Processes of one thread each that find this folder's modules, and end with the process that started them."""
    context = multiprocessing.get_context("spawn")  # a fork would share torch's threads
    return ProcessPoolExecutor(processes, mp_context=context, initializer=_begin, initargs=(str(ROOT), os.getpid()))


def stop(pool: ProcessPoolExecutor) -> None:
    """End the workers at once: what they have not finished is in folders that no one takes for finished."""
    for process in list((pool._processes or {}).values()):
        process.terminate()
    pool.shutdown(wait=False, cancel_futures=True)


def _begin(root: str, parent: int) -> None:
    """What a worker does first: it finds the engine, keeps to one thread, and ends when the process above it does."""
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    if root not in sys.path:
        sys.path.insert(0, root)
    os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)
