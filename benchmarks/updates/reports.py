"""What the kept answers say: each budget chosen again, the tables, and the same on random development rows."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from benchmarks import ROOT
from benchmarks.tables.inputs.models import LITES, RESNETS
from benchmarks.tables.report import mean_interval
from benchmarks.tables.store import read_answers
from benchmarks.updates import margins
from benchmarks.updates.cases import CASES
from benchmarks.updates.kept import kept_curve
from benchmarks.updates.margins import margins_line
from benchmarks.updates.resample import HEADER, choose_among, pooled_curves, resample_line
from hf_pct.flips.choice.contract import Contract
from hf_pct.flips.choice.prior import Prior, linear_prior

RESULTS = ROOT / "benchmarks" / "results"
ANSWERS, CHOICES = RESULTS / "updates.parquet", RESULTS / "updates.json"
BUDGETS, MARGIN = (1, 2, 5), 0.005
PAPER, PLAIN = "fd-lm paper", ("plain", "anew")
DEV = "development: "
"""Before the names of answers to development rows; those without it are to test rows."""


def report() -> str:
    """Accuracy and NFR of every row, and both beside those of plain models."""
    choices = read_choices()
    lines = [
        "| update | row | seeds | accuracy | NFR | NFR / plain's | accuracy - best plain | worst seed |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in CASES:
        seeds = [rows_of(key, choice) for key, choice in choices.items() if key.rsplit("-", 1)[0] == name]
        for row in dict.fromkeys(row for seed in seeds for row in seed):
            shown = [seed for seed in seeds if row in seed]
            ratio = sum(seed[row][1] for seed in shown) / sum(seed["plain"][1] for seed in shown)
            gains = [seed[row][0] - best_plain(seed) for seed in shown]
            cells = [_interval([seed[row][side] for seed in shown]) for side in (0, 1)]
            lines.append(
                f"| {name} | {row} | {len(shown)} | {cells[0]} | {cells[1]} | {ratio:.2f} | {_interval(gains, '+')} | "
                f"{min(gains):+.2f} |"
            )
    return "\n".join([*lines, "", costs_sentence(choices)]) + "\n"


def rows_of(key: str, choice: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """Row name -> (accuracy, NFR) on the test rows of one seed."""
    answers = rows_to_judge(key)
    old = answers.pop("old")

    def score(part: str) -> tuple[float, float]:
        return 100 * float(answers[part].mean()), 100 * float((old & ~answers[part]).mean())

    rows = {"old": (100 * float(old.mean()), 0.0)}
    for label, part in (("plain", "plain@0"), ("plain anew", "anew@0"), ("fd-lm, paper's weights", f"{PAPER}@0")):
        if part in answers:
            rows[label] = score(part)
    for budget, names in choice["offered"].items():
        name, alpha = choose_again(key, names)
        rows[f"update, budget {budget}"] = score(f"{name}@{alpha:g}")
    limit = best_plain(rows) - 100 * MARGIN
    allowed = [part for part in answers if not part.endswith("@1") and score(part)[0] >= limit]
    rows["oracle"] = min((score(part) for part in allowed), key=lambda pair: pair[1])
    return rows


def best_plain(seed: dict[str, tuple[float, float]]) -> float:
    return max(seed[name][0] for name in ("plain", "plain anew") if name in seed)


def costs_sentence(choices: dict[str, Any]) -> str:
    """What planning, measuring and choosing cost beside the trainings, by update."""
    shares: dict[str, list[float]] = {}
    for key, choice in choices.items():
        if costs := choice["costs"]:
            shares.setdefault(key.rsplit("-", 1)[0], []).append(costs["beside"] / costs["trainings"])
    said = [f"{name} {100 * float(np.mean(values)):.0f} %" for name, values in shares.items()]
    return "Time beside the trainings at the largest budget, over theirs: " + ", ".join(said) + "."


def along_alpha(name: str) -> str:
    """Every candidate of one update at every alpha, on the test rows, beside the plain models."""
    found: dict[tuple[str, float], list[tuple[float, float]]] = {}
    keys = [key for key in read_choices() if key.rsplit("-", 1)[0] == name]
    for key in keys:
        right = rows_to_judge(key)
        old = right.pop("old")
        best = max(right[f"{plain}@0"].mean() for plain in PLAIN if f"{plain}@0" in right)
        flips = (old & ~right["plain@0"]).mean()
        for part, rows in right.items():
            candidate, alpha = part.rsplit("@", 1)
            entry = (100 * float(rows.mean() - best), float((old & ~rows).mean() / flips))
            found.setdefault((candidate, float(alpha)), []).append(entry)
    lines = ["| candidate | alpha | seeds | accuracy - best plain | NFR / plain's |", "|---|---|---|---|---|"]
    for (candidate, alpha), seeds in sorted(found.items()):
        if alpha < 1:
            gain, ratio = np.mean(seeds, axis=0)
            lines.append(f"| {candidate} | {alpha:g} | {len(seeds)} | {gain:+.2f} | {ratio:.2f} |")
    return "\n".join(lines) + "\n"


def resampled(draws: int, counts: list[int]) -> str:
    """Every budget of every update, chosen again on so many random development rows."""
    lines, contract = [HEADER], Contract(margin=MARGIN)
    for name in CASES:
        seeds = pooled_seeds(name)
        for count in (counts or [CASES[name].dev_rows]) if seeds else ():
            lines += [resample_line(name, str(b), count, seeds, law_of(name), contract, draws) for b in BUDGETS]
    return "\n".join(lines) + "\n"


def pooled_seeds(name: str) -> list[dict[str, Any]]:
    """The seeds of one update: curves over all rows that were measured, and what each budget was offered."""
    seeds = []
    for key, choice in read_choices().items():
        if key.rsplit("-", 1)[0] == name:
            every = list(dict.fromkeys(["plain", *(part for names in choice["offered"].values() for part in names)]))
            curves = pooled_curves(kept_rows(key), every, DEV)
            seeds.append({"curves": curves, "offered": choice["offered"], "plain": PLAIN})
    return seeds


def margins_told() -> str:
    """How much more margins tell than counted rows, for every update that has them."""
    lines = [margins_line(name, [seed["curves"] for seed in pooled_seeds(name)]) for name in CASES]
    return "\n".join([margins.HEADER, *filter(None, lines)]) + "\n"


def choose_again(key: str, names: list[str]) -> tuple[str, float]:
    """What the rule chooses among these candidates on the kept development rows: a name and an alpha."""
    rows = kept_rows(key)
    curves = {}
    for name in names:
        start = f"{DEV}{name}@"
        along = {float(part.removeprefix(start)): values for part, values in rows.items() if part.startswith(start)}
        curves[name] = kept_curve(rows[f"{DEV}old"], along)
    return choose_among(curves, PLAIN, law_of(key.rsplit("-", 1)[0]), Contract(margin=MARGIN))


def law_of(name: str) -> Prior:
    """What is known of the merges of an update, as `update` itself knows it."""
    return linear_prior(bool(CASES[name].added), CASES[name].model in (*RESNETS, *LITES))


def rows_to_judge(key: str) -> dict[str, np.ndarray]:
    """Which test rows are right, by candidate and alpha."""
    return {part: values > 0 for part, values in kept_rows(key).items() if not part.startswith(DEV)}


def kept_rows(key: str) -> dict[str, np.ndarray]:
    """How right the rows of one seed are, by candidate and alpha, of development and of test rows."""
    return {part: cell.answers for (cell_key, part), cell in read_answers(ANSWERS).items() if cell_key == key}


def read_choices() -> dict[str, Any]:
    return json.loads(CHOICES.read_text()) if CHOICES.is_file() else {}


def _interval(values: list[float], sign: str = "") -> str:
    mean, half = mean_interval(values) if len(values) > 1 else (values[0], float("nan"))
    return f"{mean:{sign}.2f}" if np.isnan(half) else f"{mean:{sign}.2f} ± {half:.2f}"
