import numpy as np
import pytest

from benchmarks.selection.__main__ import judge
from benchmarks.selection.curves import far_behind, massive_curves, pair_curves, table_curves
from benchmarks.selection.prior_fit import fit_prior
from benchmarks.selection.rules import RULES
from hf_pct.flips.choice.prior import LINEAR


def test_the_committed_prior_is_what_the_pairs_say():
    fitted, lines = fit_prior(pair_curves())
    assert len(lines) >= 15
    for name, (place, scale) in fitted.items():
        committed = getattr(LINEAR, name)
        assert committed[0] == pytest.approx(place, abs=0.02)
        assert committed[1] >= scale - 0.02  # never surer than the curves


def test_bars_on_massive():
    curves = massive_curves()
    assert len(curves) == 5
    row = judge(curves, RULES["fitted curve (default)"], 500, 100)
    assert row["loss"] <= 0.1
    assert row["broken"] <= 12
    assert row["nfr"] <= 1.4
    worse = judge(curves, RULES["measured accuracies"], 500, 30)
    assert worse["broken"] > 2 * row["broken"]
    far = judge(curves, RULES["fitted curve (default)"], 500, 40, far_behind)
    assert far["broken"] <= 8


def test_curves_of_tables_and_a_worse_old_model():
    assert len(table_curves("T7")) == 5
    assert len(table_curves("T8")) == 3
    curve = next(iter(massive_curves().values()))
    far = far_behind(curve, np.random.default_rng(0), 0.1)
    assert far.old_correct.mean() == pytest.approx(curve.old_correct.mean() - 0.1, abs=1e-3)
    assert np.array_equal(far.correct[0], curve.correct[0])
