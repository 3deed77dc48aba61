import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_pct.core.labels import align_labels


def test_shared_added_removed():
    found = align_labels(["no", "yes", "old"], ["yes", "new", "no"])
    assert (found.shared, found.added, found.removed) == (("yes", "no"), ("new",), ("old",))
    assert found.old_index.tolist() == [1, 0]
    assert found.new_index.tolist() == [0, 2]
    assert not found.identical
    assert align_labels(["a", "b"], ["a", "b"]).identical
    assert not align_labels(["a", "b"], ["b", "a"]).identical


@given(st.permutations("abcdef"), st.integers(1, 6), st.permutations("abcdef"), st.integers(1, 6))
def test_columns_of_both_models_speak_of_the_same_classes(old, old_size, new, new_size):
    old, new = old[:old_size], new[:new_size]
    found = align_labels(old, new)
    assert np.array(old)[found.old_index].tolist() == np.array(new)[found.new_index].tolist() == list(found.shared)
    assert {*found.shared, *found.added} == set(new)
    assert {*found.shared, *found.removed} == set(old)


@pytest.mark.parametrize("names", [["a", "a"], "ab", [0, 1]])
def test_bad_names(names):
    with pytest.raises(ValueError, match="the old model's label names"):
        align_labels(names, ["a"])
