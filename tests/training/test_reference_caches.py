"""A reference table is never stale: what it depends on is in its name, and what cannot be known is not kept."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

import datasets
import numpy as np
import pytest
import torch
from training_kit import bert, distance, images, texts, timm_model, tokenizer, trainer
from transformers import DataCollatorWithPadding

import hf_pct
from hf_pct.models.load import load_model


def tables(folder):
    return {path.name for path in (folder / "cache").glob("*")}


def test_an_edited_collator_is_never_answered_from_the_cache(tmp_path, monkeypatch):
    """The same module under the same name, with another text: once undeclared, once declared."""
    source = """
from training_kit import tokenizer
def collate(rows):
    kept = [{key: row[key][:LENGTH] for key in ("input_ids", "attention_mask")} for row in rows]
    import torch
    return {**tokenizer().pad(kept, return_tensors="pt"), "labels": torch.tensor([row["label"] for row in rows])}
"""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def module(length):
        (tmp_path / "own_collator.py").write_text(source.replace("LENGTH", str(length)))
        sys.modules.pop("own_collator", None)
        importlib.invalidate_caches()
        return importlib.import_module("own_collator").collate

    def trained(collate, **settings):
        options = {"remove_unused_columns": False, "num_train_epochs": 1, **settings}
        run = trainer(tmp_path, train=texts(), data_collator=collate, **options)
        run.train()
        return run

    undeclared = trained(module(3))
    assert undeclared.source.live
    assert not tables(tmp_path)
    for length in (3, 1):
        live, cached = trained(module(length), reference="live"), trained(hf_pct.fixed(module(length)))
        assert not cached.source.live
        assert distance(live.model, cached.model) < 1e-6
    assert len(tables(tmp_path)) == 2


def test_cached_is_refused_for_what_is_not_declared_fixed(tmp_path):
    def collate(rows):
        return DataCollatorWithPadding(tokenizer())(rows)

    with pytest.raises(ValueError, match=r"data collator is not known to be without randomness.*hf_pct\.fixed"):
        trainer(tmp_path, data_collator=collate, reference="cached").train()
    trainer(tmp_path, data_collator=hf_pct.fixed(collate), reference="cached").train()
    stream = texts().to_iterable_dataset()
    with pytest.raises(ValueError, match=r"reference='cached' with a training set that is a stream"):
        trainer(tmp_path, train=stream, reference="cached", max_steps=2)
    assert trainer(tmp_path, train=stream, max_steps=2).source.live


def test_another_precision_has_its_own_table(tmp_path):
    """Runs in bf16 for real, in a process of its own: some CPUs say that they can and then end the process."""
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
    here = Path(__file__).parent
    command = [sys.executable, str(here / "precision_script.py"), str(tmp_path)]
    path = os.pathsep.join([str(here), str(here.parent.parent)])
    result = subprocess.run(
        command, env={**environment, "PYTHONPATH": path}, capture_output=True, text=True, timeout=200, check=False
    )
    assert result.returncode == 0, result.stderr[-3000:]
    seen = json.loads(result.stdout.splitlines()[-1])
    assert seen["tables"] == [1, 2, 2]  # fp32, bf16, and fp32 again
    fp32, bf16, again = (np.array(logits) for logits in seen["cached"])
    assert np.array_equal(fp32, again)
    assert np.abs(fp32 - bf16).max() > 1e-3
    for cached, live in zip((fp32, bf16, again), seen["live"], strict=True):
        assert cached == pytest.approx(np.array(live), abs=1e-6)
    assert seen["predicted"] == [1, 2, 2]


def test_rewritten_files_have_their_own_table(tmp_path):
    def write(seed):
        texts(seed=seed).save_to_disk(tmp_path / "data")
        data = datasets.load_from_disk(tmp_path / "data")
        data._fingerprint = "the same"
        return data

    for seed in (0, 1):
        cached, live = (trainer(tmp_path, train=write(seed), reference=kind) for kind in ("cached", "live"))
        cached.train()
        live.train()
        assert distance(cached.model, live.model) < 1e-6
    assert len(tables(tmp_path)) == 2


def test_an_old_model_changed_in_place_answers_anew(tmp_path):
    held_out, old = texts(30, seed=5), bert(seed=2)
    run = trainer(tmp_path, old_model=old, eval_dataset=held_out)
    before = run.evaluate()["eval_old_accuracy"]
    assert run.evaluate()["eval_old_accuracy"] == before
    old.load_state_dict(bert(seed=9).state_dict())
    changed = run.evaluate()["eval_old_accuracy"]
    assert (
        changed
        == trainer(tmp_path / "new", old_model=bert(seed=9), eval_dataset=held_out).evaluate()["eval_old_accuracy"]
    )
    assert changed != before


class Wrapped(torch.nn.Module):
    """A network in code of one's own: what decides its answers cannot be known."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.config = inner, inner.config

    def forward(self, input_ids, attention_mask):
        return self.inner(input_ids, attention_mask)


@pytest.mark.parametrize("kind", ["code of one's own", "loaded", "hooked"])
def test_any_old_model_of_the_callers_that_is_changed_answers_anew(tmp_path, kind):
    held_out, old = texts(30, seed=5), bert(seed=2)
    if kind == "hooked":
        old.classifier.register_forward_hook(lambda module, inputs, output: output)
    given = {"code of one's own": Wrapped(old), "hooked": old}.get(kind) or load_model(old, processor=tokenizer())
    run = trainer(tmp_path, old_model=given, eval_dataset=held_out, eval_strategy="epoch")
    run.train()
    before = run.evaluate()["eval_old_accuracy"]
    assert run.evaluate()["eval_old_accuracy"] == before
    old.load_state_dict(bert(seed=9).state_dict())
    expected = trainer(tmp_path / "new", old_model=bert(seed=9), eval_dataset=held_out).evaluate()
    assert run.evaluate()["eval_old_accuracy"] == expected["eval_old_accuracy"] != before


def logits_shown(run, rows):
    """The old model's logits as the batches of an evaluation carry them."""
    carried = run.source.rows(rows)
    return np.stack([carried[number]["reference_logits_old"] for number in range(len(rows))])


def test_rows_that_are_changed_in_place_are_asked_again(tmp_path):
    def rows(seed):
        return [{"labels": row.pop("label"), **row} for row in texts(20, seed=seed).remove_columns("text")]

    held_out = rows(5)
    run = trainer(tmp_path, eval_dataset=held_out)
    before = logits_shown(run, held_out)
    assert np.array_equal(logits_shown(run, held_out), before)
    held_out[:] = rows(6)
    changed = logits_shown(run, held_out)
    assert np.abs(changed - before).max() > 1e-3
    assert np.array_equal(changed, logits_shown(trainer(tmp_path / "new", eval_dataset=held_out), held_out))


def test_a_declared_collator_or_transform_that_is_changed_in_place_is_asked_again(tmp_path):
    class Cut:
        length = 16

        def __call__(self, rows):
            kept = [{key: row[key][: self.length] for key in ("input_ids", "attention_mask")} for row in rows]
            labels = torch.tensor([row["label"] for row in rows])
            return {**tokenizer().pad(kept, return_tensors="pt"), "labels": labels}

    cut, held_out = hf_pct.fixed(Cut()), texts(20, seed=5)
    run = trainer(tmp_path, data_collator=cut, eval_dataset=held_out, remove_unused_columns=False)
    before = logits_shown(run, held_out)
    cut.length = 1
    assert np.abs(logits_shown(run, held_out) - before).max() > 1e-3
    flip = hf_pct.fixed(Flip(1.0, 1.0))
    pictures = images(16, seed=3).with_format("numpy").with_transform(flip)
    run = image_run(tmp_path, images(), eval_dataset=pictures)
    before = logits_shown(run, pictures)
    flip.sign = -1.0
    assert np.abs(logits_shown(run, pictures) - before).max() > 1e-3


def test_a_second_training_on_changed_rows_is_held_near_the_answers_to_them(tmp_path):
    flip = hf_pct.fixed(Flip(1.0))
    data = images().with_format("numpy").with_transform(flip)
    run = image_run(tmp_path, data, reference="cached")
    for sign, kept in ((-1.0, 1), (-1.0, 1), (0.5, 2)):
        flip.sign = sign
        assert "reference_logits_old" in next(iter(run.get_train_dataloader()))
        assert len(tables(tmp_path)) == kept


class Flip:
    """An augmentation of one row in fifty: eight rows rarely show it."""

    def __init__(self, share, sign=-1.0):
        self.share, self.sign = share, sign

    def __call__(self, batch):
        pixels = [
            torch.as_tensor(np.asarray(row)) * (self.sign if torch.rand(1) < self.share else 1.0)
            for row in batch["pixel_values"]
        ]
        return {"pixel_values": pixels, "labels": batch["labels"]}


def image_run(folder, train, **settings):
    options = {"model": timm_model(seed=1), "old_model": timm_model(seed=2), "remove_unused_columns": False}
    return trainer(folder, train=train, **options, **settings)


def test_a_rare_augmentation_is_live_and_never_cached(tmp_path):
    data = images().with_format("numpy").with_transform(Flip(0.02))
    run = image_run(tmp_path, data, eval_dataset=data)
    assert run.source.live
    run.train()
    run.evaluate()
    assert not tables(tmp_path)
    with pytest.raises(ValueError, match=r"how its rows are made is not known.*hf_pct\.fixed|gives another row"):
        image_run(tmp_path, data, reference="cached").train()


def test_a_declared_transform_that_is_changed_has_its_own_table(tmp_path):
    transform = hf_pct.fixed(Flip(1.0))
    for number, sign in enumerate((-1.0, 0.5), start=1):
        transform.sign = sign
        data = images().with_format("numpy").with_transform(transform)
        cached, live = (image_run(tmp_path, data, reference=kind) for kind in ("cached", "live"))
        cached.train()
        live.train()
        assert distance(cached.model, live.model) < 1e-6
        assert len(tables(tmp_path)) == number


def test_an_evaluation_set_that_is_not_declared_fixed_is_asked_each_time(tmp_path, monkeypatch):
    held_out = images(16, seed=3)
    plain = held_out.with_format("numpy").with_transform(Flip(0.0))
    declared = held_out.with_format("numpy").with_transform(hf_pct.fixed(Flip(0.0)))
    accuracies = []
    for data, passes in ((held_out, 1), (plain, 2), (declared, 1)):
        run = image_run(tmp_path / str(passes), images(), method="none", eval_dataset=data)
        spy = mock.Mock(wraps=run.source.old.reference.logits)
        monkeypatch.setattr(run.source.old.reference, "logits", spy)
        accuracies += [run.evaluate()["eval_old_accuracy"] for _ in range(2)]
        assert spy.call_count == passes
    assert len(set(accuracies)) == 1


def test_features_come_with_the_logits_live_and_cached(tmp_path):
    from dataclasses import replace

    data = texts()
    answers = []
    for kind in ("live", "cached"):
        run = trainer(tmp_path, train=data, reference=kind)
        part = run.source.parts["old"]
        part.named = replace(part.named, features=True)
        loader = run.get_train_dataloader()
        rows = [run.source.rows(data, training=True)[index] for index in range(5)]
        batch = run._prepare_inputs(run._get_collator_with_removed_columns(run.data_collator)(rows))
        answers.append(run.source.answers(batch)["old"])
        assert loader is not None
    assert answers[0].features.shape == (5, 16)
    assert torch.allclose(answers[0].features, answers[1].features, atol=1e-6)
    head = bert(seed=2).classifier
    assert torch.allclose(head(answers[1].features), answers[1].logits, atol=1e-5)
