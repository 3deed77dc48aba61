"""The certificate against the widest searches: hundreds of candidates, good ones among bad, dropping."""

import numpy as np
import pytest

from hf_pct.flips.choice.certify import certify, certify_parts, find_unprovable, split_rows
from hf_pct.flips.choice.choose import Candidate
from hf_pct.flips.choice.contract import Contract
from hf_pct.flips.choice.curve import AlphaCurve

DELTA, RUNS, ROWS = 0.1, 300, 800
LIMIT = DELTA + 3 * np.sqrt(DELTA * (1 - DELTA) / RUNS)
OLD_RIGHT, PLAIN_NFR, PLAIN_PFR = 0.8, 0.03, 0.05


def draw(rng, nfr, loss, alphas):
    """Correctness at every alpha, all with the same true NFR and the same true loss against the plain model."""
    old = draw.old
    gain = PLAIN_PFR - PLAIN_NFR - loss + nfr
    breaks = rng.random((len(alphas), len(old))) < nfr / OLD_RIGHT
    mends = rng.random((len(alphas), len(old))) < gain / (1 - OLD_RIGHT)
    return np.where(old, ~breaks, mends)


def search_space(rng, methods, alphas=10):
    """A plain model and one candidate per (true NFR, true loss)."""
    old = rng.random(ROWS) < OLD_RIGHT
    draw.old = old
    right = np.where(old, rng.random(ROWS) >= PLAIN_NFR / OLD_RIGHT, rng.random(ROWS) < PLAIN_PFR / (1 - OLD_RIGHT))
    candidates = [Candidate("plain", AlphaCurve(np.array([0.0]), old, right[None]), plain=True)]
    grid = np.linspace(0, 0.9, alphas)
    for number, (nfr, loss) in enumerate(methods):
        candidates.append(Candidate(f"method {number}", AlphaCurve(grid, old, draw(rng, nfr, loss, grid))))
    return candidates


@pytest.mark.parametrize(
    ("nfr", "loss", "limits"),
    [
        (0.01, 0.021, {"margin": 0.02}),
        (0.01, 0.021, {"margin": 0.02, "max_nfr": 0.02}),
        (0.021, 0.0, {"margin": 0.02, "max_nfr": 0.02}),
    ],
)
def test_three_hundred_candidates_that_all_break_one_side(nfr, loss, limits):
    rng, wrong = np.random.default_rng(10), 0
    contract = Contract(certify=True, delta=DELTA, risk=None, **limits)
    for _ in range(RUNS):
        _, certificate = certify(search_space(rng, [(nfr, loss)] * 30), contract)
        wrong += certificate.holds and certificate.candidate != "plain"
    assert wrong / RUNS < LIMIT


@pytest.mark.parametrize("limits", [{"margin": 0.02}, {"margin": 0.02, "max_nfr": 0.025}])
def test_good_candidates_among_bad_ones_are_not_mixed_up(limits):
    """Half keep both sides, half lose accuracy: what is certified is rarely one that does not keep its promise."""
    rng, wrong, certified = np.random.default_rng(11), 0, 0
    contract = Contract(certify=True, delta=DELTA, risk=None, **limits)
    methods = [(0.008, -0.01), (0.004, 0.024)] * 5
    for _ in range(RUNS):
        _, certificate = certify(search_space(rng, methods, alphas=5), contract)
        number = int(certificate.candidate.split()[-1]) if certificate.candidate != "plain" else 0
        wrong += certificate.holds and number % 2 == 1
        certified += certificate.holds
    assert wrong / RUNS < LIMIT
    assert certified / RUNS > 0.3


def test_candidates_dropped_by_the_search_rows_leave_the_proof_honest():
    """Successive halving on the search rows: only the luckiest of 40 come to the proof, which saw none of it."""
    rng, wrong = np.random.default_rng(12), 0
    contract = Contract(certify=True, delta=DELTA, risk=None, margin=0.02)
    for _ in range(RUNS):
        candidates = search_space(rng, [(0.01, 0.021)] * 40, alphas=1)
        search, proof = split_rows(ROWS, contract)
        parts = [[Candidate(c.name, c.curve.rows(rows), c.plain) for c in candidates] for rows in (search, proof)]
        order = sorted(range(1, 41), key=lambda i: -parts[0][i].curve.accuracy[0])
        kept = [0, *order[:5]]
        _, certificate = certify_parts([parts[0][i] for i in kept], [parts[1][i] for i in kept], contract)
        wrong += certificate.holds and certificate.candidate != "plain"
    assert wrong / RUNS < LIMIT


def test_choosing_on_the_proof_rows_themselves_would_be_caught():
    """The simulation can fail: with the same rows for search and proof, the promise is broken far too often."""
    rng, wrong = np.random.default_rng(13), 0
    contract = Contract(certify=True, delta=DELTA, risk=None, margin=0.02)
    for _ in range(60):
        candidates = search_space(rng, [(0.01, 0.021)] * 40, alphas=1)
        best = max(candidates[1:], key=lambda candidate: candidate.curve.accuracy[0])
        _, certificate = certify_parts([candidates[0], best], [candidates[0], best], contract)
        wrong += certificate.holds and certificate.candidate != "plain"
    assert wrong / 60 > 0.3


def test_what_rows_cannot_prove_is_known_before_they_are_searched():
    assert find_unprovable(Contract(max_nfr=0.001), 100) == []
    problems = find_unprovable(Contract(max_nfr=0.001, certify=True), 1000)
    assert len(problems) == 1
    assert "500 of 1000 development rows" in problems[0]
    assert find_unprovable(Contract(max_nfr=0.006, certify=True), 1000) == []
    assert "too few to split" in find_unprovable(Contract(certify=True), 1)[0]
