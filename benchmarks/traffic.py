"""Traffic without labels, simulated: do the intervals hold, and how many labels does it save?

    python -m benchmarks.traffic            # about a minute
    python -m benchmarks.traffic --runs 200

100,000 rows of traffic. Of the differing rows the old model is right in 30 % (or 5 %), the new one in 50 %, neither in
the rest. Everything is asked for at 95 %.
"""

import argparse

import numpy as np

from hf_pct.flips.traffic.estimate import StratumLabels, TrafficLabels
from hf_pct.flips.traffic.sampling import decide, sequence_bounds

ROWS = 100_000


def people(differ: int, old_right: float) -> np.ndarray:
    """Who is right in each differing row."""
    counts = [round(differ * old_right), round(differ * 0.5)]
    return np.repeat(["old", "new", "neither"], [*counts, differ - sum(counts)])


def labels_of(drawn: np.ndarray, differ: int, rows: int = ROWS, future: bool = False) -> TrafficLabels:
    """A uniform sample of labels as counts."""
    kinds = {name: int((drawn == name).sum()) for name in ("old", "new", "neither")}
    return TrafficLabels(rows, (StratumLabels("(all)", differ, **kinds),), future=future)


def estimate_line(churn: float, old_right: float, labels: int, runs: int) -> str:
    """Coverage of the three estimates, and the labels of random rows that the same width takes."""
    rng, everyone = np.random.default_rng(0), people(int(churn * ROWS), old_right)
    truth = {side: float((everyone == side).sum() / ROWS) for side in ("old", "new")}
    gain, held, random = truth["new"] - truth["old"], np.zeros(3), []
    for _ in range(runs):
        sample = labels_of(rng.permutation(everyone)[:labels], len(everyone))
        rate, better = sample.rate("old"), sample.gain()
        held += [
            rate.interval.low <= truth["old"] <= rate.interval.high,
            rate.upper >= truth["old"],
            better.interval.low <= gain <= better.interval.high,
        ]
        random.append(sample.random_labels())
    shares = " | ".join(f"{share:.3f}".lstrip("0") for share in held / runs)
    needed = float(np.median(random))
    return f"| {churn:.0%} | {old_right:.0%} | {labels:,} | {shares} | {needed:,.0f} | {needed / labels:.0f}x |"


def future_line(churn: float, old_right: float, rows: int, labels: int, runs: int) -> str:
    """Coverage of the rates of future traffic: these rows are a sample of it, and the labelled ones of these."""
    rng, held = np.random.default_rng(2), np.zeros(3)
    chances = {"old": old_right, "new": 0.5, "neither": 0.5 - old_right}
    for _ in range(runs):
        differ = int(rng.binomial(rows, churn))
        drawn = rng.choice(list(chances), min(labels, differ), p=list(chances.values()))
        sample = labels_of(drawn, differ, rows, future=True)
        rate, gain, truth = sample.rate("old"), sample.gain().interval, churn * (0.5 - old_right)
        held += [
            rate.interval.low <= churn * old_right <= rate.interval.high,
            rate.upper >= churn * old_right,
            gain.low <= truth <= gain.high,
        ]
    shares = " | ".join(f"{share:.3f}".lstrip("0") for share in held / runs)
    return f"| {churn:.0%} | {old_right:.0%} | {rows:,} | {labels:,} | {shares} |"


def sequence_line(churn: float, old_right: float, runs: int) -> str:
    """How often the truth was in every interval from the first label on, and when a verdict was certain."""
    rng, everyone = np.random.default_rng(1), people(int(churn * ROWS), old_right)
    total, differ = int((everyone == "old").sum()), len(everyone)
    always, wrong, used = 0, 0, {1.5: [], 0.67: []}
    for _ in range(runs):
        order = rng.permutation(everyone)
        counts = np.cumsum(order == "old")
        steps = np.unique(np.geomspace(1, 1000, 120).astype(int))
        bounds = (sequence_bounds(int(counts[n - 1]), int(n), differ, 0.05) for n in steps)
        always += all(low <= total <= high for low, high in bounds)
        for times, numbers in used.items():
            verdict = decide(order[:5000], differ, ROWS, times * total / ROWS)
            numbers.append(verdict.labels_used)
            wrong += verdict.verdict == ("hold back" if times > 1 else "ship")
    medians = " | ".join(f"{np.median(numbers):,.0f}" for numbers in used.values())
    return f"| {churn:.0%} | {old_right:.0%} | {always / runs:.3f} | {medians} | {wrong / runs / 2:.3f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=500, help="simulated labellings per line")
    runs = parser.parse_args().runs
    cells = [(churn, old_right) for churn in (0.02, 0.05, 0.2) for old_right in (0.05, 0.3)]
    print("| churn | old right | labels | NFR covered | bound covered | gain covered | random labels | saved |")
    print("|---|---|---|---|---|---|---|---|")
    for churn, old_right in cells:
        print(estimate_line(churn, old_right, 300, runs), flush=True)
    print("\n| churn | old right | rows | labels | future NFR covered | bound covered | gain covered |")
    print("|---|---|---|---|---|---|---|")
    for churn, old_right in cells:
        print(future_line(churn, old_right, 5_000, 100, runs), flush=True)
    print("\n| churn | old right | covered at every stopping time | labels to ship (limit 1.5 x NFR) | labels to hold "
          "back (limit 0.67 x NFR) | wrong verdicts |")  # fmt: skip
    print("|---|---|---|---|---|---|")
    for churn, old_right in cells:
        print(sequence_line(churn, old_right, runs), flush=True)


if __name__ == "__main__":
    main()
