"""Which alpha: the choice of `flips/choice` for one curve."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

import numpy as np

from ..core.decode import JsonObject
from ..core.moved import renamed
from ..flips.choice.certify import certify, nfr_p_value
from ..flips.choice.choose import Candidate, Point, choose
from ..flips.choice.contract import Contract, describe
from ..flips.choice.curve import AlphaCurve
from ..flips.choice.prior import LINEAR, WARPED, Prior, linear_prior

__all__ = ["Contract", "Selection", "describe", "fixed_sequence", "prior_of", "select_alpha"]
_NEW = "the new model"


@dataclass(frozen=True)
class Selection:
    """The alpha to ship; when no alpha keeps the promise, `kept` is False and `alpha` is 0: the new model.

    `risk` is the chance that the promise is broken, and `fit` one dict per alpha, both by the fitted curve.
    """

    alpha: float
    kept: bool
    reason: str
    accuracy: float
    nfr: float
    promise: str = ""
    nfr_bound: float | None = None
    rows_searched: int = 0
    rows_tested: int = 0
    risk: float | None = None
    fit: tuple[JsonObject, ...] = ()

    def to_dict(self) -> JsonObject:
        return asdict(self)

    as_dict = renamed("as_dict", to_dict)


def prior_of(method: str, added_classes: bool = False, batchnorm: bool = False) -> Prior:
    """What is known of the curve of a merge rule: only in a linear merge or a soup is alpha itself the progress."""
    return linear_prior(added_classes, batchnorm) if method in ("linear", "soup") else WARPED


def select_alpha(curve: AlphaCurve, contract: Contract | None = None, prior: Prior = LINEAR) -> Selection:
    """Choose by contract. Without `certify`, the numbers are those of the rows that the choice was made on.

    Example:
        >>> from hf_pct.merging import AlphaCurve, select_alpha
        >>> rows = 100
        >>> old, new, merged = [True] * 90 + [False] * 10, [True] * 85 + [False] * 5 + [True] * 10, [True] * rows
        >>> select_alpha(AlphaCurve.of(old, {0.0: new, 0.5: merged, 1.0: old})).alpha
        0.5
    """
    contract = contract or Contract()
    candidates = [Candidate(_NEW, curve, plain=True, prior=prior)]
    if contract.certify:
        choice, certificate = certify(candidates, contract)
        names = ("accuracy", "nfr", "promise", "nfr_bound", "rows_searched", "rows_tested")
        proved: JsonObject = {name: getattr(certificate, name) for name in names}
        if choice.best is None:
            failed = f"no alpha is certified within delta {contract.delta} ({describe(contract)})"
            return replace(_unmerged(curve, failed), **proved)
    else:
        choice, proved = choose(candidates, contract), {"rows_searched": curve.total}
        if choice.best is None:
            failed = f"no alpha keeps the promise ({describe(contract)})"
            return replace(_unmerged(curve, failed), fit=_fit(choice.points, contract), **proved)
    best = choice.best
    chosen = Selection(
        best.alpha, True, choice.reason.replace("candidates and alphas", "alphas"), best.accuracy, best.nfr,
        risk=best.risk if contract.fitted else None, fit=_fit(choice.points, contract),
    )  # fmt: skip
    return replace(chosen, **proved)


def _unmerged(curve: AlphaCurve, reason: str) -> Selection:
    reason += ": the new model is returned unmerged"
    return Selection(0.0, False, reason, float(curve.accuracy[0]), float(curve.nfr[0]))


def _fit(points: tuple[Point, ...], contract: Contract) -> tuple[JsonObject, ...]:
    if not contract.fitted:
        return ()
    names = ("alpha", "expected_nfr", "nfr_low", "nfr_high", "expected_loss", "loss_low", "loss_high", "risk")
    return tuple({name: getattr(point, name) for name in names} for point in points)


def fixed_sequence(search: AlphaCurve, proof: AlphaCurve, contract: Contract) -> np.ndarray:
    """Which alphas are proved to have NFR <= max_nfr, all together wrong with probability at most delta.

    The search part alone fixes the order, safest first; the proof part tests one alpha after another at the full level
    and stops at the first failure. `flips/choice/certify.py` does this for both sides and several candidates.
    """
    if contract.max_nfr is None:
        raise ValueError("fixed_sequence needs a contract with max_nfr, got None.")
    proved = np.zeros(len(search.alphas), bool)
    for i in np.lexsort((-search.alphas, search.negative_flips)):
        if search.alphas[i] >= 1 and not contract.allow_old:
            continue
        if nfr_p_value(int(proof.negative_flips[i]), proof.total, contract.max_nfr) > contract.delta:
            break
        proved[i] = True
    return proved
