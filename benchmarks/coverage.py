"""How often the kit's intervals, bounds, tests and certificates hold what they promise, by simulation.

    python -m benchmarks.coverage                     # the whole table, a few minutes
    python -m benchmarks.coverage --runs 200 clusters # one section, quickly

Everything is asked for at 95 %. "covered" columns should be at least .95 up to the noise of the simulation, "alarm"
columns (a test that rejects although nothing is wrong, a certificate that is broken) at most .05. Not in the tests,
except for a small cut: tests/benchmarks/test_coverage.py.
"""

import argparse
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from hf_pct.flips.stats import (
    Interval,
    clustered_gain,
    clustered_mcnemar,
    clustered_non_inferiority,
    effective_size,
    paired_bootstrap,
    rate_of,
)

Outcome = dict[str, bool]
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Cell:
    """One line of the table: what is simulated, and one run of it."""

    name: str
    run: Callable[[np.random.Generator], Outcome]


def _inside(interval: Interval, truth: float) -> bool:
    return interval.low <= truth <= interval.high


def draw_clusters(
    rng: np.random.Generator, sizes: np.ndarray, broken: float, fixed: float, correlation: float
) -> tuple[np.ndarray, np.ndarray]:
    """Broken and fixed rows of each cluster; two rows of a cluster share their outcome with this correlation."""
    shares = np.array([broken, fixed, 1 - broken - fixed])
    if correlation:
        drawn = rng.gamma(np.tile(shares * (1 / correlation - 1), (len(sizes), 1)))
        chances = drawn / drawn.sum(1, keepdims=True)
    else:
        chances = np.tile(shares, (len(sizes), 1))
    counts = rng.multinomial(sizes, chances)
    return counts[:, 0].astype(float), counts[:, 1].astype(float)


def paired_outcome(sizes: np.ndarray, lost: np.ndarray, won: np.ndarray, broken: float, fixed: float) -> Outcome:
    """What one comparison claims of its rates and of its accuracy, held against the truth."""
    rate = rate_of(sizes, lost, float(sizes.sum()), CONFIDENCE)
    gain = fixed - broken
    outcome = {
        "NFR interval covered": _inside(rate.interval, broken),
        "nfr_upper covered": rate.upper >= broken,
        "accuracy gain covered": _inside(clustered_gain(sizes, lost, won, CONFIDENCE), gain),
        "loss bound covered": clustered_non_inferiority(sizes, lost, won, 0.0, CONFIDENCE).lower_bound <= gain,
    }
    if gain == 0:
        outcome["paired test alarm"] = clustered_mcnemar(lost, won).exact < 1 - CONFIDENCE
    return outcome


def iid_cells() -> Iterator[Cell]:
    for rows in (100, 300, 1000, 4000):
        for rate in (0.005, 0.02, 0.1):

            def run(rng: np.random.Generator, rows: int = rows, rate: float = rate) -> Outcome:
                return paired_outcome(
                    np.ones(rows), *draw_clusters(rng, np.ones(rows, int), rate, rate, 0), rate, rate
                )

            yield Cell(f"{rows} rows, NFR {rate:.1%}", run)


def cluster_cells() -> Iterator[Cell]:
    for clusters in (30, 50, 100, 500):
        for kind in ("10 rows", "1 to 80 rows"):
            for correlation in (0.0, 0.1, 0.3, 0.6):
                for rate in (0.01, 0.02, 0.05):

                    def run(
                        rng: np.random.Generator,
                        clusters: int = clusters,
                        even: bool = kind == "10 rows",
                        correlation: float = correlation,
                        rate: float = rate,
                    ) -> Outcome:
                        sizes = np.full(clusters, 10) if even else np.minimum(rng.geometric(0.1, clusters), 80)
                        lost, won = draw_clusters(rng, sizes, rate, rate, correlation)
                        return paired_outcome(sizes.astype(float), lost, won, rate, rate)

                    yield Cell(f"{clusters} clusters of {kind}, correlation {correlation}, NFR {rate:.0%}", run)


WEIGHTS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "exponential": lambda rng, rows: rng.exponential(1, rows) + 0.01,
    "lognormal(1)": lambda rng, rows: rng.lognormal(0, 1, rows),
    "lognormal(1.5)": lambda rng, rows: rng.lognormal(0, 1.5, rows),
    "10 % weigh 20 times": lambda rng, rows: np.where(rng.random(rows) < 0.1, 20.0, 1.0),
}


def weight_cells() -> Iterator[Cell]:
    for kind, draw in WEIGHTS.items():
        for power in (0, 1, 2):
            for rows in (500, 2000):
                for rate in (0.01, 0.03):

                    def run(
                        rng: np.random.Generator,
                        draw: Callable = draw,
                        power: int = power,
                        rows: int = rows,
                        rate: float = rate,
                    ) -> Outcome:
                        weights = draw(rng, rows)
                        chances = weights**power
                        chances = np.minimum(chances * rate * weights.sum() / (weights * chances).sum(), 1.0)
                        truth = float((weights * chances).sum() / weights.sum())
                        flips = weights * (rng.random(rows) < chances)
                        rate_found = rate_of(weights, flips, effective_size(weights), CONFIDENCE, power=2)
                        return {"NFR interval covered": _inside(rate_found.interval, truth)}

                    follows = ("whatever the weight", "growing with the weight", "growing with its square")[power]
                    yield Cell(f"{kind}, {rows} rows, flips {follows}, NFR {rate:.0%}", run)


def excess_cells() -> Iterator[Cell]:
    for clusters, size, correlation in ((300, 1, 0.0), (3000, 1, 0.0), (50, 10, 0.3), (300, 10, 0.3)):
        for floor, excess in ((0.01, 0.0), (0.03, 0.0), (0.02, 0.02)):

            def run(
                rng: np.random.Generator,
                shape: tuple[int, int, float] = (clusters, size, correlation),
                floor: float = floor,
                excess: float = excess,
            ) -> Outcome:
                sizes = np.full(shape[0], shape[1])
                by_rerun, by_new = draw_clusters(rng, sizes, floor, floor + excess, shape[2])
                first, second, codes = _as_rows(sizes, by_new, by_rerun)
                difference = paired_bootstrap(first, second, codes, confidence=CONFIDENCE, resamples=1000)
                outcome = {"excess covered": _inside(difference.interval, excess)}
                if excess == 0:
                    outcome["paired test alarm"] = difference.p_value < 1 - CONFIDENCE
                return outcome

            shape = (
                f"{clusters} rows" if size == 1 else f"{clusters} clusters of {size} rows, correlation {correlation}"
            )
            yield Cell(f"{shape}, noise floor {floor:.0%}, excess {excess:.0%}", run)


def _as_rows(sizes: np.ndarray, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counts per cluster as two columns of rows, and the cluster of each row."""
    codes = np.repeat(np.arange(len(sizes)), sizes)
    place = np.arange(len(codes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return place < first[codes], (place >= first[codes]) & (place < (first + second)[codes]), codes


def certificate_cells() -> Iterator[Cell]:
    from hf_pct.flips.choice.curve import AlphaCurve
    from hf_pct.merging.selection import Contract, select_alpha

    alphas = np.linspace(0, 0.9, 10)
    shapes = {
        "every alpha just above the limit": np.full(10, 0.0201),
        "half of the alphas above the limit": np.linspace(0.03, 0.012, 10),
        "all but the last above the limit": np.where(alphas < 0.9, 0.022, 0.018),
    }
    for name, rates in shapes.items():
        for rows in (600, 4000):

            def run(rng: np.random.Generator, rates: np.ndarray = rates, rows: int = rows) -> Outcome:
                correct = {float(a): rng.random(rows) >= rate for a, rate in zip(alphas, rates, strict=True)}
                contract = Contract(max_nfr=0.02, certify=True, seed=int(rng.integers(1 << 30)))
                chosen = select_alpha(AlphaCurve.of(np.ones(rows, bool), correct), contract)
                broken = chosen.kept and rates[int(np.argmin(np.abs(alphas - chosen.alpha)))] > 0.02
                return {"certificate alarm": bool(broken)}

            yield Cell(f"{name}, {rows} rows, NFR at most 2 %", run)


SECTIONS: dict[str, Callable[[], Iterator[Cell]]] = {
    "iid": iid_cells,
    "weights": weight_cells,
    "clusters": cluster_cells,
    "excess": excess_cells,
    "certificate": certificate_cells,
}


def measure(cell: Cell, runs: int, seed: int = 0) -> dict[str, float]:
    """The share of runs in which each claim came true (or each alarm was raised)."""
    rng = np.random.default_rng(seed)
    held: Counter[str] = Counter()
    for _ in range(runs):
        held.update({name: int(holds) for name, holds in cell.run(rng).items()})
    return {name: count / runs for name, count in held.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", help=f"{', '.join(SECTIONS)}; all when none is named")
    parser.add_argument("--runs", type=int, default=2000, help="simulated comparisons per line")
    args = parser.parse_args()
    if unknown := set(args.sections) - set(SECTIONS):
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    for section in args.sections or SECTIONS:
        header: list[str] = []
        for cell in SECTIONS[section]():
            shares = measure(cell, args.runs)
            if not header:
                header = list(shares)
                print(f"\n| {section} | {' | '.join(header)} |\n|---|{'---|' * len(header)}")
            cells = " | ".join(f"{shares[name]:.3f}".lstrip("0") if name in shares else "" for name in header)
            print(f"| {cell.name} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
