"""A small cut of benchmarks/coverage.py: the cells where the kit once promised too much."""

import pytest

from benchmarks.coverage import SECTIONS, measure

NOISE = 0.02  # two standard errors of 500 runs


def cells(section, *parts):
    return [cell for cell in SECTIONS[section]() if all(part in cell.name for part in parts)]


def check(cell, runs=500):
    shares = measure(cell, runs)
    for claim, share in shares.items():
        if claim.endswith("alarm"):
            assert share <= 0.05 + NOISE, (cell.name, claim)
        else:
            assert share >= 0.94 - NOISE, (cell.name, claim)


@pytest.mark.parametrize("cell", cells("clusters", "50 clusters of 10", "0.3"), ids=lambda cell: cell.name)
def test_clusters(cell):
    check(cell)


@pytest.mark.parametrize(
    "cell",
    cells("weights", "lognormal(1)", "500 rows") + cells("certificate", "600 rows") + cells("iid", "300 rows"),
    ids=lambda cell: cell.name,
)
def test_weights_certificates_and_single_rows(cell):
    check(cell)


@pytest.mark.parametrize(
    "cell", cells("excess", "300 rows") + cells("excess", "50 clusters"), ids=lambda cell: cell.name
)
def test_excess(cell):
    check(cell, 250)
