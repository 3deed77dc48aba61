"""The choice among candidates: of all (method, strength, alpha) that keep the contract, the one with fewest flips.

A candidate is a trained model and what lies between it and the old one; one that cannot be merged has alpha 0 alone.
Each is judged by the curve fitted to its rows, so that a choice on a few hundred rows does not follow their noise, or
on request by what was measured or by a paired test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..stats import non_inferiority, upper_bound
from .contract import DEFAULT_RISK, Contract
from .curve import AlphaCurve
from .fit import CurveFit, fit_curve
from .prior import LINEAR, Prior

LATE_ALPHA, LATE_RISK = 0.6, 0.05
"""Beyond this share of the old model few flips are left to undo and improvements are given up fastest. No update was
seen that could afford it, so the rows must prove that this one can: the risk may be no larger than `LATE_RISK`."""

RISK_POWER = 0.5
"""Of k candidates the luckiest on the rows is taken, so each may take only `risk / k ** RISK_POWER` of a chance."""

MARGINS_RISK = 0.2
"""Where margins are known the default risk is no larger than this, and the risk alone limits the loss: a count is so
noisy that a choice by it must also be held to a fair exchange."""

SAME_FLIPS = 0.5
"""Rows by which expected flips must differ to count as different; between points that are alike accuracy decides."""

PLAIN_CONTRADICTION = 3.0
"""Standard errors by which a measured loss must exceed the fitted one to be believed instead of it."""


@dataclass(frozen=True)
class Candidate:
    """One trained model with its rows along alpha.

    Args:
        name: says the method and its strength, such as `fd-lm 0.05/0.25`.
        curve: correctness at alpha 0, and at the other alphas when it can be merged with the old model.
        plain: whether it was trained without any treatment; the best of these is the yardstick.
        prior: what is known of its curve.
        start: what it was trained from. Only models of one start have margins of one shape, which can be compared.
    """

    name: str
    curve: AlphaCurve
    plain: bool = False
    prior: Prior = LINEAR
    start: str = ""


@dataclass(frozen=True)
class Point:
    """One candidate at one alpha: what was measured on the rows, what the fit says, and whether the contract holds.

    `loss` is accuracy lost against the yardstick; `low` and `high` of the fit enclose 90 %. Without a fit, expected
    values are the measured ones and the risk is 0 or 1.
    """

    candidate: str
    alpha: float
    accuracy: float
    nfr: float
    negative_flips: int
    expected_nfr: float
    nfr_low: float
    nfr_high: float
    expected_loss: float
    loss_low: float
    loss_high: float
    risk: float
    allowed: bool

    def to_dict(self) -> dict[str, float | str | bool]:
        return dict(vars(self))


@dataclass(frozen=True)
class Choice:
    """All points, and which one to ship; `best` is None when no point keeps the contract."""

    points: tuple[Point, ...]
    best: Point | None
    yardstick: str
    contract: Contract

    @property
    def nearest(self) -> Point:
        """The point that comes nearest to the contract: itself when kept, else the one with the smallest risk."""
        return self.best or min(self.points, key=lambda point: (point.risk, point.expected_nfr))

    @property
    def reason(self) -> str:
        promise = self.contract.describe(f"{self.yardstick}")
        if self.best is None:
            return f"no candidate keeps the promise ({promise})"
        count = sum(point.allowed for point in self.points)
        what = "the most accurate" if self.contract.max_nfr is not None else "the fewest negative flips"
        return f"{what} among {count} of {len(self.points)} candidates and alphas that keep: {promise}"


def find_yardstick(candidates: Sequence[Candidate], contract: Contract) -> Candidate:
    """The candidate whose alpha 0 accuracy is held against: the one that the contract names, or the best plain one."""
    if contract.yardstick is not None:
        named = [candidate for candidate in candidates if candidate.name == contract.yardstick]
        if not named:
            names = ", ".join(candidate.name for candidate in candidates)
            raise ValueError(f"The contract's yardstick {contract.yardstick!r} is none of the candidates: {names}")
        return named[0]
    plain = [candidate for candidate in candidates if candidate.plain] or [candidates[0]]
    return max(plain, key=lambda candidate: candidate.curve.accuracy[0])


def choose(candidates: Sequence[Candidate], contract: Contract | None = None) -> Choice:
    """Judge every candidate at every alpha and take the best that keeps the contract."""
    contract = contract or Contract()
    check_candidates(candidates)
    yard = find_yardstick(candidates, contract)
    points: list[Point] = []
    for candidate in candidates:
        if contract.fitted:
            points += _fitted_points(candidate, yard, contract, len(candidates))
        else:
            points += _measured_points(candidate, yard, contract)
    best = _best([point for point in points if point.allowed], yard, contract)
    return Choice(tuple(points), best, yard.name, contract)


def _best(allowed: Sequence[Point], yard: Candidate, contract: Contract) -> Point | None:
    """With `max_nfr` the most accurate; else the fewest flips, and of those alike within half a row the best."""
    if not allowed:
        return None
    if contract.max_nfr is not None:
        return min(allowed, key=_by_accuracy)
    first = min(allowed, key=_by_flips)
    if not contract.fitted:
        return first
    fewest = first.expected_nfr + SAME_FLIPS / yard.curve.total
    return min((point for point in allowed if point.expected_nfr < fewest), key=_by_accuracy)


def _largest_risk(contract: Contract, count: int, uses_margins: bool) -> float:
    """The chance of a broken promise that each of so many candidates may take."""
    shared = (contract.risk or 1.0) / count**RISK_POWER
    return min(shared, MARGINS_RISK) if uses_margins and contract.risk == DEFAULT_RISK else shared


def check_candidates(candidates: Sequence[Candidate]) -> None:
    """Raises unless the candidates have different names and the same rows."""
    if not candidates:
        raise ValueError("There are no candidates to choose from.")
    first = candidates[0].curve.old_correct
    problems = [
        f"{candidate.name} has {candidate.curve.total} rows or another old model than {candidates[0].name}"
        for candidate in candidates
        if not np.array_equal(candidate.curve.old_correct, first)
    ]
    names = [candidate.name for candidate in candidates]
    problems += [f"two candidates are called {name}" for name in sorted(set(names)) if names.count(name) > 1]
    if problems:
        raise ValueError("These candidates cannot be compared: " + "; ".join(problems))


def _by_flips(point: Point) -> tuple[float, ...]:
    """Fewest flips, then accuracy, then the larger alpha."""
    return point.expected_nfr, point.expected_loss, -point.alpha


def _by_accuracy(point: Point) -> tuple[float, ...]:
    """Accuracy, then fewest flips, then the larger alpha."""
    return point.expected_loss, point.expected_nfr, -point.alpha


def _selectable(alpha: float, contract: Contract) -> bool:
    return bool(alpha < 1.0 or contract.allow_old)


def _fitted_points(candidate: Candidate, yard: Candidate, contract: Contract, count: int) -> list[Point]:
    curve = candidate.curve
    accuracies, rates, flips = curve.accuracy, curve.nfr, curve.negative_flips
    margins = yard.curve.new_margins if candidate.start == yard.start else None
    fit = fit_curve(curve, yard.curve.new_correct, candidate.prior, yardstick_margins=margins)
    loss, nfr = fit.mean(fit.loss), fit.mean(fit.nfr)
    loss_range, nfr_range = fit.quantiles(fit.loss), fit.quantiles(fit.nfr)
    broken = np.zeros_like(fit.loss, bool)
    if contract.target_accuracy is not None:
        broken |= fit.accuracy < contract.target_accuracy
    elif contract.accuracy_matters:
        broken |= fit.loss > contract.allowed_loss + 1e-12
    if contract.max_nfr is not None:
        broken |= fit.nfr > contract.max_nfr
    risk = np.where(_contradicted(curve, yard.curve.new_correct, fit), 1.0, fit.chance(broken))
    most = _largest_risk(contract, count, fit.uses_margins)
    allowed = risk <= np.where(curve.alphas > LATE_ALPHA + 1e-9, min(LATE_RISK, most), most)
    if contract.max_nfr is None and contract.target_accuracy is None and not fit.uses_margins:
        saved = np.clip(1 - nfr / max(float(yard.curve.nfr[0]), 1e-9), 0.0, 1.0)
        allowed &= loss <= contract.exchange * contract.allowed_loss * saved**2 + 1e-12
    if candidate is yard and contract.max_nfr is None and contract.target_accuracy is None:
        allowed[0] = True  # the yardstick loses nothing against itself
    return [
        Point(
            candidate.name, float(alpha), float(accuracies[i]), float(rates[i]), int(flips[i]),
            expected_nfr=float(nfr[i]), nfr_low=float(nfr_range[i, 0]), nfr_high=float(nfr_range[i, 1]),
            expected_loss=float(loss[i]), loss_low=float(loss_range[i, 0]), loss_high=float(loss_range[i, 1]),
            risk=float(risk[i]), allowed=bool(allowed[i] and _selectable(alpha, contract)),
        )
        for i, alpha in enumerate(curve.alphas)
    ]  # fmt: skip


def _contradicted(curve: AlphaCurve, reference: np.ndarray, fit: CurveFit) -> np.ndarray:
    """The alphas at which far more accuracy was lost than the fit believes: no smooth curve goes there.

    Between models of two basins, or with statistics that were not recomputed, the middle of a merge falls off a cliff
    that the law knows nothing of. Rows that say so plainly are believed.
    """
    lost = reference.astype(float) - curve.correct
    noise = np.maximum(lost.var(1), 1 / curve.total) / curve.total
    believed = fit.mean(fit.loss)
    spread = fit.mean((fit.loss - believed[:, None]) ** 2)
    return lost.mean(1) - believed > PLAIN_CONTRADICTION * np.sqrt(noise + spread)


def _measured_points(candidate: Candidate, yard: Candidate, contract: Contract) -> list[Point]:
    curve, points = candidate.curve, []
    reference = yard.curve.new_correct
    losses = reference.mean() - curve.accuracy
    measured = zip(curve.alphas, curve.correct, curve.accuracy, curve.nfr, curve.negative_flips, losses, strict=True)
    for alpha, correct, accuracy, nfr, flips, loss in measured:
        holds = _holds(correct, int(flips), reference, contract)
        rate, lost = float(nfr), float(loss)
        points.append(
            Point(
                candidate.name, float(alpha), float(accuracy), rate, int(flips), expected_nfr=rate, nfr_low=rate,
                nfr_high=rate, expected_loss=lost, loss_low=lost, loss_high=lost, risk=float(not holds),
                allowed=holds and _selectable(alpha, contract),
            )
        )  # fmt: skip
    return points


def _holds(correct: np.ndarray, flips: int, reference: np.ndarray, contract: Contract) -> bool:
    """Whether the measured rows keep both sides, or with `confidence` the tests on them do."""
    total, kept = len(correct), True
    if contract.target_accuracy is not None:
        kept = bool(correct.mean() >= contract.target_accuracy)
    elif contract.accuracy_matters:
        worse, better = int((reference & ~correct).sum()), int((~reference & correct).sum())
        if contract.confidence is None:
            kept = (worse - better) / total <= contract.allowed_loss + 1e-12
        elif worse or better:  # a model with the same answers is not inferior, whatever the margin
            kept = non_inferiority(worse, better, total, contract.allowed_loss, contract.confidence).holds
    if contract.max_nfr is None:
        return kept
    rate = flips / total if contract.confidence is None else upper_bound(flips, total, contract.confidence)
    return kept and rate <= contract.max_nfr
