"""Which rows and classes an old model has: half of them, those of the paper's first file, or those of few classes."""

import numpy as np

from benchmarks.tables.inputs.tasks import Rows, Task

TRAIN = Rows([f"row {i}" for i in range(6)], np.array([0, 1, 2, 0, 1, 2]), np.arange(6))


def test_an_update_with_more_rows_starts_from_the_first_ones():
    task = Task("text", ("a", "b", "c"), TRAIN, TRAIN, old_rows=4)
    rows, names = task.part("old")
    assert rows.ids.tolist() == [0, 1, 2, 3]
    assert names == ("a", "b", "c")
    assert task.part("half_rows")[0].ids.tolist() == [0, 1, 2]
    assert task.part("all")[0].ids.tolist() == list(range(6))


def test_an_update_with_more_classes_starts_from_the_rows_of_a_few():
    rows, names = Task("text", ("a", "b", "c"), TRAIN, TRAIN, few=("a", "c")).part("old")
    assert rows.ids.tolist() == [0, 2, 3, 5]
    assert names == ("a", "c")
