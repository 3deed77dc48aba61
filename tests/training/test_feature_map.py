"""`bct` with a learnt linear map between two widths: trained with the model, saved beside it, no part of it."""

import pytest
import torch
from safetensors.torch import load_file
from test_feature_methods import old_head_errors
from training_kit import NAMES, bert, trainer, weights
from transformers import AutoModelForSequenceClassification

from hf_pct.flips.retrieval.feature_maps import FEATURE_MAP, read_feature_map


def wide_old(names=NAMES):
    """An old model whose features are wider than the new one's."""
    torch.manual_seed(5)
    old = bert(seed=2, names=names)
    old.classifier = torch.nn.Linear(24, len(names))
    old.bert.pooler.dense = torch.nn.Linear(16, 24)
    return old


def mapped(folder, **settings):
    return trainer(folder, old_model=wide_old(), method="bct", feature_map="linear", **settings)


def test_a_map_starts_as_the_rule_without_one_and_is_learnt(tmp_path):
    run = mapped(tmp_path, num_train_epochs=2)
    layer = run.features.maps["old"]
    torch.testing.assert_close(layer.weight, torch.eye(24, 16))
    features = torch.randn(3, 16)
    plain = trainer(tmp_path / "plain", old_model=wide_old(), method="bct")
    torch.testing.assert_close(run.features.heads["old"](features), plain.features.heads["old"](features))
    assert not plain.features.maps
    run.train()
    assert (layer.weight - torch.eye(24, 16)).abs().max() > 1e-2


def test_the_old_head_understands_mapped_features_better_than_padded_ones(tmp_path):
    errors = {}
    for kind in ("fit", "linear"):
        run = trainer(
            tmp_path / kind,
            old_model=wide_old(),
            method="bct",
            feature_map=kind,
            num_train_epochs=6,
            learning_rate=5e-3,
        )
        run.train()
        errors[kind] = old_head_errors(run, run.features.heads["old"])
    assert errors["linear"] <= errors["fit"] < 0.5, errors
    assert errors["linear"] < 0.05, errors


def test_the_map_lies_beside_a_model_that_knows_nothing_of_it(tmp_path):
    run = mapped(tmp_path)
    run.train()
    run.save_model(tmp_path / "saved")
    stored = load_file(tmp_path / "saved" / FEATURE_MAP)
    torch.testing.assert_close(stored["old.weight"], run.features.maps["old"].weight.detach())
    assert read_feature_map(tmp_path / "saved").shape == (24, 16)
    model, info = AutoModelForSequenceClassification.from_pretrained(tmp_path / "saved", output_loading_info=True)
    assert not info["unexpected_keys"]
    assert not info["missing_keys"]
    assert weights(model).keys() == weights(run.model).keys()


def test_a_resumed_run_is_the_run_that_was_not_stopped(tmp_path):
    whole = mapped(tmp_path / "whole", num_train_epochs=2)
    whole.train()
    stopped = mapped(tmp_path / "stopped", num_train_epochs=2, save_strategy="epoch")
    stopped.train()
    checkpoint = tmp_path / "stopped" / "checkpoint-3"
    resumed = mapped(tmp_path / "resumed", num_train_epochs=2)
    resumed.train(resume_from_checkpoint=str(checkpoint))
    torch.testing.assert_close(resumed.features.maps["old"].weight, whole.features.maps["old"].weight)
    (checkpoint / FEATURE_MAP).unlink()
    with pytest.raises(ValueError, match="checkpoint-3 has no feature_map"):
        mapped(tmp_path / "lost", num_train_epochs=2).train(resume_from_checkpoint=str(checkpoint))


def test_splitting_a_batch_changes_nothing(tmp_path):
    sgd = {"optim": "sgd", "learning_rate": 0.1, "max_grad_norm": 1000.0}
    whole = mapped(tmp_path / "whole", **sgd)
    parts = mapped(tmp_path / "parts", per_device_train_batch_size=4, gradient_accumulation_steps=4, **sgd)
    for run in (whole, parts):
        run.train()
    torch.testing.assert_close(
        parts.features.maps["old"].weight, whole.features.maps["old"].weight, atol=1e-5, rtol=1e-4
    )


def test_weights_spread_over_processes_are_refused(tmp_path):
    run = mapped(tmp_path)
    with pytest.raises(ValueError, match="DeepSpeed and FSDP do not see"):
        run.check_maps(sharded=True)
    trainer(tmp_path / "plain", method="bct").check_maps(sharded=True)
