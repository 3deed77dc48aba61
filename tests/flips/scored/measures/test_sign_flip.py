import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_pct.flips.scored.measures import sign_flip as module
from hf_pct.flips.scored.measures.sign_flip import saddlepoint_tail, sign_flip
from hf_pct.flips.stats import mcnemar


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 20))
def test_zero_one_scores_give_the_exact_mcnemar_test(broken, fixed, same):
    differences = np.repeat([-1.0, 1.0, 0.0], [broken, fixed, same])
    result = sign_flip(differences)
    assert result.p_value == pytest.approx(mcnemar(broken, fixed).exact)
    assert result.p_worse == pytest.approx(mcnemar(broken, fixed, "worse").exact)


@settings(max_examples=30)
@given(st.lists(st.integers(-5, 5), min_size=1, max_size=10))
def test_few_rows_are_enumerated(values):
    differences = np.array(values, dtype=float) / 10
    sums = [
        sum(sign * abs(v) for sign, v in zip(signs, values, strict=True))
        for signs in itertools.product((-1, 1), repeat=len(values))
    ]
    result = sign_flip(differences)
    assert result.p_worse == pytest.approx(np.mean([total <= sum(values) for total in sums]))
    assert result.p_value == pytest.approx(np.mean([abs(total) >= abs(sum(values)) for total in sums]))


def test_the_three_ways_to_the_tail_agree(monkeypatch):
    rng = np.random.default_rng(0)
    differences = rng.normal(0.02, 0.2, 600)
    drawn = sign_flip(differences)
    assert drawn.method == "drawn"
    monkeypatch.setattr(module, "DRAWN", 100)
    tail = sign_flip(differences)
    assert tail.method == "saddlepoint"
    assert tail.p_value == pytest.approx(drawn.p_value, abs=0.015)
    assert tail.p_worse == pytest.approx(drawn.p_worse, abs=0.015)
    small = differences[:16]
    assert saddlepoint_tail(np.abs(small), abs(small.sum())) == pytest.approx(sign_flip(small).p_value / 2, rel=0.05)


def test_binned_sizes_change_nothing(monkeypatch):
    sizes = np.random.default_rng(1).exponential(1.0, 30_000)
    binned = saddlepoint_tail(sizes, 600.0)
    monkeypatch.setattr(module, "_BINS", 10**6)
    assert binned == pytest.approx(saddlepoint_tail(sizes, 600.0), rel=1e-4)


def test_clusters_are_flipped_whole():
    differences = np.array([-0.5, -0.5, -0.5, -0.25, 0.25])
    assert sign_flip(differences, np.array(["a", "a", "a", "b", "b"])).p_worse == 0.5  # one cluster that moved
    assert sign_flip(differences).p_worse < 0.25
    assert sign_flip(differences, np.arange(5)) == sign_flip(differences)


def test_nothing_changed():
    assert sign_flip(np.zeros(5)).p_value == 1.0


def test_the_test_keeps_its_level_when_nothing_changed():
    rng = np.random.default_rng(2)
    alarms = [sign_flip(rng.normal(size=12)).p_worse < 0.05 for _ in range(400)]
    assert np.mean(alarms) < 0.08
