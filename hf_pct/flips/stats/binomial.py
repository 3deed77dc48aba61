"""Exact intervals and bounds for a rate."""

from dataclasses import dataclass

from scipy import special


@dataclass(frozen=True)
class Interval:
    """A confidence interval for a rate or a difference of rates."""

    low: float
    high: float
    confidence: float


def clopper_pearson(count: float, total: float, confidence: float = 0.95) -> Interval:
    """The exact two-sided interval for a rate of which `count` of `total` rows were seen.

    Fractions of a row are allowed: Korn and Graubard's interval for weighted rows is this one with the effective
    number of rows, see `effective_size`.
    """
    tail = (1 - _check_binomial(count, total, confidence)) / 2
    return Interval(_lower(count, total, tail), _upper(count, total, tail), confidence)


def upper_bound(count: float, total: float, confidence: float = 0.95) -> float:
    """The exact one-sided bound: with this confidence the true rate is below it. 0 of 300 gives 0.0099."""
    return _upper(count, total, 1 - _check_binomial(count, total, confidence))


def lower_bound(count: float, total: float, confidence: float = 0.95) -> float:
    """The exact one-sided bound: with this confidence the true rate is above it."""
    return _lower(count, total, 1 - _check_binomial(count, total, confidence))


def _upper(count: float, total: float, tail: float) -> float:
    return 1.0 if count == total else float(special.betaincinv(count + 1, total - count, 1 - tail))


def _lower(count: float, total: float, tail: float) -> float:
    return 0.0 if count == 0 else float(special.betaincinv(count, total - count + 1, tail))


def _check_binomial(count: float, total: float, confidence: float) -> float:
    if not total > 0 or not 0 <= count <= total:
        raise ValueError(f"Got {count} of {total} rows, expected 0 <= count <= total and at least one row.")
    return check_confidence(confidence)


def check_confidence(confidence: float) -> float:
    """`confidence` itself; an error when it is not a fraction strictly between 0 and 1."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}, expected a fraction between 0 and 1 such as 0.95.")
    return confidence
