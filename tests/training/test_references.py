"""Where reference logits come from: live, cached, views, a column, an adapter; and two label spaces side by side."""

import gc
import os
import signal
import subprocess
import sys
import weakref
from pathlib import Path

import datasets
import numpy as np
import pytest
import torch
from training_kit import (
    NAMES,
    bert,
    distance,
    images,
    losses,
    permuted,
    roberta,
    texts,
    timm_model,
    tokenizer,
    trainer,
    weights,
)
from transformers import TrainerCallback, TrainingArguments

from hf_pct.training.references import spec as references
from hf_pct.training.references.rows import LOGITS, ReferenceRows, fixed_randomness
from hf_pct.training.references.spec import SharedClasses

HERE = Path(__file__).parent


def test_cached_equals_live(tmp_path):
    trained = []
    for reference in ("live", "cached"):
        run = trainer(tmp_path, reference=reference, num_train_epochs=3)
        run.train()
        assert run.source.live == (reference == "live")
        trained.append(run.model)
    assert distance(*trained) < 1e-6


def test_text_is_cached_and_images_are_live_unless_views_are_asked_for(tmp_path):
    assert not trainer(tmp_path).source.live
    picture = {"train": images(), "remove_unused_columns": False}
    assert trainer(tmp_path, model=timm_model(), old_model=timm_model(seed=2), **picture).source.live
    views = trainer(tmp_path, model=timm_model(), old_model=timm_model(seed=2), cached_views=2, **picture)
    assert not views.source.live


def test_a_table_is_used_again_and_a_changed_old_model_or_dataset_has_its_own(tmp_path):
    def tables():
        return {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").iterdir()}

    data = texts()
    trainer(tmp_path, train=data).train()
    first = tables()
    assert len(first) == 1
    trainer(tmp_path, train=data).train()
    assert tables() == first
    changed = bert(seed=2)
    changed.classifier.bias.data[0] += 1e-3
    trainer(tmp_path, train=data, old_model=changed).train()
    assert len(tables()) == 2
    trainer(tmp_path, train=data.select(range(40))).train()
    assert len(tables()) == 3


def test_a_long_table_shows_its_progress_unless_bars_are_off(tmp_path, capfd):
    for off in (False, True):
        settings = {"per_device_eval_batch_size": 2, "max_steps": 1, "disable_tqdm": off}
        trainer(tmp_path / str(off), train=texts(), **settings).train()
        assert ("Reference logits" in capfd.readouterr().err) != off


def test_a_cached_run_does_not_hold_the_old_model(tmp_path, monkeypatch):
    bert(seed=2).save_pretrained(tmp_path / "old")
    tokenizer().save_pretrained(tmp_path / "old")
    loaded = []
    plain = references.load_model
    monkeypatch.setattr(
        references,
        "load_model",
        lambda *args, **kwargs: (found := plain(*args, **kwargs), loaded.append(weakref.ref(found.model)))[0],
    )

    class Look(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            gc.collect()
            alive.append(loaded[0]() is not None)

    alive = []
    run = trainer(
        tmp_path, old_model=str(tmp_path / "old"), eval_dataset=texts(10, seed=5), eval_strategy="epoch",
        callbacks=[Look()],
    )  # fmt: skip
    run.train()
    assert alive == [False] * 3
    assert len(loaded) == 1
    module = trainer(tmp_path)
    module.train()
    assert distance(run.model, module.model) < 1e-6


def test_a_killed_run_leaves_no_table_that_loads(tmp_path):
    code = f"""
import sys; sys.path.insert(0, {str(HERE)!r})
import os, signal
from training_kit import trainer, bert
import hf_pct.training.references.part as tables
calls = []
plain = tables.check_logits
def die(*args, **kwargs):
    calls.append(1)
    if len(calls) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    plain(*args, **kwargs)
tables.check_logits = die
trainer({str(tmp_path)!r}).train()
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, cwd=HERE.parent.parent)
    assert result.returncode == -signal.SIGKILL, result.stderr
    left = [path.name for path in (tmp_path / "cache").iterdir()]
    assert left, "it should have died while it was writing"
    assert not [name for name in left if name.endswith(".safetensors")]
    run = trainer(tmp_path)
    run.train()
    assert [path.suffix for path in (tmp_path / "cache").iterdir() if path.suffix == ".safetensors"] == [
        ".safetensors"
    ]
    assert os.path.getsize(next((tmp_path / "cache").glob("*.safetensors"))) > 48 * 4 * 4


class Noisy(torch.utils.data.Dataset):
    """Images with an augmentation that is never the same twice."""

    def __init__(self, rows=24):
        self.rows = images(rows)
        self.column_names = ["pixel_values", "labels"]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        row = self.rows[int(index)]
        noise = torch.randn(3, 16, 16) + np.random.normal()
        return {"pixel_values": row["pixel_values"] + 0.3 * noise, "labels": row["labels"]}


def test_a_view_is_the_same_whenever_it_is_asked_for():
    rows = ReferenceRows(Noisy(), views=3, seed=1)
    state = torch.random.get_rng_state()
    first, again, other = rows.view(5), rows.view(5), rows.view(4)
    assert torch.equal(first["pixel_values"], again["pixel_values"])
    assert not torch.equal(first["pixel_values"], other["pixel_values"])
    assert torch.equal(state, torch.random.get_rng_state())
    rows.set_epoch(1)
    assert torch.equal(rows[0]["pixel_values"], rows.view(1)["pixel_values"])
    rows.set_epoch(4)
    assert torch.equal(rows[1]["pixel_values"], rows.view(3 + 2)["pixel_values"])


def test_cached_views_train_as_the_live_model_would_on_the_same_views(tmp_path):
    data, trained, epochs = Noisy(), [], []
    for settings in ({"cached_views": 2}, {"reference": "live"}):
        own = {"train": data} if "cached_views" in settings else {"train": ReferenceRows(data, views=2, seed=7)}
        run = trainer(
            tmp_path, model=timm_model(seed=1), old_model=timm_model(seed=2), num_train_epochs=3,
            remove_unused_columns=False, **own, **settings,
        )  # fmt: skip
        if "reference" in settings:
            run.source._train_rows = own["train"]  # the epochs turn its views
        turn = run.source.set_epoch
        run.source.set_epoch = lambda epoch, turn=turn: (epochs.append(epoch), turn(epoch))
        run.train()
        trained.append(run)
    assert run.source.live
    assert epochs == [0, 1, 2] * 2
    assert distance(trained[0].model, trained[1].model) < 1e-6


def test_fixed_randomness_covers_all_three_generators():
    import random

    def draw():
        return random.random(), np.random.rand(), torch.rand(1).item()

    with fixed_randomness(1, 2):
        first = draw()
    with fixed_randomness(1, 2):
        assert draw() == first
    with fixed_randomness(1, 3):
        assert draw() != first


def test_one_cached_answer_for_changing_rows_is_refused(tmp_path):
    run = trainer(
        tmp_path, model=timm_model(), old_model=timm_model(seed=2), train=Noisy(), reference="cached",
        remove_unused_columns=False,
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"gives another row each time.*cached_views=4"):
        run.train()


def old_logits(old, data):
    rows = [tokenizer().pad(dict(row), return_tensors="pt") for row in data.select_columns(["input_ids"])]
    with torch.no_grad():
        return [old.eval()(input_ids=row["input_ids"].unsqueeze(0)).logits[0].tolist() for row in rows]


def test_a_column_of_logits_needs_no_old_model(tmp_path):
    data = texts()
    with_column = data.add_column("old_logits", old_logits(bert(seed=2), data))
    by_column = trainer(tmp_path, train=with_column, old_model=None)
    by_column.train()
    by_model = trainer(tmp_path, train=data)
    by_model.train()
    assert distance(by_column.model, by_model.model) < 1e-5


def test_the_order_of_the_old_models_classes_does_not_matter(tmp_path):
    held_out = texts(30, seed=5)
    plain = trainer(tmp_path, eval_dataset=held_out)
    plain.train()
    other = trainer(tmp_path, old_model=permuted(bert(seed=2), [2, 0, 3, 1]), eval_dataset=held_out)
    other.train()
    assert distance(plain.model, other.model) < 1e-6
    ours, theirs = plain.evaluate(), other.evaluate()
    assert ours["eval_nfr"] == pytest.approx(theirs["eval_nfr"])


@pytest.mark.parametrize("method", ["fd-lm", "fd-kl", "naive"])
def test_added_classes_get_cross_entropy_only(tmp_path, method):
    names = [*NAMES, "new one"]
    data = texts(48, classes=5)
    run = trainer(tmp_path, model=bert(seed=1, names=names), train=data, eval_dataset=data, method=method)
    terms = run.loss_terms(torch.randn(3, 5), {"old": torch.randn(3, 4)}, torch.tensor([4, 4, 4]))
    assert terms[run.method.term] == 0
    assert terms["ce"] > 0
    run.train()
    metrics = run.evaluate()
    assert 0 <= metrics["eval_nfr"] <= metrics["eval_old_accuracy"]
    assert "eval_added_accuracy" in metrics
    assert np.isfinite(losses(run)).all()


def test_an_answer_that_names_a_removed_class_is_wrong():
    shared = SharedClasses(["a", "gone", "b"], ["b", "a", "added"])
    old = torch.tensor([[1.0, 9.0, 0.0], [5.0, 0.0, 1.0], [5.0, 0.0, 1.0]])
    new, cut, labels, right = shared(torch.arange(9.0).reshape(3, 3), old, torch.tensor([1, 1, 2]))
    assert new.tolist() == [[0.0, 1.0], [3.0, 4.0], [6.0, 7.0]]
    assert cut.tolist() == [[0.0, 1.0], [1.0, 5.0], [1.0, 5.0]]
    assert labels.tolist() == [1, 1, -100]
    assert right.tolist() == [False, True, False]
    assert shared.predictions(old).tolist() == [-1, 1, 1]


def test_an_old_model_of_another_architecture_with_its_own_tokenizer(tmp_path):
    other = tokenizer(tuple(reversed([f"w{number}" for number in range(60)])))
    old = roberta(seed=2)
    trained = []
    for reference in ("live", "cached"):
        run = trainer(
            tmp_path, old_model=old, old_processor=other, processing_class=tokenizer(), reference=reference,
            reference_columns=["text"],
        )  # fmt: skip
        run.train()
        trained.append(run.model)
    assert distance(*trained) < 1e-6
    misread = trainer(tmp_path, old_model=old, processing_class=tokenizer())
    misread.train()
    assert distance(trained[0], misread.model) > 1e-4


def test_rows_carry_their_own_line():
    table = np.arange(48 * 4, dtype=np.float32).reshape(48, 4)
    rows = ReferenceRows(texts(), {"old": table})
    assert [row[LOGITS + "old"][0] for row in rows.__getitems__([3, 0, 7])] == [12.0, 0.0, 28.0]
    assert isinstance(rows.dataset, datasets.Dataset)


@pytest.mark.skipif(
    not hasattr(TrainingArguments, "train_sampling_strategy"), reason="this transformers cannot group rows by length"
)
def test_workers_and_length_groups_see_the_same_logits(tmp_path):
    trained = []
    for settings in ({}, {"dataloader_num_workers": 1}):
        run = trainer(tmp_path, train_sampling_strategy="group_by_length", **settings)
        run.train()
        trained.append(run.model)
    assert distance(*trained) < 1e-6
    assert weights(run.model)


def test_plain_training_never_runs_the_old_model(tmp_path, monkeypatch):
    """With no distillation the old model is there for flips alone: once over the evaluation set, and never again."""
    run = trainer(tmp_path, method="none", eval_dataset=texts(16, seed=5), eval_strategy="epoch", num_train_epochs=3)
    calls = []
    plain = run.source.old.reference.logits
    monkeypatch.setattr(run.source.old.reference, "logits", lambda inputs: (calls.append(1), plain(inputs))[1])
    run.train()
    assert len(calls) == 1


def test_a_bare_timm_model_is_an_old_model_once_its_classes_are_named(tmp_path):
    import timm

    def options(**more):
        return {"model": timm_model(seed=1), "train": images(), "remove_unused_columns": False, **more}

    old = timm_model(seed=2)
    bare = old.timm_model
    with pytest.raises(ValueError, match=r"its classes have no names.*old_label_names="):
        trainer(tmp_path, old_model=bare, **options())
    wrapped = trainer(tmp_path, old_model=old, eval_dataset=images(16, seed=3), **options())
    named = trainer(tmp_path, old_model=bare, old_label_names=NAMES, eval_dataset=images(16, seed=3), **options())
    for run in (wrapped, named):
        run.train()
    assert distance(wrapped.model, named.model) < 1e-6
    assert wrapped.evaluate()["eval_nfr"] == named.evaluate()["eval_nfr"]
    assert isinstance(bare, timm.models.VisionTransformer)


def test_an_old_models_own_tokenizer_is_cut_at_its_positions(tmp_path):
    generous = tokenizer(tuple(reversed([f"w{number}" for number in range(60)])))
    generous.model_max_length = 512
    data = texts()
    long = data.map(lambda row: {"text": " ".join([row["text"]] * 20)})
    run = trainer(
        tmp_path, train=long, old_model=roberta(seed=2), old_processor=generous, processing_class=tokenizer(),
        reference_columns=["text"],
    )  # fmt: skip
    assert run.source.old.encoder.max_length == 39
    run.train()
