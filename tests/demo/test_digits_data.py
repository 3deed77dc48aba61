"""The demo's images, and the model that is trained on them."""

import pytest
import timm
import torch
from transformers import AutoImageProcessor, AutoModelForImageClassification

from hf_pct.demo.digits import ARCHITECTURE, digit_splits, load_digits, new_digit_model


@pytest.fixture(scope="module")
def digits():
    return load_digits()


def test_columns_and_pictures(digits):
    assert digits.column_names == ["id", "image", "label"]
    assert len(set(digits["id"])) == len(digits) == 1797
    assert digits.features["label"].names == [str(digit) for digit in range(10)]
    picture = digits[0]["image"]
    assert (picture.size, picture.mode) == ((32, 32), "RGB")
    low, high = picture.convert("L").getextrema()
    assert low < 20
    assert high > 200


def test_splits_grow_and_do_not_leak():
    splits = digit_splits()
    old, new, test = (list(splits[name]["id"]) for name in ("old_train", "new_train", "test"))
    assert old == new[: len(old)]
    assert not set(new) & set(test)
    assert list(digit_splits()["test"]["id"]) == test
    assert list(digit_splits(seed=1)["test"]["id"]) != test


def test_impossible_sizes():
    with pytest.raises(ValueError, match=r"new_size 1000, test_size 900.*new_size \+ test_size <= 1797"):
        digit_splits(new_size=1000)


def test_model_has_timms_own_weights():
    """The transformers wrapper would have replaced them by N(0, 0.02)."""
    model, _ = new_digit_model(seed=0)
    fresh = timm.create_model(ARCHITECTURE, num_classes=10).state_dict()
    for name, weight in model.timm_model.state_dict().items():
        if weight.ndim == 4:
            assert weight.std().item() == pytest.approx(fresh[name].std().item(), rel=0.15), name


def test_a_seed_is_a_model_and_leaves_the_global_one_alone():
    torch.manual_seed(7)
    state = torch.get_rng_state()
    first, second, other = (new_digit_model(seed)[0].state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)
    assert torch.equal(torch.get_rng_state(), state)


def test_saved_model_loads_with_names_and_processor(digits, tmp_path):
    model, processor = new_digit_model()
    model.eval().save_pretrained(tmp_path)
    loaded = AutoModelForImageClassification.from_pretrained(tmp_path).eval()
    assert loaded.config.id2label == {digit: str(digit) for digit in range(10)}
    inputs = AutoImageProcessor.from_pretrained(tmp_path)(digits[0]["image"])
    assert torch.equal(inputs["pixel_values"], processor(digits[0]["image"])["pixel_values"])
    assert inputs["pixel_values"].shape == (1, 3, 32, 32)
    with torch.no_grad():
        assert torch.equal(loaded(**inputs).logits, model(**inputs).logits)
