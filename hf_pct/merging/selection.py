"""Which alpha: a contract on accuracy and flips, kept or openly not kept. NumPy and SciPy only.

Two forms. Accuracy first: of the alphas whose accuracy is not inferior to the new model (by `margin`) or to a target
(the lower end of a target model's interval, as in the BCWI talk), the one with the fewest negative flips. Flips first:
of the alphas with NFR at most `max_nfr`, the most accurate one.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import special

from hf_pct.flips.stats import non_inferiority, upper_bound
from hf_pct.merging.curve import Curve


@dataclass(frozen=True)
class Contract:
    """What the merged model must keep.

    Args:
        margin: accuracy that may be lost against the new model, a fraction.
        target_accuracy: the lower end of a target model's accuracy interval; replaces the new model as the yardstick.
        confidence: None compares the measured accuracies; a level such as 0.95 asks for a paired non-inferiority test
            (against the new model) or for the upper confidence bound of NFR (with `max_nfr`).
        max_nfr: the flips allowed; the most accurate alpha within them is taken.
        certify: split the rows, search on one part, prove on the other; the promise then holds with probability
            1 - delta however many alphas were searched.
        delta: the risk that the certificate is wrong.
        search_share: the part of the rows that the search may look at.
        allow_old: whether alpha = 1, which is no update at all, may be chosen.
    """

    margin: float = 0.0
    target_accuracy: float | None = None
    confidence: float | None = None
    max_nfr: float | None = None
    certify: bool = False
    delta: float = 0.05
    search_share: float = 0.5
    seed: int = 0
    allow_old: bool = False

    def __post_init__(self) -> None:
        problems = []
        for name in ("margin", "delta", "search_share", "target_accuracy", "max_nfr", "confidence"):
            value = getattr(self, name)
            strict = name in ("delta", "search_share", "confidence")
            if value is not None and not (0 < value < 1 if strict else 0 <= value <= 1):
                problems.append(f"{name} is {value}, expected a fraction {'between' if strict else 'from'} 0 and 1")
        if problems:
            raise ValueError("This contract cannot be kept: " + "; ".join(problems))


@dataclass(frozen=True)
class Selection:
    """The alpha to ship; when no alpha keeps the promise, `kept` is False and `alpha` is 0: the new model."""

    alpha: float
    kept: bool
    reason: str
    accuracy: float
    nfr: float
    promise: str = ""
    nfr_bound: float | None = None
    rows_searched: int = 0
    rows_tested: int = 0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def select_alpha(curve: Curve, contract: Contract | None = None) -> Selection:
    """Choose by contract. Without `certify`, the numbers are those of the rows that the choice was made on."""
    contract = contract or Contract()
    if contract.certify:
        return _certified(curve, contract)
    allowed = _candidates(curve, contract) & _accurate(curve, contract) & _few_flips(curve, contract)
    if not allowed.any():
        return _unmerged(curve, f"no alpha keeps the promise ({describe(contract)})", curve.total)
    best = _best(curve, contract, allowed)
    reason = f"{_by(contract)} among {int(allowed.sum())} alphas that keep: {describe(contract)}"
    return Selection(
        float(curve.alphas[best]), True, reason, float(curve.accuracy[best]), float(curve.nfr[best]),
        rows_searched=curve.total,
    )  # fmt: skip


def describe(contract: Contract) -> str:
    """The contract in words."""
    if contract.target_accuracy is not None:
        rule = f"accuracy >= {contract.target_accuracy:.4f}, the target's lower bound"
    else:
        how = f" (tested at {contract.confidence:.0%})" if contract.confidence else ""
        rule = f"accuracy at most {contract.margin:.4f} below the new model{how}"
    if contract.max_nfr is not None:
        return (
            f"NFR <= {contract.max_nfr:.4f} and {rule}" if contract.target_accuracy else f"NFR <= {contract.max_nfr}"
        )
    return rule


def _candidates(curve: Curve, contract: Contract) -> np.ndarray:
    return np.ones(len(curve.alphas), bool) if contract.allow_old else curve.alphas < 1.0


def _accurate(curve: Curve, contract: Contract) -> np.ndarray:
    """Which alphas keep the accuracy side. With `max_nfr` alone, accuracy is what is maximised, not a condition."""
    if contract.target_accuracy is not None:
        return curve.accuracy >= contract.target_accuracy
    if contract.max_nfr is not None:
        return np.ones(len(curve.alphas), bool)
    loss = curve.accuracy[0] - curve.accuracy
    if contract.confidence is None:
        return loss <= contract.margin + 1e-12
    kept = []
    for correct in curve.correct:
        worse, better = int((curve.new_correct & ~correct).sum()), int((~curve.new_correct & correct).sum())
        same = worse == better == 0  # the new model is not inferior to itself, whatever the margin
        kept.append(same or non_inferiority(worse, better, curve.total, contract.margin, contract.confidence).holds)
    return np.array(kept)


def _few_flips(curve: Curve, contract: Contract) -> np.ndarray:
    if contract.max_nfr is None:
        return np.ones(len(curve.alphas), bool)
    if contract.confidence is None:
        return curve.nfr <= contract.max_nfr
    bounds = [upper_bound(int(count), curve.total, contract.confidence) for count in curve.negative_flips]
    return np.array(bounds) <= contract.max_nfr


def _best(curve: Curve, contract: Contract, allowed: np.ndarray) -> int:
    """Fewest flips then accuracy, or with `max_nfr` the other way round; then the larger alpha."""
    flips, wrong = curve.negative_flips, (~curve.correct).sum(1)
    keys = (wrong, flips) if contract.max_nfr is not None else (flips, wrong)
    order = np.lexsort((-curve.alphas, keys[1], keys[0]))
    return int(next(i for i in order if allowed[i]))


def _by(contract: Contract) -> str:
    return "the most accurate" if contract.max_nfr is not None else "the fewest negative flips"


def _unmerged(curve: Curve, reason: str, searched: int, tested: int = 0) -> Selection:
    reason += ": the new model is returned unmerged"
    return Selection(
        0.0, False, reason, float(curve.accuracy[0]), float(curve.nfr[0]), rows_searched=searched, rows_tested=tested
    )


def _certified(curve: Curve, contract: Contract) -> Selection:
    """Search on one part of the rows; prove on the other, which the search has not seen."""
    order = np.random.default_rng(contract.seed).permutation(curve.total)
    cut = round(contract.search_share * curve.total)
    if not 0 < cut < curve.total:
        raise ValueError(f"{curve.total} rows are too few to split into a search part and a proof part.")
    search, proof = curve.rows(np.sort(order[:cut])), curve.rows(np.sort(order[cut:]))
    allowed = _candidates(search, contract) & _accurate(search, contract)
    if contract.max_nfr is not None:
        allowed &= fixed_sequence(search, proof, contract)
    if not allowed.any():
        what = f"no alpha is certified within delta {contract.delta} ({describe(contract)})"
        return _unmerged(proof, what, search.total, proof.total)
    best = _best(search, contract, allowed)
    # the choice depends on the search part, and in a sequence on a test whose own claim is `max_nfr`
    bound = contract.max_nfr
    if bound is None:
        bound = upper_bound(int(proof.negative_flips[best]), proof.total, 1 - contract.delta)
    return Selection(
        float(curve.alphas[best]),
        True,
        f"{_by(contract)} on {search.total} rows: {describe(contract)}",
        float(proof.accuracy[best]),
        float(proof.nfr[best]),
        promise=f"NFR <= {bound:.4f} with probability {1 - contract.delta:.4g}",
        nfr_bound=bound,
        rows_searched=search.total,
        rows_tested=proof.total,
    )


def fixed_sequence(search: Curve, proof: Curve, contract: Contract) -> np.ndarray:
    """Which alphas are proved to have NFR <= max_nfr, all together wrong with probability at most delta.

    Learn-then-Test with fixed-sequence testing: the search part alone fixes the order, safest first; the proof part
    tests one alpha after another at the full level and stops at the first failure. No correction for the number of
    alphas is needed, because the first true null in the order is rejected with probability at most delta.
    """
    if contract.max_nfr is None:
        raise ValueError("fixed_sequence needs a contract with max_nfr, got None.")
    order = np.lexsort((-search.alphas, search.negative_flips))
    proved = np.zeros(len(search.alphas), bool)
    candidates = _candidates(search, contract)
    for i in order:
        if not candidates[i]:
            continue
        # exact binomial test of 'NFR > max_nfr'
        p_value = float(special.bdtr(int(proof.negative_flips[i]), proof.total, contract.max_nfr))
        if contract.max_nfr < 1 and p_value > contract.delta:
            break
        proved[i] = True
    return proved
