"""From the answer tables of `bcwi_massive.py` to its Markdown table: choices on development data, numbers on test."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from table_report import mean_interval

from hf_pct.files import write_text
from hf_pct.merging.args import FISHER_ALPHAS, LINEAR_ALPHAS
from hf_pct.merging.curve import Curve
from hf_pct.merging.selection import Contract, select_alpha

Table = dict[str, np.ndarray]
PAPER = {
    "old": "81.8 / 0",
    "target": "83.4 / 3.3",
    "new": "83.2 / 2.8",
    "BCWI alpha 0.4": "83.4 / 1.4",
    "BCWI alpha 0.6": "83.1 / 0.8",
}


NAMES = {
    "linear": "BCWI, one alpha",
    "ewc": "EWC, one strength",
    "prior_wd": "prior weight decay, one strength",
    "mixout": "Mixout, one strength",
    "distill": "distillation, one strength",
}
TUNING_SEEDS = 1
"""A baseline is trained once for each strength: on this many seeds all are tried, on the others the one chosen."""


class SeedTables:
    """One seed's cells as correctness on both parts."""

    def __init__(self, folder: Path, labels: Mapping[str, np.ndarray]):
        self.labels = labels
        self.cells: dict[str, Table] = {path.stem: dict(np.load(path)) for path in sorted(folder.glob("*.npz"))}

    def right(self, name: str, part: str) -> np.ndarray | None:
        cell = self.cells.get(name, {})
        return cell[part] == self.labels[part] if part in cell else None

    def ensemble(self, alpha: float, part: str) -> np.ndarray | None:
        if alpha == 0:
            return self.right("new-0", part)
        answers = self.cells.get("ensemble", {}).get(f"{part}-{alpha:g}")
        return None if answers is None else answers == self.labels[part]

    def curve(self, method: str, values: Sequence[float], part: str) -> Curve | None:
        """alpha 0 is the untreated new model for every method: the yardstick of the contract."""
        old, new = self.right("old", part), self.right("new-0", part)
        if old is None or new is None:
            return None
        found: dict[float, np.ndarray] = {0.0: new}
        for value in values:
            right = self.ensemble(value, part) if method == "ensemble" else self.right(f"{method}-{value:g}", part)
            if right is not None and 0 < value < 1:
                found[value] = right
        return Curve.of(old, found)

    def score(self, right: np.ndarray | None, part: str = "test") -> tuple[float, float] | None:
        old = self.right("old", part)
        if right is None or old is None:
            return None
        return 100 * float(right.mean()), 100 * float((old & ~right).mean())


def rows_of(seed: SeedTables, tuned: Mapping[str, float]) -> dict[str, tuple[float, float, float]]:
    """Row name -> (test accuracy, test NFR, chosen value) for one seed; `tuned` is what all seeds have in common."""
    rows: dict[str, tuple[float, float, float]] = {}

    def add(name: str, right: np.ndarray | None, value: float = float("nan")) -> None:
        score = seed.score(right)
        if score is not None:
            rows[name] = (*score, value)

    add("old", seed.right("old", "test"))
    add("target", seed.right("target", "test"))
    add("new", seed.right("new-0", "test"))
    for alpha in LINEAR_ALPHAS[1:-1]:
        add(f"BCWI alpha {alpha:g}", seed.right(f"linear-{alpha:g}", "test"))
    grids = {"linear": LINEAR_ALPHAS, "soup": LINEAR_ALPHAS, "fisher": FISHER_ALPHAS, "ensemble": LINEAR_ALPHAS}
    names = {"linear": "BCWI", "soup": "SoupBCWI (4)", "fisher": "FisherBCWI", "ensemble": "probability ensemble"}
    add("soup of 4, unmerged", seed.right("soup-0", "test"))
    for method, grid in grids.items():
        curve = seed.curve(method, grid, "dev")
        if curve is None or len(curve.alphas) < 3:
            continue
        alpha = select_alpha(curve, Contract()).alpha
        cell = "new-0" if alpha == 0 else f"{method}-{alpha:g}"
        right = seed.ensemble(alpha, "test") if method == "ensemble" else seed.right(cell, "test")
        add(f"{names[method]}, alpha by contract", right, alpha)
    add("probability ensemble 0.6", seed.ensemble(0.6, "test"))
    add("target merged at 0.5", seed.right("target-0.5", "test"))
    add("target, re-based, merged at 0.5", seed.right("rebased-0.5", "test"))
    for method, value in tuned.items():
        add(f"{NAMES[method]} for all seeds", seed.right(f"{method}-{value:g}", "test"), value)
    return rows


def tune(seeds: Sequence[SeedTables], method: str, values: Sequence[float]) -> float | None:
    """The value that keeps the contract with the fewest flips on the development rows of all these seeds together.

    The most accurate one when none keeps it; nothing while one of them is still to be trained.
    """

    def pooled(name: str) -> np.ndarray | None:
        found = [right for seed in seeds if (right := seed.right(name, "dev")) is not None]
        return np.concatenate(found) if found and len(found) == len(seeds) else None

    old, new = pooled("old"), pooled("new-0")
    tried = [(value, right) for value in values if (right := pooled(f"{method}-{value:g}")) is not None]
    if len(tried) < len(values) or old is None or new is None:
        return None
    kept = [(int((old & ~r).sum()), -float(r.mean()), v) for v, r in tried if r.mean() >= new.mean()]
    return min(kept)[2] if kept else max(tried, key=lambda pair: pair[1].mean())[0]


def write_report(
    results: Path,
    labels: Mapping[str, np.ndarray],
    seeds: Sequence[int],
    strengths: Mapping[str, Sequence[float]],
) -> str:
    """`table.md` and `table.json` beside the cells; rows with fewer seeds say how many they have."""
    tables = {s: SeedTables(results / str(s), labels) for s in seeds if (results / str(s)).is_dir()}
    first = list(tables.values())[:TUNING_SEEDS]
    found = {method: tune(first, method, values) for method, values in strengths.items()}
    found["linear"] = tune(first, "linear", LINEAR_ALPHAS[1:-1])
    tuned = {method: value for method, value in found.items() if value is not None}
    per_seed = {s: rows_of(table, tuned) for s, table in tables.items()}
    per_seed = {s: rows for s, rows in per_seed.items() if "new" in rows}
    names = list(dict.fromkeys(name for rows in per_seed.values() for name in rows))
    lines = [
        "| model | seeds | accuracy | NFR | accuracy - new | NFR / new's | chosen | paper (RoBERTa-base) |",
        "|---|---|---|---|---|---|---|---|",
    ]
    summary = {}
    for name in names:
        have = [s for s in per_seed if name in per_seed[s]]
        accuracy = mean_interval([per_seed[s][name][0] for s in have])
        nfr = mean_interval([per_seed[s][name][1] for s in have])
        gain = mean_interval([per_seed[s][name][0] - per_seed[s]["new"][0] for s in have])
        untreated = float(np.mean([per_seed[s]["new"][1] for s in have]))
        ratio = nfr[0] / untreated if untreated else None  # where nothing flips there is nothing to undo
        values = [per_seed[s][name][2] for s in have]
        shown = "-" if ratio is None else f"{ratio:.2f}"
        chosen = "" if np.isnan(values).all() else ", ".join(f"{value:g}" for value in values)
        lines.append(
            f"| {name} | {len(have)} | {accuracy[0]:.2f} ± {accuracy[1]:.2f} | {nfr[0]:.2f} ± {nfr[1]:.2f} | "
            f"{gain[0]:+.2f} ± {gain[1]:.2f} | {shown} | {chosen} | {PAPER.get(name, '')} |"
        )
        summary[name] = {"seeds": have, "accuracy": accuracy, "nfr": nfr, "gain": gain, "ratio": ratio}
    text = "\n".join(lines) + "\n\n" + undone_table([SeedTables(results / str(s), labels) for s in per_seed])
    results.mkdir(parents=True, exist_ok=True)
    write_text(results / "table.md", text, overwrite=True)
    content = json.dumps({"rows": summary, "per_seed": per_seed}, indent=1) + "\n"
    write_text(results / "table.json", content, overwrite=True)
    return text


def undone_table(seeds: Sequence[SeedTables]) -> str:
    """The share of the new model's flips that each alpha takes back: were it blind, both columns would be equal."""
    lines = [
        "| alpha | negative flips undone | positive flips undone | NFR | proportional NFR |",
        "|---|---|---|---|---|",
    ]
    curves = [curve for seed in seeds if (curve := seed.curve("linear", LINEAR_ALPHAS, "test")) is not None]
    whole = [curve.undone() for curve in curves if len(curve.alphas) == len(LINEAR_ALPHAS) - 1]
    for points in zip(*whole, strict=True):
        mean = {key: float(np.mean([point[key] for point in points])) for key in points[0]}
        lines.append(
            f"| {mean['alpha']:.1f} | {mean['negative_undone']:.2f} | {mean['positive_undone']:.2f} | "
            f"{100 * mean['nfr']:.2f} | {100 * mean['proportional_nfr']:.2f} |"
        )
    return "\n".join(lines) + "\n"
