"""How much can this many rows show? Computed before the data are collected, and printed with every comparison."""

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from .stats import Interval, check_confidence, upper_bound

DEFAULT_POWER = 0.8
_MANY = 2_000  # expected flips from which the normal distribution serves


def power_of(rows: float, nfr: float, pfr: float, confidence: float = 0.95) -> float:
    """The chance that the exact one-sided McNemar test shows 'breaks more than it fixes' at these true rates."""
    discordant = min(nfr + pfr, 1.0)
    if discordant <= 0:
        return 0.0
    rows = int(rows)
    if rows * discordant > _MANY:
        return _normal_power(rows, nfr, pfr, confidence)
    middle, reach = rows * discordant, 8 * math.sqrt(rows * discordant) + 8
    seen = np.arange(max(0, int(middle - reach)), min(rows, int(middle + reach)) + 1)
    chance = np.exp(
        special.gammaln(rows + 1)
        - special.gammaln(seen + 1)
        - special.gammaln(rows - seen + 1)
        + special.xlogy(seen, discordant)
        + special.xlog1py(rows - seen, -discordant)
    )
    return float(chance @ _chance_to_reject(seen, nfr / (nfr + pfr), 1 - confidence))


def _normal_power(rows: int, nfr: float, pfr: float, confidence: float) -> float:
    """The same where the normal distribution is as good as exact."""
    loss, discordant = nfr - pfr, nfr + pfr
    threshold = float(special.ndtri(confidence)) * math.sqrt(discordant)
    return float(special.ndtr((loss * math.sqrt(rows) - threshold) / math.sqrt(max(discordant - loss**2, 1e-12))))


def _chance_to_reject(discordant: np.ndarray, share: float, level: float) -> np.ndarray:
    """For each number of flips: the chance that so many of them are broken that the sign test rejects."""
    # the most positive flips at which the test still rejects, at most one off by rounding: then one less
    most = np.floor(special.bdtrik(level, np.maximum(discordant, 1), 0.5)).astype(int)
    most = np.where(special.bdtr(np.maximum(most, 0), discordant, 0.5) > level, most - 1, most)
    tail = special.bdtr(np.maximum(most, 0), discordant, 1 - share)
    return np.where((most >= 0) & (discordant > 0), tail, 0.0)


def detectable_drop(
    rows: float, nfr: float, *, confidence: float = 0.95, power: float = DEFAULT_POWER
) -> float | None:
    """The smallest loss of accuracy that `rows` rows show with this chance.

    A harmless update breaks `nfr` of the rows and fixes as many; one that loses accuracy breaks so much more. None
    when not even breaking everything else would show.
    """
    _check(rows, nfr, power)
    check_confidence(confidence)
    low, high = 0.0, 1 - 2 * nfr
    if power_of(rows, nfr + high, nfr, confidence) < power:
        return None
    for _ in range(24):
        middle = (low + high) / 2
        low, high = (low, middle) if power_of(rows, nfr + middle, nfr, confidence) >= power else (middle, high)
    return high


def detectable_mean_drop(interval: Interval, power: float = DEFAULT_POWER) -> float:
    """The smallest drop of a mean score shown with this chance, from the width of the mean difference's interval."""
    error = (interval.high - interval.low) / 2 / float(special.ndtri((1 + interval.confidence) / 2))
    return error * float(special.ndtri(interval.confidence) + special.ndtri(power))


def rows_to_show(
    drop: float, nfr: float, *, confidence: float = 0.95, power: float = DEFAULT_POWER, most: int = 10**8
) -> int | None:
    """How many rows show a loss of `drop` with this chance; None if more than `most`."""
    _check(1, nfr, power)
    check_confidence(confidence)
    if not 0 < drop < 1 or drop + 2 * nfr > 1:
        raise ValueError(f"drop is {drop} with nfr {nfr}, expected a fraction such as 0.01 and drop + 2 nfr <= 1.")
    low, high = 1, 16
    while power_of(high, nfr + drop, nfr, confidence) < power:
        low, high = high, 2 * high
        if high > most:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power_of(middle, nfr + drop, nfr, confidence) >= power else (middle, high)
    return high


def rows_to_promise(max_nfr: float, nfr: float = 0.0, confidence: float = 0.95, most: int = 10**8) -> int | None:
    """How many rows make `nfr_upper` at most `max_nfr` when the share `nfr` of them breaks; None if none does."""
    if not 0 < max_nfr < 1:
        raise ValueError(f"max_nfr is {max_nfr}, expected a fraction between 0 and 1 such as 0.01.")
    if not 0 <= nfr <= 1:
        raise ValueError(f"nfr is {nfr}, expected a fraction from 0 to 1 (2 % is 0.02).")
    check_confidence(confidence)
    if nfr >= max_nfr:
        return None

    def promises(rows: int) -> bool:
        return upper_bound(math.ceil(nfr * rows), rows, confidence) <= max_nfr

    low, high = 0, 16
    while not promises(high):
        low, high = high, 2 * high
        if high > most:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if promises(middle) else (middle, high)
    return high


@dataclass(frozen=True)
class PowerSummary:
    """What so many rows can show and promise."""

    rows: int
    nfr: float
    confidence: float
    power: float
    drop: float | None
    promise_without_flips: float
    promise_at_nfr: float

    def to_text(self) -> str:
        shown = (
            "no loss of accuracy, however large, is shown reliably: too few rows"
            if self.drop is None
            else f"the smallest loss of accuracy that is shown in {self.power:.0%} of cases is "
            f"{100 * self.drop:.2f} points"
        )
        flips = math.ceil(self.nfr * self.rows)
        return (
            f"{self.rows:,} rows, of which a harmless update breaks {100 * self.nfr:.2f} % and fixes as many, at "
            f"{self.confidence:.0%} confidence:\n"
            f"  {shown}\n"
            f"  without any negative flip, they promise NFR < {100 * self.promise_without_flips:.2f} %\n"
            f"  with {flips:,} negative flips, they promise NFR < {100 * self.promise_at_nfr:.2f} %"
        )


def summarise_power(rows: int, nfr: float, *, confidence: float = 0.95, power: float = DEFAULT_POWER) -> PowerSummary:
    """Everything that `hf-pct power` prints about a number of rows."""
    drop = detectable_drop(rows, nfr, confidence=confidence, power=power)
    flips = math.ceil(nfr * rows)
    bounds = upper_bound(0, rows, confidence), upper_bound(flips, rows, confidence)
    return PowerSummary(rows, nfr, confidence, power, drop, *bounds)


def _check(rows: float, nfr: float, power: float) -> None:
    problems = []
    if not rows >= 1:
        problems.append(f"rows is {rows}, expected at least 1")
    if not 0 <= nfr < 0.5:
        problems.append(f"nfr is {nfr}, expected a fraction from 0 to 0.5 (2 % is 0.02): as many rows are fixed")
    if not 0 < power < 1:
        problems.append(f"power is {power}, expected a fraction between 0 and 1 such as 0.8")
    if problems:
        raise ValueError("; ".join(problems) + ".")
