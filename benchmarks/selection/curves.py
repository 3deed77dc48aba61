"""The curves that a rule is fitted and judged on, from committed answers alone."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from benchmarks import ROOT
from benchmarks.tables.curves import curve_of
from benchmarks.tables.specs import Line, Table, read_table, table_path
from benchmarks.tables.store import DEV, TEST, Answers, Store, read_answers
from hf_pct.flips.choice.curve import AlphaCurve

PAIRS_FILE = ROOT / "benchmarks" / "results" / "curves.parquet"
_FIXED = {"BCWI 0.4": 0.4, "BCWI 0.6": 0.6}


def massive_curves() -> dict[str, AlphaCurve]:
    """The five seeds of MASSIVE, 1,000 to 1,500 sentences: every tenth of alpha, development and test rows."""
    table, store = read_table(table_path("massive")), Store()
    line = next(line for line in table.lines if line.name == "BCWI, by contract")
    curves = {}
    for seed in table.seeds:
        new = next(plain for plain in table.lines if plain.name == "new")
        swept = Line(line.name, new.pairs, line.against, line.sweeps)
        parts = [curve_of(swept, seed, store, part) for part in (DEV, TEST)]
        if all(part is not None for part in parts):
            curves[f"massive-{seed}"] = with_old(_joined([part for part in parts if part is not None]))
    return curves


def table_curves(name: str) -> dict[str, AlphaCurve]:
    """T7 or T8: alpha 0, 0.4, 0.6, 1 and the one that was once chosen by contract, on the test rows."""
    table, store = read_table(table_path(name)), Store()
    lines = {line.name: line for line in table.lines}
    curves = {}
    for seed in table.seeds:
        old, new = (store.answers(cell) for cell in lines["new"].pairs[seed])
        if old is None or new is None:
            continue
        right = {0.0: _right(new)}
        for label in (*_FIXED, "BCWI, by contract"):
            cell = store.answers(lines[label].pairs[seed][1])
            if cell is not None:
                right[_FIXED.get(label, round(float(cell.alpha), 4))] = _right(cell)
        right = {alpha: rows for alpha, rows in right.items() if 0 <= alpha < 1}
        curves[f"{name}-{seed}"] = with_old(AlphaCurve.of(_right(old), right))
    return curves


def pair_curves() -> dict[str, AlphaCurve]:
    """The pairs that `pairs.py` trained on CLINC150, SNIPS and the home assistant's sentences."""
    answers = read_answers(PAIRS_FILE)
    curves = {}
    for name in sorted({cell for cell, part in answers}):
        if answers.get((name, "old")) is None:
            continue
        right = {
            float(part.removeprefix("alpha-")): _right(rows)
            for (cell, part), rows in answers.items()
            if cell == name and part.startswith("alpha-")
        }
        curves[name] = with_old(AlphaCurve.of(_right(answers[name, "old"]), right))
    return curves


def with_old(curve: AlphaCurve) -> AlphaCurve:
    """The curve with alpha 1, the old model itself."""
    if curve.alphas[-1] == 1:
        return curve
    return AlphaCurve(
        np.append(curve.alphas, 1.0), curve.old_correct, np.concatenate([curve.correct, curve.old_correct[None]])
    )


def far_behind(curve: AlphaCurve, rng: np.random.Generator, points: float = 0.1, bend: float = 1.0) -> AlphaCurve:
    """The same update with an old model that is `points` worse: rows that both get right become improvements.

    Each is given up at an alpha of its own: with `bend` 1 in proportion to alpha, which is harsher than any pair
    measured; at 1.4 as they do.
    """
    both = np.flatnonzero(curve.old_correct & curve.new_correct)
    chosen = rng.permutation(both)[: round(points * curve.total)]
    old, correct = curve.old_correct.copy(), curve.correct.copy()
    old[chosen] = False
    correct[:, chosen] = curve.alphas[:, None] < rng.random(len(chosen)) ** (1 / bend)
    correct[curve.alphas == 1] = old
    return AlphaCurve(curve.alphas, old, correct)


def _right(cell: Answers) -> np.ndarray:
    return np.asarray(cell.answers == cell.labels)


def _joined(parts: Iterable[AlphaCurve]) -> AlphaCurve:
    """One curve over the rows of several parts."""
    whole = list(parts)
    alphas = sorted(set.intersection(*({float(alpha) for alpha in part.alphas} for part in whole)))
    right = {
        alpha: np.concatenate([part.correct[part.index(alpha)] for part in whole]) for alpha in alphas
    }  # fmt: skip
    return AlphaCurve.of(np.concatenate([part.old_correct for part in whole]), right)


__all__ = ["PAIRS_FILE", "Table", "far_behind", "massive_curves", "pair_curves", "table_curves", "with_old"]
