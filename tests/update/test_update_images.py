import numpy as np
import pytest
import torch
from datasets import ClassLabel, Dataset, Features, Image, Value
from safetensors.torch import load_file
from tiny_models import tiny_bert

from hf_pct import predict
from hf_pct.flips.choice.prior import UNKNOWN
from hf_pct.update import Contract, update
from hf_pct.update.candidates import ALPHAS, COARSE

NAMES = ["red", "green", "blue"]


def colours(count, seed):
    """Noisy squares of one colour; no two are alike."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % 3
    pixels = rng.integers(0, 120, (count, 16, 16, 3))
    pixels[np.arange(count), :, :, labels] += 90
    from PIL import Image as Pil

    rows = {
        "id": [f"{seed}-{number}" for number in range(count)],
        "image": [Pil.fromarray(picture.astype(np.uint8)) for picture in pixels],
        "label": labels.tolist(),
    }
    return Dataset.from_dict(
        rows, Features({"id": Value("string"), "image": Image(), "label": ClassLabel(names=NAMES)})
    )


@pytest.fixture
def old_model(tmp_path):
    timm_models = pytest.importorskip("hf_pct.models.load.timm_models")
    model, processor = timm_models.timm_classifier("test_resnet", NAMES, 16)
    model.save_pretrained(tmp_path / "old")
    processor.save_pretrained(tmp_path / "old")


def test_one_row_that_is_left_over_is_found_before_any_training(old_model, tmp_path):
    train, dev = colours(33, 1), colours(30, 2)
    options = {"contract": Contract(margin=0.1), "dry_run": True, "progress": False}
    batches = {"max_steps": 1, "per_device_train_batch_size": 16}
    with pytest.raises(ValueError, match="33 training rows in batches of 16 leave one row over"):
        update(str(tmp_path / "old"), train, dev, training=batches, **options)
    update(str(tmp_path / "old"), train, dev, training={**batches, "dataloader_drop_last": True}, **options)
    update(str(tmp_path / "old"), train, dev, training={**batches, "per_device_train_batch_size": 11}, **options)


def test_an_update_of_a_timm_model_with_batchnorm(old_model, tmp_path):
    train, dev = colours(48, 1), colours(30, 2)
    result = update(
        str(tmp_path / "old"), train, dev, contract=Contract(margin=0.1), budget=2, output_dir=tmp_path / "new",
        training={"num_train_epochs": 1, "learning_rate": 1e-2, "per_device_train_batch_size": 16}, progress=False,
    )  # fmt: skip
    names = {candidate.name for candidate in result.candidates}
    assert names == {"fd-dynamic", "plain", "soup of 1 fd-dynamic and 1 plain"}
    assert all({*COARSE} - {0.8} <= {*candidate.curve.alphas} <= {*ALPHAS} for candidate in result.candidates)
    assert all(candidate.prior.surprise == UNKNOWN for candidate in result.candidates), "it has BatchNorm"
    assert result.report.counts.total == 30
    assert result.model.config.num_labels == 3
    with pytest.raises(ValueError, match="30 of 30 development rows are among the training rows"):
        update(str(tmp_path / "old"), dev, dev)


def test_a_base_model_that_reads_texts_is_refused_in_the_plan(old_model, tmp_path, tokenizer):
    tiny_bert().save_pretrained(tmp_path / "texts")
    tokenizer.save_pretrained(tmp_path / "texts")
    with pytest.raises(ValueError, match="base_model reads rows of kind text and the old model rows of kind image"):
        update(str(tmp_path / "old"), colours(30, 1), colours(30, 2), base_model=str(tmp_path / "texts"), dry_run=True)


def test_images_in_a_table_of_another_library_are_read_alike(old_model, tmp_path):
    rows = colours(12, 1)
    plain = rows.cast_column("image", Image(decode=False)).to_pandas()
    plain["label"] = [NAMES[label] for label in plain["label"]]
    plain.to_parquet(tmp_path / "rows.parquet")
    ours, theirs = (predict(str(tmp_path / "old"), data) for data in (rows, str(tmp_path / "rows.parquet")))
    assert np.array_equal(ours.logits, theirs.logits)


def test_photo_models_of_one_start_are_averaged_though_nothing_merges_with_the_old_one(old_model, tmp_path):
    from hf_pct.models.load.timm_models import timm_classifier

    base, processor = timm_classifier("test_efficientnet", ["warm", "cold"], 16)
    base.save_pretrained(tmp_path / "base")
    processor.save_pretrained(tmp_path / "base")
    train, dev = colours(48, 1), colours(30, 2)
    result = update(
        str(tmp_path / "old"), train, dev, base_model=str(tmp_path / "base"), contract=Contract(margin=0.1), budget=3,
        training={"num_train_epochs": 1, "learning_rate": 1e-2, "per_device_train_batch_size": 16}, progress=False,
        output_dir=tmp_path / "new",
    )  # fmt: skip
    assert [recipe.name for recipe in result.plan.recipes] == ["plain", "fd-dynamic", "fd-dynamic, seed 1"]
    by_name = {candidate.name: candidate for candidate in result.candidates}
    soup = by_name["soup of 2 fd-dynamic"]
    assert soup.curve.alphas.tolist() == [0.0]
    first, second = (result.workshop.start(recipe).state_dict() for recipe in soup.recipes)
    assert all(torch.equal(value, second[name]) for name, value in first.items()), "new heads begin alike too"
    trained = [load_file(folder / "model.safetensors") for folder in soup.folders]
    assert any(not torch.equal(value, trained[1][name]) for name, value in trained[0].items()), "and end apart"
    assert [name for name in by_name if name.startswith("soup of 1 plain")], "the best two are mixed, at no training"
