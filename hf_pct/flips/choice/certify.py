"""The certificate: NFR <= x and accuracy loss <= m, wrong with probability at most delta, however wide the search was.

The rows are split once. The search sees one part, and everything that it decides, candidates dropped early included,
uses that part alone. The other part proves. A candidate's null hypothesis is "NFR > x or loss > m"; it is rejected
only when the tests of both sides reject at delta (intersection-union), which needs no correction between them. Without
a limit x, the search names one candidate and its NFR is bounded: if it loses more than m it passes with probability at
most delta, and otherwise its bound is too small with probability at most delta. With a limit, candidates of all
methods are tested one after another, safest first by the search part, until one fails: the first candidate that breaks
the promise passes with probability at most delta, so no correction for the number of candidates is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from ..stats import clopper_pearson, upper_bound
from .choose import Candidate, Choice, Point, choose, find_yardstick
from .contract import Contract

_NUISANCE_RISK = 1e-3  # spent on the interval of the share of discordant rows


@dataclass(frozen=True)
class Certificate:
    """What was proved of one candidate on rows that the search did not see; `holds` is False when it was not."""

    candidate: str
    alpha: float
    holds: bool
    promise: str
    nfr_bound: float | None
    max_loss: float | None
    nfr: float
    accuracy: float
    yardstick_accuracy: float
    delta: float
    rows_searched: int
    rows_tested: int

    def to_dict(self) -> dict[str, float | str | bool | None]:
        return dict(vars(self))


def split_rows(total: int, contract: Contract) -> tuple[np.ndarray, np.ndarray]:
    """Which rows the search may see, and which ones prove; the same split for the same contract."""
    cut = round(contract.search_share * total)
    if not 0 < cut < total:
        raise ValueError(f"{total} rows are too few to split into a search part and a proof part.")
    order = np.random.default_rng(contract.seed).permutation(total)
    return np.sort(order[:cut]), np.sort(order[cut:])


def loss_p_value(worse: int, better: int, total: int, margin: float) -> float:
    """Exact p-value of "the accuracy lost is more than `margin`" on paired rows.

    `worse` rows only the yardstick gets right, `better` ones only the candidate. How many rows differ is a nuisance:
    the p-value is the largest over an interval for it, plus the risk of that interval (Berger and Boos 1994).
    """
    if margin >= 1:
        return 0.0
    interval = clopper_pearson(worse + better, total, 1 - _NUISANCE_RISK)
    shares = np.linspace(max(interval.low, margin, 1e-12), max(interval.high, margin, 1e-12), 25)
    spread = 9 * np.sqrt(shares * total + 1)
    low, high = max(0, int((shares * total - spread).min())), min(total, int((shares * total + spread).max()) + 1)
    differing = np.arange(low, high + 1)
    log_weight = (
        special.gammaln(total + 1) - special.gammaln(differing + 1) - special.gammaln(total - differing + 1)
        + special.xlogy(differing, shares[:, None]) + special.xlog1py(total - differing, -shares[:, None])
    )  # fmt: skip
    most = np.floor((differing + worse - better) / 2)
    chance_worse = np.minimum(1.0, (shares + margin) / (2 * shares))[:, None]
    tail = np.where(most < 0, 0.0, special.bdtr(np.clip(most, 0, differing), differing, chance_worse))
    return float(min(1.0, (np.exp(log_weight) * tail).sum(1).max() + _NUISANCE_RISK))


def nfr_p_value(count: int, total: int, limit: float) -> float:
    """Exact binomial p-value of "NFR is more than `limit`"."""
    return 0.0 if limit >= 1 else float(special.bdtr(count, total, limit))


def find_unprovable(contract: Contract, total: int) -> list[str]:
    """What so many rows cannot prove whatever the models answer, one line each; empty when nothing is certified."""
    if not contract.certify:
        return []
    proof = total - round(contract.search_share * total)
    if not 0 < proof < total:
        return [f"certify is set, and {total} development rows are too few to split into a search and a proof part"]
    least = upper_bound(0, proof, 1 - contract.delta)
    amount = f"with {proof} of {total} development rows to prove it and delta {contract.delta:g}"
    problems = []
    if contract.max_nfr is not None and contract.max_nfr < least:
        problems.append(
            f"max_nfr is {contract.max_nfr:g}, and {amount} even a model without one flip proves only "
            f"NFR <= {least:.4f}. Give more development rows, a larger max_nfr or delta, or leave certify out"
        )
    if contract.target_accuracy is not None and 1 - contract.target_accuracy < least:
        problems.append(
            f"target_accuracy is {contract.target_accuracy:g}, and {amount} even a model that is always right proves "
            f"only accuracy >= {1 - least:.4f}. Give more development rows, a lower target, or leave certify out"
        )
    return problems


@dataclass(frozen=True)
class _Proof:
    """The proof rows of all candidates."""

    candidates: dict[str, Candidate]
    yardstick: str
    contract: Contract

    def correct(self, point: Point) -> np.ndarray:
        curve = self.candidates[point.candidate].curve
        return curve.correct[curve.index(point.alpha)]

    @property
    def reference(self) -> np.ndarray:
        return self.candidates[self.yardstick].curve.new_correct

    def flips(self, point: Point) -> tuple[int, int]:
        old = self.candidates[point.candidate].curve.old_correct
        return int((old & ~self.correct(point)).sum()), len(old)

    def keeps_accuracy(self, point: Point) -> bool:
        """Whether the accuracy side is proved. The yardstick loses nothing against itself."""
        contract, correct = self.contract, self.correct(point)
        if contract.target_accuracy is not None:
            wrong = int((~correct).sum())
            return nfr_p_value(wrong, len(correct), 1 - contract.target_accuracy) <= contract.delta
        if not contract.accuracy_matters or (point.candidate == self.yardstick and point.alpha == 0):
            return True
        worse, better = int((self.reference & ~correct).sum()), int((~self.reference & correct).sum())
        return loss_p_value(worse, better, len(correct), contract.allowed_loss) <= contract.delta

    def keeps_nfr(self, point: Point) -> bool:
        limit = self.contract.max_nfr
        return limit is None or nfr_p_value(*self.flips(point), limit) <= self.contract.delta

    def certificate(self, point: Point, holds: bool, searched: int) -> Certificate:
        contract, correct = self.contract, self.correct(point)
        count, total = self.flips(point)
        bound = contract.max_nfr if contract.max_nfr is not None else upper_bound(count, total, 1 - contract.delta)
        said = [f"NFR <= {bound:.4f}"]
        if contract.target_accuracy is not None:
            said.append(f"accuracy >= {contract.target_accuracy:.4f}")
        elif contract.accuracy_matters:
            said.append(f"accuracy loss <= {contract.allowed_loss:.4f} against {self.yardstick}")
        promise = f"{' and '.join(said)} with probability {1 - contract.delta:.4g}" if holds else ""
        return Certificate(
            point.candidate, point.alpha, holds, promise, bound if holds else None,
            contract.allowed_loss if contract.accuracy_matters and contract.target_accuracy is None else None,
            count / total, float(correct.mean()), float(self.reference.mean()), contract.delta, searched, total,
        )  # fmt: skip


def certify(candidates: Sequence[Candidate], contract: Contract) -> tuple[Choice, Certificate]:
    """Search on one part of the rows and prove on the other. The choice holds what the search part said."""
    search_rows, proof_rows = split_rows(candidates[0].curve.total, contract)
    parts = [
        [replace(candidate, curve=candidate.curve.rows(rows)) for candidate in candidates]
        for rows in (search_rows, proof_rows)
    ]
    return certify_parts(parts[0], parts[1], contract)


def certify_parts(
    search: Sequence[Candidate], proof: Sequence[Candidate], contract: Contract
) -> tuple[Choice, Certificate]:
    """The same with parts that were split before; `proof` may hold only candidates that the search left."""
    choice = choose(search, contract)
    evidence = _Proof({candidate.name: candidate for candidate in proof}, choice.yardstick, contract)
    present = [point for point in choice.points if point.candidate in evidence.candidates]
    points = [point for point in present if point.alpha < 1.0 or contract.allow_old]
    searched = search[0].curve.total
    if contract.max_nfr is None:
        best = _most_worthwhile(points, choice, evidence, search)
        holds = best is not None and evidence.keeps_accuracy(best)
    else:
        best = _last_proved(points, evidence)
        holds = best is not None
    shown = best or choice.nearest
    return replace(choice, best=best if holds else None), evidence.certificate(shown, holds, searched)


def _most_worthwhile(
    points: Sequence[Point], choice: Choice, evidence: _Proof, search: Sequence[Candidate]
) -> Point | None:
    """The point to put to the proof: the chosen one, unless another promises more flips saved times chance to pass."""
    if not choice.contract.fitted or choice.contract.target_accuracy is not None:
        return choice.best
    rows = len(evidence.reference)
    reference = find_yardstick(search, choice.contract).curve
    quantile = float(special.ndtri(1 - choice.contract.delta))

    def worth(point: Point) -> float:
        curve = next(candidate.curve for candidate in search if candidate.name == point.candidate)
        differ = float((curve.correct[curve.index(point.alpha)] != reference.new_correct).mean())
        spread = np.hypot((point.loss_high - point.loss_low) / 3.29, np.sqrt((differ + 1 / curve.total) / rows))
        needed = quantile * np.sqrt((differ + 1 / curve.total) / rows)
        passes = special.ndtr((choice.contract.allowed_loss - needed - point.expected_loss) / spread)
        return float(passes) * (float(reference.nfr[0]) - point.expected_nfr)

    worthwhile = [point for point in points if point.allowed and worth(point) > 0]
    return max(worthwhile, key=worth) if worthwhile else choice.best


def _last_proved(points: Sequence[Point], evidence: _Proof) -> Point | None:
    """Fixed-sequence testing, safest first; of the proved points, the best by the search part."""
    proved = []
    for point in sorted(points, key=lambda point: (point.risk, point.expected_nfr, -point.alpha)):
        if not (evidence.keeps_nfr(point) and evidence.keeps_accuracy(point)):
            break
        proved.append(point)
    return min(proved, key=lambda point: (point.expected_loss, point.expected_nfr, -point.alpha)) if proved else None
