"""The rules that are judged, each a function from a curve on development rows and its prior to an alpha."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hf_pct.flips.choice.contract import Contract
from hf_pct.flips.choice.curve import AlphaCurve
from hf_pct.flips.choice.prior import Prior
from hf_pct.merging.selection import select_alpha

Rule = Callable[[AlphaCurve, Prior], float]
MARGIN = 0.005


def _by_contract(**conditions: float | None) -> Rule:
    contract = Contract(margin=MARGIN, **conditions)
    return lambda curve, prior: select_alpha(curve, contract, prior).alpha


def _fixed(alpha: float) -> Rule:
    return lambda curve, _: float(curve.alphas[int(np.argmin(np.abs(curve.alphas[:-1] - alpha)))])


RULES: dict[str, Rule] = {
    "fitted curve (default)": _by_contract(),
    "fitted curve, risk 0.2": _by_contract(risk=0.2),
    "measured accuracies": _by_contract(risk=None),
    "paired test at 95 %": _by_contract(confidence=0.95),
    "fixed 0.5": _fixed(0.5),
}
