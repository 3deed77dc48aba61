"""Is accuracy kept up to a margin? Tango's score for paired proportions (1998)."""

import math
from dataclasses import dataclass

from scipy import special

from .binomial import Interval, check_confidence


@dataclass(frozen=True)
class NonInferiority:
    """Whether the new accuracy is at worst `margin` below the old one."""

    margin: float
    difference: float
    lower_bound: float
    p_value: float
    confidence: float

    @property
    def holds(self) -> bool:
        return self.lower_bound > -self.margin


def non_inferiority(
    negative_flips: float, positive_flips: float, total: float, margin: float, confidence: float = 0.95
) -> NonInferiority:
    """Test 'the new accuracy is more than `margin` below the old one' on paired rows, with Tango's score (1998).

    The score statistic stays right where the usual one breaks down: few flips, or none. `lower_bound` is the one-sided
    bound on new accuracy minus old accuracy that inverts the same test, so that it is above -margin exactly when the
    p-value is below 1 - confidence.
    """
    check_confidence(confidence)
    if negative_flips < 0 or positive_flips < 0 or not 0 < total >= negative_flips + positive_flips:
        raise ValueError(
            f"Got {negative_flips} negative and {positive_flips} positive flips of {total} rows, expected counts that "
            "are not negative and sum to at most the number of rows."
        )
    if not 0 <= margin < 1:
        raise ValueError(f"margin is {margin}, expected a fraction of the rows such as 0.005, 0 <= margin < 1.")
    score = _tango_score(negative_flips, positive_flips, total, -margin)
    bound = _tango_bound(negative_flips, positive_flips, total, confidence)
    difference = float((positive_flips - negative_flips) / total)
    return NonInferiority(margin, difference, bound, float(special.ndtr(-score)), confidence)


def accuracy_gain_interval(
    negative_flips: float, positive_flips: float, total: float, confidence: float = 0.95
) -> Interval:
    """Tango's two-sided score interval for new accuracy minus old accuracy on paired rows."""
    one_sided = (1 + check_confidence(confidence)) / 2
    low = _tango_bound(negative_flips, positive_flips, total, one_sided)
    high = -_tango_bound(positive_flips, negative_flips, total, one_sided)  # the same question with the models swapped
    return Interval(low, high, confidence)


def _tango_bound(negative: float, positive: float, total: float, confidence: float) -> float:
    """The smallest difference that the score does not reject: it falls with the assumed difference, so bisect it."""
    negative, positive, total = float(negative), float(positive), float(total)  # NumPy's own numbers are slower
    threshold = float(special.ndtri(confidence))
    low, high = -1.0, (positive - negative) / total
    for _ in range(60):
        middle = (low + high) / 2
        if _tango_score(negative, positive, total, middle) > threshold:
            low = middle
        else:
            high = middle
    return low


def _tango_score(negative: float, positive: float, total: float, assumed: float) -> float:
    """Tango's statistic for 'new minus old accuracy is `assumed`': the flips' variance is fitted under it."""
    linear = (2 * total - positive + negative) * assumed - positive - negative
    constant = -negative * assumed * (1 - assumed)
    fitted = (math.sqrt(max(linear**2 - 8 * total * constant, 0.0)) - linear) / (4 * total)
    variance = total * (2 * fitted + assumed * (1 - assumed))
    distance = positive - negative - total * assumed
    if variance <= 0:
        return math.copysign(math.inf, distance) if distance else 0.0
    return distance / math.sqrt(variance)
