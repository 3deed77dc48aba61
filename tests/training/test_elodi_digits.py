"""A real ELODI: two students flip less against each other than two plain models of the same seeds."""

import numpy as np
import pytest
import torch
from digits_kit import Digits
from training_kit import elodi

from hf_pct import fixed
from hf_pct.flips.counts import count_flips
from hf_pct.models.load.timm_models import timm_classifier

pytest.importorskip("sklearn")


def digit_model():
    return timm_classifier("test_resnet", [str(digit) for digit in range(10)], 16, in_chans=1)[0]


def answers(model, rows):
    model.eval()
    with torch.no_grad():
        return np.concatenate([model(rows.pixels[i : i + 200]).logits.argmax(-1) for i in range(0, len(rows), 200)])


def test_two_students_flip_less_than_two_plain_models(tmp_path):
    train, held_out = (fixed(Digits(rows)) for rows in (slice(0, 100), slice(800, None)))
    settings = {
        "per_device_train_batch_size": 32, "learning_rate": 5e-3, "num_train_epochs": 20, "logging_steps": 1000,
        "lr_scheduler_type": "linear", "num_members": 4, "reference": "cached",
    }  # fmt: skip
    found = {}
    for name, weight in (("plain", 0.0), ("elodi", 0.8)):
        pair = []
        for seed in (1, 2):
            run = elodi(
                tmp_path / f"{name}-{seed}",
                model_init=digit_model,
                train=train,
                seed=seed,
                ldi_weight=weight,
                **settings,
            )
            run.train()
            pair.append(answers(run.model, held_out))
        found[name] = count_flips(*pair, held_out.labels)
    print({name: (counts.nfr, counts.old_error_rate, counts.new_error_rate) for name, counts in found.items()})
    plain, treated = found["plain"], found["elodi"]
    assert treated.nfr < 0.7 * plain.nfr
    assert treated.old_error_rate + treated.new_error_rate <= plain.old_error_rate + plain.new_error_rate
