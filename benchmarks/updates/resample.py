"""The same candidates chosen on other development rows: what a budget gives, without the luck of one set of 500 rows.

    python -m benchmarks.updates --resample 20     # draws for every update and seed; minutes, and no training

A draw takes so many rows (`--rows 500 1000`) from all rows that were measured; the rest is the test set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.updates.kept import kept_curve
from hf_pct.flips.choice.choose import Candidate, choose
from hf_pct.flips.choice.contract import Contract
from hf_pct.flips.choice.curve import AlphaCurve
from hf_pct.flips.choice.prior import APART, Prior
from hf_pct.update.candidates import COARSE, finer_alphas

HEADER = (
    "| update | budget | rows | draws | NFR / plain's | accuracy - best plain | over 0.5 lost | over 1 lost |\n"
    "|---|---|---|---|---|---|---|---|"
)


def pooled_curves(rows: Mapping[str, np.ndarray], names: list[str], dev: str) -> dict[str, AlphaCurve]:
    """Every candidate along the alphas that both parts have, over development and test rows together."""
    old = np.concatenate([rows[f"{dev}old"], rows["old"]])
    curves = {}
    for name in names:
        parts = [part for part in rows if part.rsplit("@", 1)[0] == name and f"{dev}{part}" in rows]
        along = {float(part.rsplit("@", 1)[1]): np.concatenate([rows[f"{dev}{part}"], rows[part]]) for part in parts}
        curves[name] = kept_curve(old, along)
    return curves


def choose_among(
    curves: Mapping[str, AlphaCurve], plain: tuple[str, ...], law: Prior, contract: Contract
) -> tuple[str, float]:
    """What `update` chooses among these candidates on their rows, a name and an alpha: coarsely, then beside it."""
    coarse = {name: curve.at(COARSE) for name, curve in curves.items()}
    name, alpha = _choose(coarse, plain, law, contract)
    closer = curves[name].at((*COARSE, *finer_alphas(alpha)))
    return _choose({**coarse, name: closer}, plain, law, contract)


def _choose(
    curves: Mapping[str, AlphaCurve], plain: tuple[str, ...], law: Prior, contract: Contract
) -> tuple[str, float]:
    candidates = []
    for name, curve in curves.items():
        merged = len(curve.alphas) > 1
        candidates.append(Candidate(name, curve, name in plain, law if merged else APART, "old" if merged else "anew"))
    choice = choose(candidates, contract)
    return (choice.best.candidate, choice.best.alpha) if choice.best else (choice.yardstick, 0.0)


def resample_line(
    name: str, budget: str, count: int, seeds: list[dict[str, Any]], law: Prior, contract: Contract, draws: int
) -> str:
    """One line of the table, of draws of `count` rows; a seed has its curves and the plain models' names."""
    rng, results = np.random.default_rng(0), []
    for seed in seeds:
        whole, offered = seed["curves"], seed["offered"][budget]
        plain_names = tuple(name for name in seed["plain"] if name in whole)
        total = whole["plain"].total
        for _ in range(draws):
            rows = np.sort(rng.permutation(total)[:count])
            rest = np.setdiff1d(np.arange(total), rows)
            seen = {candidate: whole[candidate].rows(rows) for candidate in offered}
            chosen, alpha = choose_among(seen, plain_names, law, contract)
            judged = whole[chosen].rows(rest)
            at = judged.index(alpha)
            best = max(whole[n].correct[0][rest].mean() for n in plain_names)
            results.append((judged.accuracy[at] - best, judged.nfr[at], whole["plain"].rows(rest).nfr[0]))
    gain, nfr, plain = np.array(results).T
    lost = [100 * float((-gain > limit).mean()) for limit in (0.005, 0.01)]
    return (
        f"| {name} | {budget} | {count} | {len(results)} | {nfr.sum() / plain.sum():.2f} | {100 * gain.mean():+.2f} | "
        f"{lost[0]:.0f} % | {lost[1]:.0f} % |"
    )
