import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_pct.flips.counts import RATES, FlipCounts, count_flips


@st.composite
def three_columns(draw):
    size = draw(st.integers(1, 60))
    classes = draw(st.integers(1, 5))
    column = st.lists(st.integers(0, classes - 1), min_size=size, max_size=size)
    return draw(column), draw(column), draw(column)


def by_hand(old, new, truth):
    """The five counts, row by row."""
    cells = [0, 0, 0, 0, 0]
    for o, n, y in zip(old, new, truth, strict=True):
        cells[0 if o == y == n else 1 if o == y else 2 if n == y else 3 if o == n else 4] += 1
    return FlipCounts(*cells)


@given(three_columns())
def test_counts_are_those_made_by_hand(columns):
    assert count_flips(*columns) == by_hand(*columns)


@given(three_columns())
def test_identities(columns):
    counts = count_flips(*columns)
    assert counts.new_accuracy - counts.old_accuracy == pytest.approx(counts.pfr - counts.nfr)
    assert counts.accuracy_gain == pytest.approx(counts.pfr - counts.nfr)
    assert max(0, counts.old_accuracy - counts.new_accuracy) <= counts.nfr + 1e-12
    assert counts.nfr <= min(counts.old_accuracy, counts.new_error_rate) + 1e-12
    assert counts.bec == pytest.approx(1 - counts.nfi)
    assert counts.old_accuracy + counts.old_error_rate == pytest.approx(1)
    assert counts.new_accuracy + counts.new_error_rate == pytest.approx(1)
    assert counts.churn == pytest.approx(np.mean(np.array(columns[0]) != np.array(columns[1])))
    if counts.old_accuracy:
        assert counts.btc == pytest.approx(counts.both_right / (counts.both_right + counts.negative_flips))
    if counts.new_error_rate:
        assert counts.bec == pytest.approx(counts.both_wrong / (counts.both_wrong + counts.negative_flips))


@given(three_columns(), st.randoms(use_true_random=False))
def test_neither_row_order_nor_class_order_matters(columns, random):
    order = list(range(len(columns[0])))
    random.shuffle(order)
    renamed = [4, 2, 0, 1, 3]
    shuffled = [[renamed[column[row]] for row in order] for column in columns]
    assert count_flips(*shuffled) == count_flips(*columns)


@given(three_columns(), st.integers(1, 4))
def test_a_weight_of_k_is_k_copies_of_the_row(columns, times):
    weights = np.arange(len(columns[0])) % times + 1
    weighted = count_flips(*columns, sample_weight=weights)
    repeated = count_flips(*(np.repeat(column, weights) for column in columns))
    assert weighted.total == pytest.approx(repeated.total)
    for name in RATES:
        assert getattr(weighted, name) == pytest.approx(getattr(repeated, name), abs=1e-12), name


def test_the_sum_of_two_counts_is_the_count_of_both():
    rng = np.random.default_rng(0)
    columns = rng.integers(0, 3, (3, 1000))
    assert count_flips(*columns[:, :400]) + count_flips(*columns[:, 400:]) == count_flips(*columns)


def test_many_blocks_give_the_same_as_one_pass():
    rng = np.random.default_rng(1)
    old, new, truth = rng.integers(0, 4, (3, 200_001))
    counts = count_flips(old, new, truth)
    assert counts.negative_flips == np.sum((old == truth) & (new != truth))
    assert counts.positive_flips == np.sum((old != truth) & (new == truth))
    assert counts.both_wrong_same == np.sum((old != truth) & (new == old))
    assert counts.total == 200_001


def test_published_definition_of_relative_nfr():
    # 100 rows, old 80 % right, new 10 % wrong, half of whose errors are new
    counts = FlipCounts(both_right=75, negative_flips=5, positive_flips=15, both_wrong_same=5, both_wrong_different=0)
    assert counts.relative_nfr == pytest.approx(0.05 / (0.80 * 0.10))
    assert counts.nfi == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        (FlipCounts(0, 0, 0, 3, 1), {"relative_nfr": 0.0, "btc": 1.0, "nfi": 0.0, "bec": 1.0}),  # old never right
        (FlipCounts(3, 0, 2, 0, 0), {"relative_nfr": 0.0, "btc": 1.0, "nfi": 0.0, "bec": 1.0}),  # new never wrong
        (FlipCounts(0, 4, 0, 0, 0), {"relative_nfr": 1.0, "btc": 0.0, "nfi": 1.0, "bec": 0.0}),  # all broken
        (FlipCounts(0, 0, 0, 0, 0), {"nfr": 0.0, "old_accuracy": 0.0, "relative_nfr": 0.0, "btc": 1.0}),  # no rows
    ],
)
def test_edges_are_decided(counts, expected):
    assert {name: getattr(counts, name) for name in expected} == expected


def test_every_kind_of_column_gives_the_same():
    import datasets
    import pandas
    import pyarrow
    import torch

    old, new, truth = [0, 1, 2, 0, 1], [0, 2, 2, 1, 0], [0, 1, 1, 1, 2]
    expected = count_flips(old, new, truth)
    assert expected.negative_flips == 1
    names = ["no", "yes", "maybe"]
    hub = datasets.Dataset.from_dict({"old": old, "new": new, "truth": truth})
    kinds = {
        "numpy": [np.array(column, dtype=np.int8) for column in (old, new, truth)],
        "torch": [torch.tensor(column) for column in (old, new, truth)],
        "arrow": [pyarrow.array(column) for column in (old, new, truth)],
        "chunked": [pyarrow.chunked_array([column[:2], column[2:]]) for column in (old, new, truth)],
        "dictionary": [pyarrow.array([names[i] for i in column]).dictionary_encode() for column in (old, new, truth)],
        "pandas": [pandas.Series(column) for column in (old, new, truth)],
        "pandas text": [pandas.Series([names[i] for i in column]) for column in (old, new, truth)],
        "strings": [[names[i] for i in column] for column in (old, new, truth)],
        "arrow text": [pyarrow.array([names[i] for i in column]) for column in (old, new, truth)],
        "whole floats": [np.array(column, dtype=float) for column in (old, new, truth)],
        "datasets": [hub["old"], hub["new"], hub["truth"]],
        "mixed": [np.array(old), torch.tensor(new), truth],
        "bools": [np.array(column) == 1 for column in (old, new, truth)],
    }
    for kind, columns in kinds.items():
        found = count_flips(*columns)
        assert found == (by_hand(*columns) if kind == "bools" else expected), kind


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (([], [], []), "nothing to compare"),
        (([1], [1, 2], [1]), r"lengths differ \(old_predictions: 1, new_predictions: 2, references: 1\)"),
        (([1], ["a"], [1]), "different kinds"),
        (([[0.1, 0.9]], [1], [1]), r"old_predictions has shape \(1, 2\).*argmax"),
        (([0.5], [1], [1]), "old_predictions holds fractions"),
        (([1], [float("nan")], [1]), "new_predictions has 1 missing"),
        (([1], [1], None), "references is None"),
        (([1, "a"], [1, "a"], ["1", "a"]), "old_predictions mixes or holds values of type int, str"),
        (([1, None], [1, 1], [1, 1]), "old_predictions mixes or holds values of type NoneType, int"),
        (([[1], [1, 2]], [1, 1], [1, 1]), "old_predictions is not one label per row"),
    ],
)
def test_bad_columns_are_named(columns, message):
    with pytest.raises(ValueError, match=message):
        count_flips(*columns)


def test_arrow_nulls_are_refused():
    import pyarrow

    with pytest.raises(ValueError, match="references has 1 missing values"):
        count_flips([1, 1], [1, 1], pyarrow.array([1, None]))


@pytest.mark.parametrize("weights", [[1.0], [1, -1], [0, 0], [1, float("inf")], [1, float("nan")]])
def test_bad_weights(weights):
    with pytest.raises(ValueError, match="sample_weight"):
        count_flips([0, 1], [0, 1], [0, 1], sample_weight=weights)


def test_counts_refuse_negative_numbers():
    with pytest.raises(ValueError, match="negative_flips"):
        FlipCounts(1, -1, 0, 0, 0)


@settings(max_examples=20)
@given(three_columns())
def test_as_dict_holds_counts_and_rates(columns):
    flat = count_flips(*columns).to_dict()
    with pytest.warns(DeprecationWarning, match="to_dict"):
        assert count_flips(*columns).as_dict() == flat
    assert flat["total"] == len(columns[0])
    assert set(RATES) < set(flat)
    assert all(isinstance(value, (int, float)) for value in flat.values())


def test_ten_million_rows_need_no_more_memory_than_a_block():
    import tracemalloc

    rng = np.random.default_rng(0)
    columns = [rng.integers(0, 50, 3_000_000) for _ in range(3)]
    tracemalloc.start()
    count_flips(*columns)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 * 3_000_000 / 4  # far below the three bytes a row that three masks would take
