"""Do the intervals and tests of scores hold? By simulation, with everything asked for at 95 %.

    python -m benchmarks.logs.coverage            # two minutes of processor time
    python -m benchmarks.logs.coverage --runs 50

Items are drawn anew in every run, so what is to be covered is the rate among all items of that kind, not among those
drawn. "Alarm" is how often an update that changes nothing on average is said to be worse (one-sided, 5 %).
"""

import argparse
from collections.abc import Callable, Iterator

import numpy as np
from scipy import stats

from hf_pct import Scores, compare
from hf_pct.flips.scored.task_report import TaskReport
from hf_pct.flips.stats import Interval

Outcome = dict[str, bool]
Draw = Callable[[np.random.Generator], Outcome]
SHAPE = (1.5, 0.8)  # of the beta distribution of items' chances to be right
COLUMNS = ("mean gain covered", "NFR covered", "NFR bound covered", "NFR beyond the noise covered", "alarm")


def runs_table(values: np.ndarray, users: np.ndarray | None = None) -> Scores:
    """Scores of items (rows) in one or several runs (columns)."""
    items, runs = values.shape
    columns = None if users is None else {"user": np.repeat(users, runs).tolist()}
    repeats = None if runs == 1 else np.tile(np.arange(runs), items)
    return Scores(np.repeat(np.arange(items), runs), values.ravel(), repeats=repeats, columns=columns)


def covers(interval: Interval, truth: float) -> bool:
    return interval.low <= truth <= interval.high


def judged(task: TaskReport, gain: float, nfr: float | None = None, excess: float | None = None) -> Outcome:
    outcome = {"mean gain covered": covers(task.gain.interval, gain), "alarm": task.regressed}
    if nfr is not None and task.nfr_upper is not None:
        outcome |= {"NFR covered": covers(task.intervals["nfr"], nfr), "NFR bound covered": task.nfr_upper >= nfr}
    if excess is not None and task.noise_floor is not None:
        outcome["NFR beyond the noise covered"] = covers(task.noise_floor.excess_interval, excess)
    return outcome


def graded(rows: int, moved: float, skewed: bool) -> Draw:
    """A share of rows moves, up as down; or skewed, many a little down and some far up: no sign test expects that."""

    def draw(rng: np.random.Generator) -> Outcome:
        old = rng.beta(2, 1, rows)
        sizes = rng.exponential(0.3, rows) - 0.3 if skewed else rng.laplace(0, 0.2, rows)
        steps = np.where(rng.random(rows) < moved, sizes, 0.0)
        return judged(compare(Scores(range(rows), old), Scores(range(rows), old + steps), right_at="none").tasks[0], 0)

    return draw


def repeated(items: int, old_runs: int, new_runs: int, changed: float) -> Draw:
    """Items right with their own chance; the update gives some of them another one, and no drop on average.

    The test asks whether runs of an item are alike, so only an update that changes no item may raise a false alarm.
    """

    def chances(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
        old = rng.beta(*SHAPE, count)
        return old, np.where(rng.random(count) < changed, rng.beta(*SHAPE, count), old)

    right, spread = stats.beta.mean(*SHAPE), stats.beta.var(*SHAPE)
    nfr, excess = right * (1 - right) - (1 - changed) * spread, changed * spread

    def draw(rng: np.random.Generator) -> Outcome:
        sides = [
            (rng.random((items, runs)) < chance[:, None]).astype(float)
            for chance, runs in zip(chances(rng, items), (old_runs, new_runs), strict=True)
        ]
        outcome = judged(compare(*map(runs_table, sides)).tasks[0], 0.0, nfr, excess)
        return {name: holds for name, holds in outcome.items() if name != "alarm" or not changed}

    return draw


def clustered(users: int, each: int, share: float) -> Draw:
    """A user's rows break or are fixed together with the chance `share`, else one by one; 5 % either way."""

    def draw(rng: np.random.Generator) -> Outcome:
        who = np.repeat(np.arange(users), each)
        together, alone = rng.random(users)[who], rng.random(users * each)
        place = np.where((rng.random(users) < share)[who], together, alone)
        steps = (place > 0.95).astype(float) - (place < 0.05)
        old = np.where(steps == 0, rng.random(len(who)) < 0.6, steps < 0).astype(float)
        sides = (runs_table(values[:, None], who) for values in (old, old + steps))
        return judged(compare(*sides, cluster="user").tasks[0], 0.0, 0.05)

    return draw


def cells() -> Iterator[tuple[str, Draw]]:
    for rows, moved in ((50, 1.0), (200, 0.3), (3000, 0.6)):
        for skewed in (False, True):
            name = f"graded, {rows:,} rows, {moved:.0%} move, {'skewed' if skewed else 'up as down'}"
            yield name, graded(rows, moved, skewed)
    for items, old_runs, new_runs in ((40, 5, 5), (200, 3, 3), (200, 8, 2)):
        for changed in (0.0, 0.2):
            name = f"{items} items, {old_runs} old and {new_runs} new runs, {changed:.0%} of the items changed"
            yield name, repeated(items, old_runs, new_runs, changed)
    for users, each, share in ((30, 10, 0.3), (100, 5, 0.6)):
        yield f"{users} users with {each} rows, {share:.0%} all alike", clustered(users, each, share)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=500, help="simulated comparisons per line")
    runs = parser.parse_args().runs
    print(f"| scores | {' | '.join(COLUMNS)} |\n|---|{'---|' * len(COLUMNS)}")
    for number, (name, draw) in enumerate(cells()):
        rng = np.random.default_rng(number)
        outcomes = [draw(rng) for _ in range(runs)]
        shares = {key: f"{np.mean([outcome[key] for outcome in outcomes]):.3f}" for key in outcomes[0]}
        print(f"| {name} | {' | '.join(shares.get(key, '') for key in COLUMNS)} |", flush=True)


if __name__ == "__main__":
    main()
