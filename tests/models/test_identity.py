"""A cache's key changes with everything that an answer depends on, and there is none where that cannot be known."""

import copy
import functools

import datasets
import numpy as np
import pytest
import torch
from tiny_models import tiny_bert
from torch import nn

import hf_pct
from hf_pct.models.identity import model_fingerprint, processor_fingerprint, stored_fingerprint


@pytest.fixture
def model():
    return tiny_bert()


def predict(model, data, tokenizer, tmp_path, **options):
    settings = {"progress": False, "cache_dir": tmp_path, "processor": tokenizer} | options
    return hf_pct.predict(model, data, **settings).logits


@pytest.mark.parametrize(
    ("name", "value"),
    [("truncation_side", "left"), ("padding_side", "left"), ("model_input_names", ["input_ids"])],
)
def test_a_changed_tokenizer_setting_is_another_answer(model, text_dataset, tokenizer, tmp_path, name, value):
    other = copy.deepcopy(tokenizer)
    first = predict(model, text_dataset, other, tmp_path, max_length=5)
    setattr(other, name, value)
    changed = predict(model, text_dataset, other, tmp_path, max_length=5)
    assert np.array_equal(changed, predict(model, text_dataset, other, tmp_path, max_length=5, use_cache=False))
    if name != "padding_side":  # with its mask BERT does not see on which side the padding is
        assert np.abs(changed - first).max() > 1e-3
    assert processor_fingerprint(other) != processor_fingerprint(tokenizer)


def test_the_size_of_a_batch_counts_where_padding_is_not_masked(model, text_dataset, tokenizer, tmp_path):
    unmasked = copy.deepcopy(tokenizer)
    unmasked.model_input_names = ["input_ids"]
    for reader, tables in ((tokenizer, 1), (unmasked, 3)):
        for size in (1, 32):
            seen = predict(model, text_dataset, reader, tmp_path, batch_size=size)
            fresh = predict(model, text_dataset, reader, tmp_path, batch_size=size, use_cache=False)
            assert seen == pytest.approx(fresh, abs=1e-5)
        assert len(list(tmp_path.glob("predictions/*"))) == tables
    assert np.abs(seen - predict(model, text_dataset, unmasked, tmp_path, batch_size=1)).max() > 1e-4


def test_a_tokenizer_that_was_used_is_still_the_same(tokenizer):
    fresh = copy.deepcopy(tokenizer)
    before = processor_fingerprint(fresh)
    fresh(["turn on the light", "stop"], padding=True, truncation=True, max_length=3)
    assert processor_fingerprint(fresh) == before


def test_a_layer_replaced_in_place_is_another_model(model, text_dataset, tokenizer, tmp_path):
    first = predict(model, text_dataset, tokenizer, tmp_path)
    for layer in model.bert.encoder.layer:
        layer.intermediate.intermediate_act_fn = nn.ReLU()
    changed = predict(model, text_dataset, tokenizer, tmp_path)
    assert np.abs(changed - first).max() > 1e-3
    before = model_fingerprint(model)
    model.bert.encoder.layer[0].attention.self.scaling *= 2
    assert model_fingerprint(model) != before


def test_a_hook_or_a_replaced_forward_is_never_cached(model, text_dataset, tokenizer, tmp_path):
    first = predict(model, text_dataset, tokenizer, tmp_path)
    handle = model.bert.register_forward_hook(lambda module, inputs, output: None)
    assert model_fingerprint(model) is None
    handle.remove()
    handle = model.classifier.register_forward_hook(lambda module, inputs, output: output + 1)
    assert predict(model, text_dataset, tokenizer, tmp_path) == pytest.approx(first + 1, abs=1e-5)
    handle.remove()
    plain = model.classifier.forward
    model.classifier.forward = lambda inputs: plain(inputs) + 2
    assert predict(model, text_dataset, tokenizer, tmp_path) == pytest.approx(first + 2, abs=1e-5)
    del model.classifier.forward
    assert model_fingerprint(model) is not None
    assert np.array_equal(predict(model, text_dataset, tokenizer, tmp_path), first)


@pytest.mark.parametrize("kind", ["wrapped", "without gradients", "hook of a library's object"])
def test_code_of_ones_own_under_a_librarys_name_is_never_cached(model, text_dataset, tokenizer, tmp_path, kind):
    plain, seen = model.classifier.forward, []

    class Shift:
        def __init__(self, by):
            self.by = by

        def hook(self, module, inputs, output):
            return output + self.by

    Shift.__module__ = Shift.hook.__module__ = "transformers.shift"
    for by in (1, 2):
        if kind == "wrapped":
            model.classifier.forward = functools.wraps(plain)(lambda inputs, by=by: plain(inputs) + by)
        elif kind == "without gradients":
            model.classifier.forward = torch.no_grad()(lambda inputs, by=by: plain(inputs) + by)
        else:
            model.classifier._forward_hooks.clear()
            model.classifier.register_forward_hook(Shift(by).hook)
        assert model_fingerprint(model) is None
        seen.append(predict(model, text_dataset, tokenizer, tmp_path))
    assert seen[1] == pytest.approx(seen[0] + 1, abs=1e-5)


def test_what_a_method_or_a_function_of_a_library_holds_counts():
    from torchvision.transforms import v2

    first, second = (processor_fingerprint(v2.Resize(size).forward) for size in (8, 9))
    assert None not in (first, second)
    assert first != second
    scaled = [torch.autocast("cpu", dtype=dtype)(torch.relu) for dtype in (torch.float16, torch.bfloat16)]
    assert processor_fingerprint(scaled[0]) != processor_fingerprint(scaled[1])


def test_another_precision_or_an_unsaved_buffer_is_another_model(model):
    before = model_fingerprint(model)
    model.bert.embeddings.position_ids += 1
    assert model_fingerprint(model) != before
    model.bert.embeddings.position_ids -= 1
    assert model_fingerprint(model) == before
    assert model_fingerprint(copy.deepcopy(model).bfloat16()) != before


def test_running_a_model_does_not_change_its_fingerprint(model, text_dataset, tokenizer, tmp_path):
    before = model_fingerprint(model)
    predict(model, text_dataset, tokenizer, tmp_path, use_cache=False)
    assert model_fingerprint(model) == before


def upper(batch):
    return {**batch, "text": ["stop " + text for text in batch["text"]]}


def test_a_transform_is_used_and_cached_only_when_it_is_declared_fixed(model, text_dataset, tokenizer, tmp_path):
    first = predict(model, text_dataset, tokenizer, tmp_path)
    seen = predict(model, text_dataset.with_transform(upper), tokenizer, tmp_path)
    assert np.array_equal(seen, predict(model, text_dataset.map(upper, batched=True), tokenizer, tmp_path / "other"))
    assert np.abs(seen - first).max() > 1e-3
    assert len(list(tmp_path.glob("predictions/*"))) == 1  # of the dataset without it

    class Prefix:
        word = "stop"

        def __call__(self, batch):
            return {**batch, "text": [f"{self.word} {text}" for text in batch["text"]]}

    prefix = hf_pct.fixed(Prefix())
    data = text_dataset.with_transform(prefix)
    assert np.array_equal(predict(model, data, tokenizer, tmp_path), seen)
    assert len(list(tmp_path.glob("predictions/*"))) == 2
    prefix.word = "play"  # the same object, changed: what it makes counts, not what it is
    assert np.abs(predict(model, data, tokenizer, tmp_path) - seen).max() > 1e-3


def test_a_transform_that_leaves_no_input_is_refused(model, text_dataset, tokenizer, tmp_path):
    data = text_dataset.with_transform(lambda batch: {"input_ids": [[2, 5, 3]] * len(batch["text"])})
    with pytest.raises(ValueError, match="transform gives input_ids and not text"):
        predict(model, data, tokenizer, tmp_path)


def test_rewritten_files_are_other_rows_under_the_same_fingerprint(tmp_path):
    def write(values):
        datasets.Dataset.from_dict({"x": values}).save_to_disk(tmp_path / "data")
        return datasets.load_from_disk(tmp_path / "data")

    first = stored_fingerprint(write([1, 2, 3]))
    again = write([1, 2, 3])
    assert stored_fingerprint(again) == first
    assert stored_fingerprint(again.select([0, 1, 2])) == first
    assert len({first, stored_fingerprint(again.select([2, 1, 0])), stored_fingerprint(write([1, 2, 4]))}) == 3


def test_an_image_kept_as_a_path_is_read(tmp_path):
    from PIL import Image

    path = str(tmp_path / "image.png")
    prints = []
    for colour in ("red", "red", "blue"):
        Image.new("RGB", (4, 4), colour).save(path)
        data = datasets.Dataset.from_dict({"image": [path]}).cast_column("image", datasets.Image())
        prints.append(stored_fingerprint(data))
    assert prints[0] == prints[1] != prints[2]


def test_code_of_ones_own_has_no_fingerprint():
    from torchvision.transforms import v2

    def mine(image):
        return image

    steps = v2.Compose([v2.Resize(8), v2.ToImage()])
    known = processor_fingerprint(steps)
    assert known == processor_fingerprint(v2.Compose([v2.Resize(8), v2.ToImage()]))
    assert known != processor_fingerprint(v2.Compose([v2.Resize(9), v2.ToImage()]))
    assert processor_fingerprint(v2.Compose([v2.Resize(8), mine])) is None
    assert processor_fingerprint(v2.Lambda(mine)) is None
