"""A real Trainer leaves a page behind, and a page that fails does not cost the model."""

import pytest
import torch
from tiny_models import tiny_bert
from transformers import Trainer, TrainingArguments

from hf_pct import Predictions, compare
from hf_pct.viz.callback import FlipPageCallback

INPUTS = torch.randint(4, 16, (24, 6), generator=torch.Generator().manual_seed(0))
LABELS = [row % 4 for row in range(24)]
NAMES = ["light_on", "light_off", "music", "weather"]


def answers(model) -> Predictions:
    assert not model.training
    with torch.no_grad():
        logits = model(input_ids=INPUTS).logits
    return Predictions(list(range(24)), LABELS, logits=logits.numpy(), label_names=NAMES)


def train(tmp_path, callback) -> Trainer:
    rows = [{"input_ids": INPUTS[row], "labels": LABELS[row]} for row in range(24)]
    args = TrainingArguments(
        output_dir=str(tmp_path / "run"), max_steps=3, per_device_train_batch_size=8, learning_rate=0.05, use_cpu=True,
        report_to="none", save_strategy="no", disable_tqdm=True,
    )  # fmt: skip
    trainer = Trainer(tiny_bert(), args, train_dataset=rows, callbacks=[callback])
    trainer.train()
    return trainer


def test_the_page_shows_the_trained_model(tmp_path):
    old = answers(tiny_bert())
    trainer = train(tmp_path, FlipPageCallback(tmp_path / "update.html", lambda model: compare(old, answers(model))))
    report = compare(old, answers(trainer.model.eval()))
    assert report.counts.flip_rate > 0, "three large steps change something"
    assert (tmp_path / "update.html").read_text(encoding="utf-8") == report.to_html()


def test_a_page_that_cannot_be_made_is_a_warning(tmp_path):
    def fail(model):
        raise ValueError("no test data today")

    with pytest.warns(UserWarning, match="was not written; training itself is done(.|\n)*no test data today"):
        train(tmp_path, FlipPageCallback(tmp_path / "update.html", fail))


def test_a_file_in_the_way_stops_before_training(tmp_path):
    (tmp_path / "update.html").write_text("mine")
    with pytest.raises(FileExistsError, match="exists and is kept"):
        train(tmp_path, FlipPageCallback(tmp_path / "update.html", lambda model: None))
    with pytest.raises(TypeError, match="expected a function"):
        FlipPageCallback(tmp_path / "b.html", "report.json")
