"""Which of the differing rows to label: a random sample, uniform or stratified by the pair of answers."""

import csv
import io
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa

from ...core.files import write_text
from .differences import Pair, Traffic

RARE = "(rare pairs)"
ALL = "(all)"
TO_FILL = ("right", "label")
Strategy = Literal["uniform", "stratified"]


@dataclass(frozen=True)
class LabelPlan:
    """The rows to label, in the order in which to label them, with two empty columns to fill in.

    `right` takes old, new, neither or unsure. Who would rather write the right answer itself fills in `label`.
    """

    table: pa.Table
    strategy: Strategy

    def __len__(self) -> int:
        return len(self.table)

    def save(self, path: str | os.PathLike, overwrite: bool = False) -> Path:
        """Write a CSV or JSONL file for a person to fill in; one that exists is kept unless `overwrite` is set."""
        target = Path(path)
        if target.suffix == ".csv":
            text = io.StringIO()
            writer = csv.writer(text, lineterminator="\n")
            writer.writerow(self.table.column_names)
            writer.writerows(_plain(row).values() for row in self.table.to_pylist())
            return write_text(target, text.getvalue(), overwrite)
        if target.suffix == ".jsonl":
            lines = [json.dumps(_plain(row), ensure_ascii=False) + "\n" for row in self.table.to_pylist()]
            return write_text(target, "".join(lines), overwrite)
        raise ValueError(f"{target} ends in {target.suffix or 'nothing'}, expected .csv or .jsonl.")


def _plain(row: dict) -> dict:
    return {
        name: value if value is None or isinstance(value, (str, int, float)) else str(value)
        for name, value in row.items()
    }


def label_plan(
    traffic: Traffic,
    labels: int,
    *,
    strategy: Strategy = "uniform",
    seed: int = 0,
    columns: Sequence[str] | None = None,
) -> LabelPlan:
    """Draw `labels` of the differing rows (all of them if there are fewer), in random order.

    "uniform" gives every differing row the same chance, and allows a verdict after every label. "stratified" takes a
    fixed number of each frequent pair of answers, more where the models' confidences leave open who is right (Neyman).
    """
    if labels < 1:
        raise ValueError(f"labels is {labels}, expected at least 1.")
    if strategy not in ("uniform", "stratified"):
        raise ValueError(f"strategy is {strategy!r}, expected 'uniform' or 'stratified'.")
    if not traffic.differ:
        raise ValueError("The two models answer every row alike, so there is nothing to label: NFR and PFR are 0.")
    rng = np.random.default_rng(seed)
    shuffled = rng.permutation(traffic.differ)
    if strategy == "uniform":
        chosen, strata = shuffled[:labels], [ALL] * min(labels, traffic.differ)
    else:
        names = stratum_names(traffic, labels)
        quota = _allocate(traffic, names, labels)
        taken: dict[str, int] = dict.fromkeys(quota, 0)
        picks = []
        for row in shuffled.tolist():
            if taken[names[row]] < quota[names[row]]:
                taken[names[row]] += 1
                picks.append(row)
        chosen, strata = np.array(picks), [names[row] for row in picks]
    table = traffic.differing.take(pa.array(chosen))
    if columns is not None:
        table = table.select([name for name in table.column_names if name in _OWN or name in columns])
    order = pa.array(range(1, len(chosen) + 1))
    table = table.append_column("stratum", pa.array(strata)).add_column(0, "order", order)
    for name in TO_FILL:
        if name in table.column_names:
            table = table.drop_columns([name])
        table = table.append_column(name, pa.array([""] * len(chosen)))
    return LabelPlan(table, strategy)


_OWN = ("id", "old_answer", "new_answer", "old_confidence", "new_confidence")


def pair_name(pair: Pair) -> str:
    """A pair of answers as a stratum is called."""
    return json.dumps(list(pair), ensure_ascii=False)


def stratum_names(traffic: Traffic, labels: int) -> list[str]:
    """The stratum of each differing row: its pair of answers, if that is frequent enough to get two labels."""
    sizes = dict(traffic.pairs())
    enough = max(2, 2 * traffic.differ / labels)
    answers = zip(*(traffic.differing[name].to_pylist() for name in ("old_answer", "new_answer")), strict=True)
    names = [pair_name(pair) if sizes[pair] >= enough else RARE for pair in answers]
    return [ALL] * len(names) if len(set(names)) < 2 else names


def _allocate(traffic: Traffic, names: Sequence[str], labels: int) -> dict[str, int]:
    """Labels per stratum, proportional to its size times how open it is who is right, at least two where possible."""
    strata, codes, sizes = np.unique(np.array(names), return_inverse=True, return_counts=True)
    spread = np.full(len(strata), 0.5)
    if {"old_confidence", "new_confidence"} <= set(traffic.differing.column_names):
        old, new = (traffic.differing[f"{side}_confidence"].to_numpy() for side in ("old", "new"))
        total = np.where(np.isfinite(old + new) & (old + new > 0), old + new, 1.0)
        share = np.clip(np.nan_to_num(old / total, nan=0.5), 0.1, 0.9)
        mean = np.bincount(codes, weights=share) / sizes
        spread = np.sqrt(mean * (1 - mean))
    ideal = labels * sizes * spread / (sizes * spread).sum()
    quota = np.minimum(np.maximum(np.floor(ideal).astype(int), 2), sizes)
    for stratum in np.argsort(-(ideal - np.floor(ideal)), kind="stable"):
        if quota.sum() >= labels:
            break
        quota[stratum] += quota[stratum] < sizes[stratum]
    return dict(zip(strata.tolist(), quota.tolist(), strict=True))
