"""Judge the choice of alpha on resampled development rows; every number is from committed answers.

    python -m benchmarks.selection                 # or make bench-selection: the whole table, a few minutes
    python -m benchmarks.selection --rows 500 --draws 30
    python -m benchmarks.selection --fit           # the prior, from the pairs that are not MASSIVE
    python -m benchmarks.selection --pairs         # train the pairs of which answers are missing (an hour or two)

A draw takes some rows of a curve as development rows at random; the rest is its test set. `loss` is the accuracy lost
against the new model on that test set, in points, at the alpha that a rule chose on the development rows.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping

import numpy as np

from benchmarks import ROOT
from benchmarks.selection.curves import far_behind, massive_curves, pair_curves, table_curves
from benchmarks.selection.prior_fit import differences, fit_prior
from benchmarks.selection.rules import MARGIN, RULES, Rule
from hf_pct.core.files import write_text
from hf_pct.flips.choice.curve import AlphaCurve
from hf_pct.flips.choice.prior import ADDED, LINEAR, Prior

Draw = Callable[[AlphaCurve, np.random.Generator], AlphaCurve]


def judge(
    curves: Mapping[str, AlphaCurve],
    rule: Rule,
    rows: int,
    draws: int,
    change: Draw | None = None,
    prior: Prior = LINEAR,
) -> dict[str, float]:
    """Mean loss, share of broken promises, NFR and alpha of a rule over curves and draws."""
    rng = np.random.default_rng(0)
    results = []
    for curve in curves.values():
        for _ in range(draws):
            whole = change(curve, rng) if change else curve
            order = rng.permutation(whole.total)
            development, test = whole.rows(order[:rows]), whole.rows(order[rows:])
            at = test.index(rule(development, prior))
            results.append((test.accuracy[0] - test.accuracy[at], test.nfr[at], test.nfr[0], test.alphas[at]))
    loss, nfr, plain, alpha = np.array(results).T
    return {
        "loss": 100 * float(loss.mean()), "broken": 100 * float((loss > MARGIN).mean()),
        "nfr": 100 * float(nfr.mean()), "nfr_sd": 100 * float(nfr.std()), "plain_nfr": 100 * float(plain.mean()),
        "alpha": float(alpha.mean()),
    }  # fmt: skip


def data_sets() -> dict[str, tuple[Mapping[str, AlphaCurve], Draw | None]]:
    """What is judged, by name; the pairs that the prior was fitted on are marked."""
    massive, pairs = massive_curves(), pair_curves()
    return {
        "MASSIVE": (massive, None),
        "MASSIVE, old model 10 points worse": (massive, lambda curve, rng: far_behind(curve, rng, bend=1.4)),
        "MASSIVE, old model 10 points worse, straight": (massive, far_behind),
        "T7": (table_curves("T7"), None),
        "T8, classes added": (table_curves("T8"), None),
        "new pairs (the prior's own)": (pairs, None),
    }


def left_out(pairs: Mapping[str, AlphaCurve]) -> list[str]:
    """How far the prior moves when one data set is left out of its fit."""
    lines = []
    for data in sorted({name.split("-")[0] for name in pairs}):
        fitted, _ = fit_prior({name: curve for name, curve in pairs.items() if not name.startswith(data)})
        lines.append(f"without {data}: " + ", ".join(f"{key} {value}" for key, value in fitted.items()))
    return lines


def table(rows: tuple[int, ...], draws: int) -> str:
    lines = [
        "| data | rows | rule | mean loss | loss > 0.5 | NFR | NFR unmerged | mean alpha |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, (curves, change) in data_sets().items():
        for count in rows:
            usable = {key: curve for key, curve in curves.items() if curve.total >= count + 400}
            if not usable:
                continue
            for rule, function in RULES.items():
                row = judge(usable, function, count, draws, change, ADDED if "classes added" in name else LINEAR)
                lines.append(
                    f"| {name} | {count} | {rule} | {row['loss']:+.2f} | {row['broken']:.0f} % | "
                    f"{row['nfr']:.2f} ± {row['nfr_sd']:.2f} | {row['plain_nfr']:.2f} | {row['alpha']:.2f} |"
                )
                print(lines[-1], flush=True)
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[200, 500, 1000, 2000], help="development rows")
    parser.add_argument("--draws", type=int, default=100, help="development sets per curve")
    parser.add_argument("--fit", action="store_true", help="fit the prior instead, and show each curve's parameters")
    parser.add_argument("--pairs", action="store_true", help="train the pairs that are missing")
    options = parser.parse_args(arguments)
    if options.pairs:
        from benchmarks.selection.pairs import run_pairs

        run_pairs()
    elif options.fit:
        fitted, lines = fit_prior(pair_curves())
        added, _ = fit_prior({name: curve for name, curve in pair_curves().items() if "classes" in name})
        said = [*differences(fitted, LINEAR), "", "classes added:", *differences(added, ADDED)]
        print("\n".join([*lines, "", *said, "", *left_out(pair_curves())]))
    else:
        text = table(tuple(options.rows), options.draws)
        write_text(ROOT / "benchmarks" / "results" / "selection.md", text, overwrite=True)


if __name__ == "__main__":
    main()
