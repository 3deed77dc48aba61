"""A real training: on handwritten digits, focal distillation breaks less of what the old model got right."""

import numpy as np
import pytest
import torch
from digits_kit import Digits
from training_kit import trainer

from hf_pct import fixed
from hf_pct.models.load.timm_models import timm_classifier

pytest.importorskip("sklearn")


def digit_model(seed):
    torch.manual_seed(seed)
    return timm_classifier("test_resnet", [str(digit) for digit in range(10)], 16, in_chans=1)[0]


def test_focal_distillation_lowers_nfr_by_more_than_the_noise_of_six_seeds(tmp_path):
    few, held_out = (fixed(Digits(rows)) for rows in (slice(0, 100), slice(800, None)))
    settings = {
        "per_device_train_batch_size": 32, "learning_rate": 1e-2, "num_train_epochs": 20,
        "lr_scheduler_type": "linear", "logging_steps": 1000, "per_device_eval_batch_size": 256, "train": few,
        "reference": "cached",
    }  # fmt: skip
    old = trainer(tmp_path, model=digit_model(100), old_model=None, method="none", **settings)
    old.train()
    nfr, accuracy = {}, {}
    for method in ("none", "fd-lm"):
        found = []
        for seed in range(1, 7):
            run = trainer(
                tmp_path, model=digit_model(seed), old_model=old.model, method=method, **{**settings, "seed": seed}
            )
            run.train()
            found.append(run.evaluate(held_out))
        nfr[method] = np.array([metrics["eval_nfr"] for metrics in found])
        accuracy[method] = np.array([metrics["eval_accuracy"] for metrics in found])
    noise = np.hypot(nfr["none"].std(ddof=1), nfr["fd-lm"].std(ddof=1))
    print(nfr, accuracy, noise)
    assert nfr["none"].mean() - nfr["fd-lm"].mean() > noise
    fewer = nfr["none"] - nfr["fd-lm"]  # seed by seed; one seed of three went the other way on one kind of processor
    assert (fewer > 0).sum() >= 5
    assert fewer.mean() > 2.6 * fewer.std(ddof=1) / np.sqrt(len(fewer)), "beyond a 95 % t-interval of six seeds"
    assert accuracy["fd-lm"].mean() > accuracy["none"].mean() - 0.01
