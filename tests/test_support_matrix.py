"""Every family of docs/models.md does what the page says: predict, one step of focal distillation, merge, Fisher."""

import sys
from pathlib import Path

import pytest
from support_families import FAMILIES

sys.path.insert(0, str(Path(__file__).parent / "training"))  # the kit of the training tests

from support_matrix import PAGE, check, render, row_of


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_family_does_what_the_page_says(family, tmp_path):
    assert row_of(family, check(family, tmp_path)) in PAGE.read_text(encoding="utf-8").splitlines()


def test_the_page_is_current():
    text = PAGE.read_text(encoding="utf-8")
    names = [f"| {family.name} |" for family in FAMILIES]
    rows = [line for line in text.splitlines() if line.startswith(tuple(names))]
    assert [line.split(" | ")[0] for line in rows] == [name.removesuffix(" |") for name in names]
    assert text == render(rows)
