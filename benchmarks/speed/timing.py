"""Timing for benchmarks on a shared machine: contestants take turns in one run, and only ratios are reported.

A neighbour that wakes up slows all contestants of a round, so each round gives one ratio, and the median of the rounds
is what holds. The spread is printed beside it.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Ratio:
    """How much longer one contestant took than another: the median of the rounds and the middle half of them."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f}x ({self.low:.2f} to {self.high:.2f})"


def interleave(contestants: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each contestant in each round, after one round that does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds + 1):
        for name, run in contestants.items():
            start = time.perf_counter()
            run()
            if number:
                seconds[name].append(time.perf_counter() - start)
    return seconds


def ratio(seconds: dict[str, list[float]], name: str, base: str) -> Ratio:
    """`name` over `base`, round by round."""
    ratios = sorted(mine / theirs for mine, theirs in zip(seconds[name], seconds[base], strict=True))
    quarter = len(ratios) // 4
    return Ratio(statistics.median(ratios), ratios[quarter], ratios[-1 - quarter])


def verdict(value: float, limit: float, at_least: bool = False) -> str:
    """Whether a bar is met, in one word."""
    return "met" if (value >= limit if at_least else value <= limit) else "MISSED"
