"""The certificate holds at its stated rate, over searches that are made as wide and as misleading as can be."""

import numpy as np
import pytest
from scipy.stats import binom

from hf_pct.flips.choice.certify import certify, loss_p_value, split_rows
from hf_pct.flips.choice.choose import Candidate
from hf_pct.flips.choice.contract import Contract
from hf_pct.flips.choice.curve import Curve

DELTA, RUNS = 0.1, 400
LIMIT = DELTA + 3 * np.sqrt(DELTA * (1 - DELTA) / RUNS)


def many_methods(rng, total, nfr, loss, methods=4, alphas=10):
    """A plain model, and methods whose every alpha has the same true NFR and loses the same accuracy against it."""
    old = rng.random(total) < 0.8
    plain = np.where(old, rng.random(total) >= 0.03, rng.random(total) < 0.25)
    candidates = [Candidate("plain", Curve(np.array([0.0]), old, plain[None]), plain=True)]
    grid = np.linspace(0, 0.9, alphas)
    plain_nfr, plain_gain = 0.8 * 0.03, 0.2 * 0.25
    gain = plain_gain - plain_nfr - loss + nfr
    for method in range(methods):
        breaks, mends = rng.random((alphas, total)) < nfr / 0.8, rng.random((alphas, total)) < gain / 0.2
        correct = np.where(old, ~breaks, mends)
        candidates.append(Candidate(f"method {method}", Curve(grid, old, correct)))
    return candidates


@pytest.mark.parametrize(
    ("nfr", "loss", "limits"),
    [
        (0.01, 0.026, {"margin": 0.02}),  # accuracy is broken everywhere, flips are fine
        (0.01, 0.021, {"margin": 0.02, "max_nfr": 0.02}),
        (0.021, 0.0, {"margin": 0.02, "max_nfr": 0.02}),  # flips are broken everywhere, accuracy is fine
        (0.021, 0.021, {"margin": 0.02, "max_nfr": 0.02}),
    ],
)
def test_what_no_candidate_keeps_is_rarely_certified(nfr, loss, limits):
    rng = np.random.default_rng(0)
    contract = Contract(certify=True, delta=DELTA, risk=None, **limits)
    wrong = 0
    for _ in range(RUNS):
        choice, certificate = certify(many_methods(rng, 1000, nfr, loss), contract)
        wrong += certificate.holds and certificate.candidate != "plain"
        assert (choice.best is not None) == certificate.holds
    assert wrong / RUNS < LIMIT


def test_the_nfr_bound_holds_when_the_search_is_wide():
    rng, nfr = np.random.default_rng(1), 0.02
    contract = Contract(certify=True, delta=DELTA, risk=None, margin=0.03)
    too_small = certified = 0
    for _ in range(RUNS):
        _, certificate = certify(many_methods(rng, 1000, nfr, -0.01), contract)
        certified += certificate.holds
        too_small += certificate.holds and certificate.nfr_bound < nfr
    assert too_small / RUNS < LIMIT
    assert certified / RUNS > 0.75  # and it is not just silent


@pytest.mark.parametrize("limits", [{"margin": 0.02}, {"margin": 0.02, "max_nfr": 0.02}])
def test_the_fitted_search_is_as_honest(limits):
    rng, runs, wrong = np.random.default_rng(2), 60, 0
    contract = Contract(certify=True, delta=DELTA, **limits)
    for _ in range(runs):
        _, certificate = certify(many_methods(rng, 1000, 0.021, 0.025, methods=2), contract)
        wrong += certificate.holds and certificate.candidate != "plain"
    assert wrong / runs < DELTA + 3 * np.sqrt(DELTA * (1 - DELTA) / runs)


def test_what_is_far_within_the_promise_is_certified():
    rng = np.random.default_rng(3)
    contract = Contract(certify=True, delta=DELTA, margin=0.03, max_nfr=0.03)
    certificates = [certify(many_methods(rng, 4000, 0.005, -0.02), contract)[1] for _ in range(10)]
    assert all(certificate.holds and certificate.candidate != "plain" for certificate in certificates)
    promise = certificates[0].promise
    assert promise == "NFR <= 0.0300 and accuracy loss <= 0.0300 against plain with probability 0.9"


@pytest.mark.parametrize("share", [0.012, 0.05, 0.2])
@pytest.mark.parametrize("total", [200, 1000])
def test_the_exact_test_of_accuracy_keeps_its_level(total, share):
    """At the edge of the margin, whatever share of rows differs, it rejects at most as often as stated."""
    rng, margin, level = np.random.default_rng(4), 0.01, 0.1
    draws = rng.multinomial(total, [(share + margin) / 2, (share - margin) / 2, 1 - share], size=3000)
    outcomes, counts = np.unique(draws[:, :2], axis=0, return_counts=True)
    rejected = sum(n for (worse, better), n in zip(outcomes, counts, strict=True)
                   if loss_p_value(int(worse), int(better), total, margin) <= level)  # fmt: skip
    assert rejected / 3000 < level + 3 * np.sqrt(level * (1 - level) / 3000)


def test_the_exact_test_of_accuracy_in_a_case_with_a_closed_form():
    """When only the yardstick can be right alone, the p-value at the margin's own share is a binomial tail."""
    assert loss_p_value(3, 0, 1000, 0.02) >= binom.cdf(3, 1000, 0.02)
    assert loss_p_value(3, 0, 1000, 0.02) < 0.01
    assert loss_p_value(0, 0, 100, 1.0) == 0.0
    assert loss_p_value(50, 0, 1000, 0.02) > 0.9


def test_the_split_is_the_contracts_and_too_few_rows_are_refused():
    search, proof = split_rows(101, Contract(search_share=0.3, seed=5))
    assert len(search) == 30
    assert sorted([*search, *proof]) == list(range(101))
    assert np.array_equal(search, split_rows(101, Contract(search_share=0.3, seed=5))[0])
    with pytest.raises(ValueError, match="too few to split"):
        split_rows(1, Contract())
