"""How near a student is to its ensemble, by hand and on a toy table."""

import numpy as np
import pytest

from benchmarks.tables.specs import read_table
from benchmarks.tables.store import LOGITS, Store
from benchmarks.tables.student_gaps import describe, gap_of, nearness

ENSEMBLE = np.array([[3.0, 1.0, -4.0], [0.0, 2.0, -2.0]])


def test_the_gaps_by_hand():
    assert gap_of(ENSEMBLE) == 2.0
    assert nearness(ENSEMBLE, ENSEMBLE) == (0.0, 0.0, 0.0, 0.0)
    assert nearness(ENSEMBLE + 7.0, ENSEMBLE) == (0.0, 0.0, 0.0, 0.0), "a constant on all logits changes no answer"
    halved = nearness(ENSEMBLE / 2, ENSEMBLE)
    assert halved[1:] == (-1.0, 0.0, 0.0), "every gap lacks 1, and no answer is another"
    assert halved[0] == pytest.approx(np.sqrt(((ENSEMBLE / 2) ** 2).mean()))
    swapped = np.array([[1.0, 3.0, -4.0], [0.0, 2.0, -2.0]])
    assert nearness(swapped, ENSEMBLE)[1:] == (-2.0, 2.0, 0.5)


TINY = """
title: a toy
paper: nothing
caption: students beside plain models
data: {name: tiny, train: 48, test: 40, seed: 0}
seeds: [1, 2, 3]
recipe: tiny
cells:
  old: {train: none, model: tiny}
  none: {train: none, model: tiny, seed: 3}
  old_elodi: {train: elodi, model: tiny, seed: 9, members: {mean: old, of: 3, take: 2, first: 1}}
  elodi: {train: elodi, model: tiny, seed: 19, members: {mean: old, of: 3, take: 2, first: 2}}
rows:
  - {name: none, old: old, new: none}
  - {name: elodi, old: old_elodi, new: elodi}
"""


def test_a_line_for_each_row_of_students(tmp_path, capsys):
    path = tmp_path / "T0.yaml"
    path.write_text(TINY)
    table, store = read_table(path), Store(tmp_path / "work", tmp_path / "results")
    assert list(describe(table, store)) == []
    assert "T0: elodi: no logits of" in capsys.readouterr().err
    for cell, made in table.cells.items():
        store.folder(cell).mkdir(parents=True)
        student = made.spec["method"] == "elodi"
        np.savez(store.folder(cell) / LOGITS, test=(ENSEMBLE / 2 if student else ENSEMBLE).astype(np.float16))
    (line,) = describe(table, store)
    assert line.startswith("| T0: elodi | 6 | ")
    assert line.split(" | ")[4:7] == ["2.00", "-1.00", "0.00"]
