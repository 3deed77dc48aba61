"""From the answers of the cells to a table: means over seeds with 95 % t-intervals, as Markdown and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import special

from benchmarks.tables.curves import curve_of
from benchmarks.tables.policies import decided
from benchmarks.tables.specs import Line, Table
from benchmarks.tables.store import DEV, Answers, Store
from hf_pct.core.files import write_text
from hf_pct.flips.counts import count_flips
from hf_pct.merging.selection import Contract, select_alpha

COLUMNS = {
    "old_error": "error rate old",
    "new_error": "error rate new",
    "nfr": "NFR",
    "nfr_change": "change of NFR",
    "relative_nfr": "relative NFR",
}
GROWN_COLUMNS = {
    "nfr_to_added": "NFR to added classes",
    "new_error_all": "error rate new, all classes",
}


def mean_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """The mean, and half the width of its t-interval; NaN for a single value, which says nothing about spread."""
    mean, count = float(np.mean(values)), len(values)
    if count < 2:
        return mean, math.nan
    quantile = float(special.stdtrit(count - 1, (1 + confidence) / 2))
    return mean, quantile * float(np.std(values, ddof=1)) / math.sqrt(count)


def measure(old: Answers, new: Answers) -> dict[str, float]:
    """The numbers of one update, as fractions.

    Flips and both error rates are of the rows whose class the old model knows. Where the new one knows more,
    `nfr_to_added` is the part of NFR whose rows it takes for a class that the old one does not know, and
    `new_error_all` its error rate on all rows.
    """
    if not (np.array_equal(old.ids, new.ids) and np.array_equal(old.labels, new.labels)):
        raise ValueError("The two cells answer different rows: their data differ in name, size or seed.")
    known = np.isin(old.labels, old.classes)
    counts = count_flips(old.answers[known], new.answers[known], old.labels[known])
    broken = known & (old.answers == old.labels) & (new.answers != new.labels)
    return {
        "old_error": counts.old_error_rate,
        "new_error": counts.new_error_rate,
        "nfr": counts.nfr,
        "relative_nfr": counts.relative_nfr,
        "nfr_to_added": float((broken & ~np.isin(new.answers, old.classes)).sum() / max(counts.total, 1)),
        "new_error_all": float((new.answers != new.labels).mean()),
        "rows": float(counts.total),
    }


def measure_chain(versions: Sequence[Answers]) -> dict[str, float]:
    """The numbers of several updates in a row: errors of the first and of the last version, flips of all updates.

    `nfr` is the sum over the updates. What independent models would show is not known of a chain.
    """
    if len(versions) == 2:
        return measure(*versions)
    steps = [measure(old, new) for old, new in pairwise(versions)]
    ends = measure(versions[0], versions[-1])
    return {**ends, "nfr": sum(step["nfr"] for step in steps), "relative_nfr": math.nan}


def summarise(table: Table, store: Store) -> list[dict[str, Any]]:
    """One entry a line of the table; seeds whose cells are missing are left out and counted."""
    entries = []
    for line in table.lines:
        seeds = [seed for seed in line.pairs if all(map(store.finished, shown_cells(line, seed, store)))]
        per_seed = {seed: _numbers(table, store, line, seed) for seed in seeds}
        entry: dict[str, Any] = {"name": line.name, "seeds": seeds, "of": len(line.pairs), "per_seed": per_seed}
        for key in (*COLUMNS, *GROWN_COLUMNS, "seconds", "alpha"):
            if key == "nfr_change":
                continue  # known when all lines are
            values = [numbers[key] for numbers in per_seed.values()]
            # a cost is unknown where an answer table came without those of the cells behind it
            usable = bool(values) and not any(math.isnan(value) for value in values)
            entry[key] = mean_interval(values) if usable else None
        entry["added_classes"] = any(numbers["rows"] < numbers["all_rows"] for numbers in per_seed.values())
        entries.append(entry)
    named = {entry["name"]: entry for entry in entries}
    for entry, line in zip(entries, table.lines, strict=True):
        changed = None if line.against == line.name else difference(entry, named[line.against], "nfr")
        entry |= {"against": line.against, "nfr_change": changed}
    return entries


def difference(entry: dict[str, Any], other: dict[str, Any], key: str) -> tuple[float, float] | None:
    """How much more of `key` one line has than another, seed by seed; nothing without a seed that both have.

    Seeds of two lines often share an old model, so that this interval is narrower than two beside each other suggest.
    """
    seeds = [seed for seed in entry["seeds"] if seed in other["per_seed"]]
    values = [entry["per_seed"][seed][key] - other["per_seed"][seed][key] for seed in seeds]
    return mean_interval(values) if values else None


def _numbers(table: Table, store: Store, line: Line, seed: int) -> dict[str, float]:
    shown = shown_cells(line, seed, store)
    versions = [_kept(store, cell) for cell in shown]
    numbers = measure_chain(decided(versions, line.policy) if line.policy else versions)
    needed = table.closure(shown)
    known = all(store.finished(cell) for cell in needed)
    seconds = sum(_kept(store, cell).seconds for cell in needed) if known else math.nan
    newest = versions[-1]
    return {**numbers, "seconds": seconds, "alpha": newest.alpha, "all_rows": float(len(newest.labels))}


def _kept(store: Store, cell: str) -> Answers:
    answers = store.answers(cell)
    if answers is None:
        raise KeyError(f"{cell} has no answers in {store.results.name}/")
    return answers


def chosen_pair(line: Line, seed: int, store: Store) -> tuple[str, str]:
    """The old and the new cell of a line; with a sweep, the one that development rows choose."""
    old, new = line.pairs[seed]
    curve = curve_of(line, seed, store, DEV) if line.sweeps else None
    if curve is None or len(curve.alphas) < 2:
        return old, new
    alpha = select_alpha(curve, Contract(risk=None)).alpha
    return old, line.sweeps[seed].get(alpha, new)


def shown_cells(line: Line, seed: int, store: Store) -> list[str]:
    """All cells whose answers a line shows: the old and the new one, or with a policy every version."""
    return line.chains[seed] if line.policy else list(chosen_pair(line, seed, store))


def known_seconds(table: Table, store: Store) -> dict[str, float]:
    """The processor time of each cell of the table that is there; all of them together are a run from nothing."""
    seconds = {cell: _kept(store, cell).seconds for cell in table.cells if store.finished(cell)}
    return {cell: cost for cell, cost in seconds.items() if not math.isnan(cost)}


def to_markdown(table: Table, entries: Sequence[dict[str, Any]], seconds: float) -> str:
    """The table for people, in percent; `seconds` is what all of its cells cost."""
    grown = any(entry["added_classes"] for entry in entries)
    columns = {**COLUMNS, **GROWN_COLUMNS} if grown else COLUMNS
    headers = ["update", "seeds", *columns.values(), "cost, s"]
    lines = [f"| {' | '.join(headers)} |", "|" + "---|" * len(headers)]
    for entry in entries:
        without = () if entry["added_classes"] else GROWN_COLUMNS  # nothing to say beside the other columns
        shown = [
            "-" if key in without else _shown(entry[key], 100.0, 2, signed=key == "nfr_change") for key in columns
        ]
        alphas = [numbers["alpha"] for numbers in entry["per_seed"].values()]
        chosen = [] if not alphas or any(map(math.isnan, alphas)) else [f"alpha {', '.join(f'{a:g}' for a in alphas)}"]
        name = f"{entry['name']} ({chosen[0]})" if chosen else entry["name"]
        cells = [name, f"{len(entry['seeds'])} of {entry['of']}", *shown, _shown(entry["seconds"], 1.0, 0)]
        lines.append(f"| {' | '.join(cells)} |")
    note = (
        "Percent, means over seeds with 95 % t-intervals. The change of NFR is from the untreated row that the "
        "table's file names, seed by seed, in points. Relative NFR is NFR over what independent models would show. "
        "Cost is the processor time of every model that the row needs, once for each seed, members and old model "
        "included, although rows and tables share them."
    )
    if any(len(chain) > 2 for line in table.lines for chain in line.chains.values()):
        note += " Of a chain, error rates are of its first and last version, and NFR is the sum over its updates."
    grown_note = " Flips are counted on the rows whose class the old model knows." if grown else ""
    total = f"All models of the table, each counted once, took {seconds / 60:.0f} minutes of processor time."
    if not seconds:
        total = "The processor time of these models was not recorded."
    head = f"# {table.name}: {table.title}\n\nAnswers to {table.paper}. {table.caption}"
    return "\n\n".join([head, "\n".join(lines), note + grown_note, total]) + "\n"


def to_differences(entries: Sequence[dict[str, Any]], against: str) -> str:
    """How every update differs from one of them in NFR and in errors, seed by seed, as Markdown in points."""
    named = {entry["name"]: entry for entry in entries}
    if against not in named:
        raise SystemExit(f"There is no row {against!r}: expected one of {', '.join(map(repr, named))}.")
    columns = {"nfr": "NFR", "new_error": "error rate new"}
    headers = ["update", *(f"{title}, less that of {against!r}" for title in columns.values())]
    lines = [f"| {' | '.join(headers)} |", "|" + "---|" * len(headers)]
    for name, entry in named.items():
        if name != against:
            shown = [_shown(difference(entry, named[against], key), 100.0, 2, signed=True) for key in columns]
            lines.append(f"| {name} | {' | '.join(shown)} |")
    return "\n".join(lines) + "\n"


def _shown(value: tuple[float, float] | None, scale: float, digits: int, signed: bool = False) -> str:
    if value is None:
        return "-"
    mean, half = value[0] * scale, value[1] * scale
    shown = f"{mean:{'+' if signed else ''}.{digits}f}"
    return shown if math.isnan(half) else f"{shown} ± {half:.{digits}f}"


def write_report(table: Table, store: Store) -> str:
    """`<table>.md` and `<table>.json` beside the cells; returns the Markdown."""
    entries = summarise(table, store)
    seconds = sum(known_seconds(table, store).values())
    text = to_markdown(table, entries, seconds)
    store.results.mkdir(parents=True, exist_ok=True)
    write_text(store.results / f"{table.name}.md", text, overwrite=True)
    cells = [{seed: shown_cells(line, seed, store) for seed in line.pairs} for line in table.lines]
    content = {
        "table": table.name, "title": table.title, "paper": table.paper, "caption": table.caption,
        "total_seconds": seconds,
        "rows": [{**entry, "cells": pairs} for entry, pairs in zip(entries, cells, strict=True)],
    }  # fmt: skip
    written = json.dumps(_without_nan(content), indent=1, allow_nan=False) + "\n"
    write_text(store.results / f"{table.name}.json", written, overwrite=True)
    return text


def _without_nan(value: Any) -> Any:
    """JSON has no NaN: null stands for what could not be computed."""
    if isinstance(value, dict):
        return {key: _without_nan(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(entry) for entry in value]
    return None if isinstance(value, float) and math.isnan(value) else value
