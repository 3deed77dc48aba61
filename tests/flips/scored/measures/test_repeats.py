import numpy as np
import pytest

from hf_pct.flips.scored.measures.repeats import fisher_worse, hypergeometric, permute_within_items, regressed_items


def test_fisher_is_scipys():
    from scipy.stats import fisher_exact

    rng = np.random.default_rng(0)
    old_runs, new_runs = rng.integers(1, 12, (2, 60))
    old, new = rng.binomial(old_runs, 0.6), rng.binomial(new_runs, 0.4)
    expected = [
        fisher_exact([[n, k - n], [o, j - o]], alternative="less").pvalue
        for o, j, n, k in zip(old, old_runs, new, new_runs, strict=True)
    ]
    assert fisher_worse(old, old_runs, new, new_runs) == pytest.approx(expected)


def test_hypergeometric_sums_to_one():
    assert hypergeometric(3, 5, 4).sum() == pytest.approx(1)
    assert hypergeometric(9, 5, 4)[-1] == pytest.approx(1)


def test_exact_and_drawn_permutations_agree():
    rng = np.random.default_rng(1)
    chance = rng.random((40, 1))
    old, new = (rng.random((40, 4)) < chance).astype(float), (rng.random((40, 4)) < 0.9 * chance).astype(float)
    exact = permute_within_items(old, new)
    assert exact.method == "exact"
    drawn = permute_within_items(old * 0.5, new * 0.5)  # the same question, no longer of 0/1 scores
    assert drawn.method == "drawn"
    assert drawn.p_value == pytest.approx(exact.p_value, abs=0.03)
    assert drawn.p_worse == pytest.approx(exact.p_worse, abs=0.03)


def test_one_run_each_is_the_sign_flip_test():
    from hf_pct.flips.stats import mcnemar

    old, new = np.array([1, 1, 1, 1, 0, 0.0])[:, None], np.array([0, 0, 0, 0, 1, 0.0])[:, None]
    assert permute_within_items(old, new).p_worse == pytest.approx(mcnemar(4, 1, "worse").exact)


def test_runs_that_were_not_made_stay_apart():
    old = np.array([[1, 1, np.nan], [0.5, 0.5, 0.5]])
    new = np.array([[1.0, 1.0], [0.5, 0.5]])
    assert permute_within_items(old, new).p_value == 1.0


def test_items_that_regressed_are_found_and_noise_is_not():
    rng = np.random.default_rng(2)
    old = (rng.random((200, 10)) < 0.7).astype(float)
    new = (rng.random((200, 10)) < 0.7).astype(float)
    new[:5], old[:5] = 0.0, 1.0
    _, regressed = regressed_items(old, new, 1.0, 0.05)
    assert np.flatnonzero(regressed).tolist() == [0, 1, 2, 3, 4]
    _, again = regressed_items(old[5:], new[5:], 1.0, 0.05)
    assert not again.any()
