"""Choosing again on other development rows: the parts are pooled by alpha, and the rest of the rows is the judge."""

import numpy as np
import pytest

from benchmarks.updates.resample import pooled_curves, resample_line
from hf_pct.flips.choice.contract import Contract
from hf_pct.flips.choice.prior import LINEAR

DEV = "development: "


def right_rows():
    """Old is right on the first half; plain breaks 20 of these rows and mends all others; half way none is broken."""
    rows = np.arange(400)
    old, plain = rows < 200, (rows >= 20)
    parts = {"old": old, "plain@0": plain, "plain@0.5": np.ones(400, bool), "plain@0.8": old}
    made = {}
    for name, right in parts.items():
        for prefix, part in ((DEV, right[::2]), ("", right[1::2])):
            if (prefix, name) != (DEV, "plain@0.8"):  # late alphas may be missing on the development rows
                made[prefix + name] = part
    return made


def test_both_parts_are_pooled_at_the_alphas_that_both_have():
    curve = pooled_curves(right_rows(), ["plain"], DEV)["plain"]
    assert curve.alphas.tolist() == [0.0, 0.5]
    assert curve.total == 400
    assert curve.nfr.tolist() == [20 / 400, 0.0]
    assert curve.accuracy.tolist() == [380 / 400, 1.0]


def test_a_line_says_what_the_choice_came_to_on_the_other_rows():
    curves = pooled_curves(right_rows(), ["plain"], DEV)
    seed = {"curves": curves, "offered": {"1": ["plain"]}, "plain": ("plain", "anew")}
    line = resample_line("x", "1", 200, [seed], LINEAR, Contract(margin=0.005, risk=None), draws=5)
    name, budget, count, draws, ratio, gain, half, whole = (cell.strip() for cell in line.strip("|").split("|"))
    assert (name, budget, count, draws) == ("x", "1", "200", "5")
    assert (ratio, half, whole) == ("0.00", "0 %", "0 %")
    assert float(gain) == pytest.approx(5, abs=2)  # 5 % of all rows are the flips that alpha 0.5 takes back
