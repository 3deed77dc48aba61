"""How often a drop is seen: the paired test on rows beside the unpaired test on means, by simulation.

    python -m benchmarks.logs.power --draws 1000

Each draw is an update on 0/1 scores (a share of rows is broken, a share is fixed) or on graded scores (a share of rows
moves); both tests are one-sided at 5 %. Without a drop, what is seen are false alarms.
"""

import argparse
import math
from collections.abc import Callable

import numpy as np
from scipy import special

from hf_pct.flips.scored.measures.sign_flip import sign_flip

Draw = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]


def flips(broken: float, fixed: float, accuracy: float = 0.7) -> Draw:
    def draw(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
        old = (rng.random(rows) < accuracy).astype(float)
        chance = np.where(old == 1, broken / accuracy, fixed / (1 - accuracy))
        return old, np.where(rng.random(rows) < chance, 1 - old, old)

    return draw


def graded(share: float, mean: float) -> Draw:
    def draw(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
        old = rng.beta(2, 1, rows)
        moved = rng.random(rows) < share
        return old, old + moved * rng.normal(mean, 0.2, rows)

    return draw


SETTINGS: dict[str, Draw] = {
    "0/1, 2 % broken, 2 % fixed": flips(0.02, 0.02),
    "0/1, 3 % broken, 1 % fixed": flips(0.03, 0.01),
    "0/1, 4 % broken, 1 % fixed": flips(0.04, 0.01),
    "graded, 20 % moved, mean 0": graded(0.2, 0.0),
    "graded, 20 % moved, mean -0.05": graded(0.2, -0.05),
    "graded, 20 % moved, mean -0.10": graded(0.2, -0.10),
}


def unpaired_worse(old: np.ndarray, new: np.ndarray) -> float:
    errors = [side.std(ddof=1) / math.sqrt(len(side)) for side in (old, new)]
    return float(special.ndtr((new.mean() - old.mean()) / math.hypot(*errors)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--rows", type=int, nargs="+", default=[200, 1000])
    args = parser.parse_args()
    print("| update | rows | paired sees it | unpaired sees it |\n|---|---|---|---|")
    for name, draw in SETTINGS.items():
        for rows in args.rows:
            rng = np.random.default_rng(0)
            pairs = [draw(rng, rows) for _ in range(args.draws)]
            paired = np.mean([sign_flip(new - old).p_worse < 0.05 for old, new in pairs])
            unpaired = np.mean([unpaired_worse(old, new) < 0.05 for old, new in pairs])
            print(f"| {name} | {rows:,} | {100 * paired:.1f} % | {100 * unpaired:.1f} % |", flush=True)


if __name__ == "__main__":
    main()
