"""Choosing again on other development rows: the parts are pooled by alpha, and the rest of the rows is the judge."""

import numpy as np
import pytest

from benchmarks.updates.kept import kept, kept_curve
from benchmarks.updates.margins import margins_line
from benchmarks.updates.resample import pooled_curves, resample_line
from hf_pct.flips.choice.contract import Contract
from hf_pct.flips.choice.curve import AlphaCurve
from hf_pct.flips.choice.prior import LINEAR

DEV = "development: "


def right_rows():
    """Old is right on the first half; plain breaks 20 of these rows and mends all others; half way none is broken."""
    rows = np.arange(400)
    old, plain = rows < 200, (rows >= 20)
    parts = {"old": old, "plain@0": plain, "plain@0.4": np.ones(400, bool), "plain@0.8": old}
    made = {}
    for name, right in parts.items():
        for prefix, part in ((DEV, right[::2]), ("", right[1::2])):
            if (prefix, name) != (DEV, "plain@0.8"):  # late alphas may be missing on the development rows
                made[prefix + name] = part
    return made


def test_both_parts_are_pooled_at_the_alphas_that_both_have():
    curve = pooled_curves(right_rows(), ["plain"], DEV)["plain"]
    assert curve.alphas.tolist() == [0.0, 0.4]
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
    assert float(gain) == pytest.approx(5, abs=2)  # 5 % of all rows are the flips that alpha 0.4 takes back


def test_kept_rows_say_what_is_right_and_by_how_much():
    margins = np.random.default_rng(0).normal(1, 3, 400)
    margins[:3] = (0.0, 1e-9, -1e-9)  # a tie is wrong here: no answer is the label's alone
    curve = AlphaCurve.of(margins > 0, {0.0: margins > 0, 0.5: margins > 1}, {0.0: margins})
    again = kept_curve(kept(curve, 0) > 0, {0.0: kept(curve, 0), 0.5: kept(curve, 1)})
    assert np.array_equal(again.correct, curve.correct)
    assert np.allclose(again.margins[0], margins / margins.std(), atol=0.021, rtol=0.11)
    assert np.isnan(again.margins[1]).all(), "rows of 0 and 1 are no margins"


def test_the_line_of_margins_compares_errors_and_leaves_out_models_of_another_start():
    rng = np.random.default_rng(1)
    yard = rng.normal(2, 2.5, 2000)
    own = yard + rng.normal(0, 1.2, 2000)
    old = yard > 0
    curves = {
        "plain": AlphaCurve.of(old, {0.0: yard > 0, 1.0: old}, {0.0: yard}),
        "anew": AlphaCurve.of(old, {0.0: own > 0}, {0.0: own}),
        "light": AlphaCurve.of(old, {0.0: own > 0, 1.0: old}, {0.0: own}),
    }
    name, models, counted, smooth, *_ = (cell.strip() for cell in margins_line("x", [curves]).strip("|").split("|"))
    assert (name, models) == ("x", "1")
    assert float(smooth) < 0.7 * float(counted)
    assert margins_line("x", [{"plain": AlphaCurve.of(old, {0.0: yard > 0})}]) is None
