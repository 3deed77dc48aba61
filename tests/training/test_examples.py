"""The example scripts, launched for real on a little data."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from datasets import ClassLabel, Dataset, Features, Image
from PIL import Image as Pictures
from training_kit import NAMES, bert, texts, tokenizer
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from hf_pct.flips.report import FlipReport
from hf_pct.merging.checkpoints.stream import merge_checkpoints
from hf_pct.models.load.timm_models import timm_classifier
from hf_pct.models.predict import predict
from hf_pct.training.script import (
    DataArguments,
    UpdateArguments,
    cut_texts_at,
    label_list,
    label_names,
    parse_arguments,
    with_label_ids,
)

EXAMPLES = Path(__file__).parents[2] / "examples"
LEFT_BEHIND = {"model.safetensors", "flip_report.json", "flip_report.md", "train_results.json", "eval_results.json"}


def run(script, *arguments):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}
    return subprocess.run(
        [sys.executable, str(EXAMPLES / script), *map(str, arguments)],
        env=environment, capture_output=True, text=True, timeout=240, check=False, cwd=EXAMPLES.parent,
    )  # fmt: skip


def launch(script, *arguments):
    result = run(script, *arguments)
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-4000:]
    return result.stdout


def write_texts(path, rows, seed):
    data = texts(rows, seed=seed, tokenized=False)
    lines = [json.dumps({"id": i, "text": row["text"], "label": NAMES[row["label"]]}) for i, row in enumerate(data)]
    path.write_text("\n".join(lines) + "\n")


def write_text_task(folder):
    """An old model, one to start from, and rows; the flags that name them."""
    for name in ("old", "start"):
        bert(seed=len(name)).save_pretrained(folder / name)
        tokenizer().save_pretrained(folder / name)
    write_texts(folder / "train.jsonl", 48, 0)
    write_texts(folder / "test.jsonl", 30, 1)
    return [
        "--old_model", folder / "old", "--model_name_or_path", folder / "start",
        "--train_file", folder / "train.jsonl", "--validation_file", folder / "test.jsonl",
        "--max_train_samples", 40, "--output_dir", folder / "out", "--use_cpu", "--logging_steps", 1,
    ]  # fmt: skip


def write_images(folder):
    """Rows of random pictures; the flags that name them and a small model to train from scratch."""
    generator = np.random.default_rng(0)
    for name, rows in (("train", 24), ("test", 15)):
        labels = generator.integers(0, 3, rows)
        pixels = generator.integers(0, 256, (rows, 16, 16, 3)).astype("uint8")
        features = Features({"image": Image(), "label": ClassLabel(names=["0", "1", "2"])})
        columns = {"image": [Pictures.fromarray(picture) for picture in pixels], "label": labels.tolist()}
        Dataset.from_dict(columns, features=features).to_parquet(folder / f"{name}.parquet")
    return [
        "--timm_architecture", "test_resnet", "--image_size", 16,
        "--train_file", folder / "train.parquet", "--validation_file", folder / "test.parquet",
        "--per_device_train_batch_size", 8, "--gradient_accumulation_steps", 1, "--num_train_epochs", 2,
        "--lr_drop_every", 1, "--output_dir", folder / "out", "--use_cpu", "--save_strategy", "no",
        "--logging_steps", 1,
    ]  # fmt: skip


def test_text_update(tmp_path):
    task, out = write_text_task(tmp_path), tmp_path / "out"
    printed = launch(
        "text_classification/run_text_update.py", EXAMPLES / "text_classification" / "fd_lm.yaml",
        *task, "--num_train_epochs", 2, "--reference_cache_dir", tmp_path / "cache",
    )  # fmt: skip
    assert {path.name for path in out.iterdir()} >= LEFT_BEHIND
    report = FlipReport.load(out / "flip_report.json")
    metrics = json.loads((out / "eval_results.json").read_text())
    assert metrics["eval_nfr"] == pytest.approx(report.nfr)
    assert report.to_text() in printed
    train = json.loads((out / "trainer_state.json").read_text())["log_history"]
    assert any("loss_distillation" in entry for entry in train)


def test_what_a_model_was_trained_to_read_travels_with_it(tmp_path, text_models, text_file):
    """Saved with the model, the length is that of every command, and a merge keeps it."""
    old, new = (shutil.copytree(folder, tmp_path / folder.name) for folder in text_models)
    saved = AutoTokenizer.from_pretrained(new)
    whole = predict(new, text_file).logits
    cut_texts_at(saved, 5)
    saved.save_pretrained(new)
    cut = predict(new, text_file).logits
    assert np.abs(cut - whole).max() > 1e-4
    np.testing.assert_array_equal(cut, predict(new, text_file, max_length=5).logits)
    merge_checkpoints(old, new, tmp_path / "merged", alpha=0.0)
    np.testing.assert_array_equal(cut, predict(tmp_path / "merged", text_file).logits)
    with pytest.raises(ValueError, match="max_seq_length is 0"):
        cut_texts_at(saved, 0)
    cut_texts_at(saved, 100)
    assert saved.model_max_length == 5
    saved.model_max_length = 10**30
    cut_texts_at(saved, 100, bert())
    assert saved.model_max_length == 32  # never longer than the model can read


def test_an_adapter_may_be_the_old_model(tmp_path):
    peft = pytest.importorskip("peft")
    task = write_text_task(tmp_path)
    start = AutoModelForSequenceClassification.from_pretrained(tmp_path / "old")
    settings = peft.LoraConfig(task_type="SEQ_CLS", r=2, target_modules=["query"], init_lora_weights=False)
    peft.get_peft_model(start, settings).save_pretrained(tmp_path / "adapter")
    assert label_list(str(tmp_path / "adapter"), None) == NAMES
    (tmp_path / "adapter" / "pct_labels.json").write_text(json.dumps({"label_names": NAMES[::-1]}))
    assert label_list(str(tmp_path / "adapter"), None) == NAMES[::-1]
    launch(
        "text_classification/run_text_update.py", EXAMPLES / "text_classification" / "fd_lm.yaml",
        *task, "--old_model", tmp_path / "adapter", "--num_train_epochs", 1,
    )  # fmt: skip
    report = FlipReport.load(tmp_path / "out" / "flip_report.json")
    metrics = json.loads((tmp_path / "out" / "eval_results.json").read_text())
    assert metrics["eval_nfr"] == pytest.approx(report.nfr)
    with pytest.raises(ValueError, match="nowhere is not a folder with a model in it"):
        label_list(str(tmp_path / "nowhere"), None)


def test_image_update(tmp_path):
    model, processor = timm_classifier("test_resnet", ["0", "1", "2"], 16)
    model.save_pretrained(tmp_path / "old")
    processor.save_pretrained(tmp_path / "old")
    task, out = write_images(tmp_path), tmp_path / "out"
    launch(
        "image_classification/run_image_update.py", EXAMPLES / "image_classification" / "fd_kl.yaml",
        "--old_model", tmp_path / "old", *task,
    )  # fmt: skip
    assert {path.name for path in out.iterdir()} >= LEFT_BEHIND
    history = json.loads((out / "trainer_state.json").read_text())["log_history"]
    rates = [entry["learning_rate"] for entry in history if "learning_rate" in entry]
    assert rates == pytest.approx([0.1] * 3 + [0.01] * 3)


def test_text_update_with_elodi(tmp_path):
    task, out = write_text_task(tmp_path), tmp_path / "out"
    settings = EXAMPLES / "text_classification" / "elodi.yaml"
    flags = ["--num_members", 2, "--num_train_epochs", 2, "--reference_cache_dir", tmp_path / "cache"]
    printed = launch("text_classification/run_text_update.py", settings, *task, *flags)
    assert {path.name for path in out.iterdir()} >= {*LEFT_BEHIND, "members"}
    report = FlipReport.load(out / "flip_report.json")
    assert report.to_text() in printed
    state = json.loads((out / "trainer_state.json").read_text())["log_history"]
    assert any("loss_ldi" in entry for entry in state)
    assert not any("loss_ldi_old" in entry for entry in state)  # elodi.yaml counts flips against an old model, only
    metrics = json.loads((out / "eval_results.json").read_text())
    assert metrics["eval_nfr"] == pytest.approx(report.nfr)
    ensemble = predict(out / "members", str(tmp_path / "test.jsonl"), use_cache=False)
    assert metrics["eval_ensemble_accuracy"] == pytest.approx(ensemble.accuracy)
    members = [predict(out / "members" / name, str(tmp_path / "test.jsonl"), use_cache=False) for name in ("0", "1")]
    assert np.abs(members[0].logits - members[1].logits).max() > 1e-4
    np.testing.assert_allclose(ensemble.logits, np.mean([member.logits for member in members], axis=0), atol=1e-5)


def test_image_update_with_elodi(tmp_path):
    """Without an old model; members fall by the same steps as the student, which transformers has no schedule for."""
    task, out = write_images(tmp_path), tmp_path / "out"
    settings = EXAMPLES / "image_classification" / "elodi.yaml"
    printed = launch(
        "image_classification/run_image_update.py", settings, *task, "--num_members", 2, "--disable_tqdm", "true"
    )
    assert {path.name for path in out.iterdir()} >= {"model.safetensors", "members", "eval_results.json"}
    assert not (out / "flip_report.json").exists()
    rates = [float(rate) for rate in re.findall(r"'learning_rate': '?([\d.e-]+)", printed)]
    assert rates == pytest.approx(([0.1] * 3 + [0.01] * 3) * 3)  # two members, then the student
    tables = [predict(folder, str(tmp_path / "test.parquet"), use_cache=False) for folder in (out, out / "members")]
    metrics = json.loads((out / "eval_results.json").read_text())
    assert metrics["eval_accuracy"] == pytest.approx(tables[0].accuracy)
    assert metrics["eval_ensemble_accuracy"] == pytest.approx(tables[1].accuracy)


@pytest.mark.parametrize(
    "script", ["text_classification/run_text_update.py", "image_classification/run_image_update.py"]
)
def test_settings_that_cannot_be_are_named_before_anything_is_loaded(tmp_path, script):
    settings = (EXAMPLES / script).parent / "elodi.yaml"
    model = ["--model_name_or_path", tmp_path / "nowhere", "--train_file", "a.csv", "--output_dir", tmp_path / "out"]
    result = run(script, settings, *model, "--num_members", 1, "--ldi_weight", 2)
    assert result.returncode != 0
    assert "num_members=1: expected a whole number >= 2; the paper's is 8" in result.stderr
    assert "ldi_weight=2.0: expected a finite number in [0, 1]" in result.stderr
    assert not (tmp_path / "out").exists()


def test_flags_override_the_file_and_unknown_names_are_refused(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("train_file: a.csv\nmax_train_samples: 3\n")
    (data,) = parse_arguments([DataArguments], [str(path), "--max_train_samples", "5"])
    assert (data.train_file, data.max_train_samples) == ("a.csv", 5)
    path.write_text("train_fil: a.csv\n")
    with pytest.raises(ValueError, match="train_fil, which no argument is called"):
        parse_arguments([DataArguments], [str(path)])


def test_where_rows_come_from_must_be_clear():
    with pytest.raises(ValueError, match="expected exactly one of them"):
        DataArguments().load()
    with pytest.raises(ValueError, match="without validation_file"):
        DataArguments(train_file="a.csv").load()


def test_new_classes_come_after_the_old_models(caplog):
    train, held_out = (Dataset.from_dict({"label": labels}) for labels in (["b", "new", "a"], ["a", "rare"]))
    names = label_names(train, held_out, "label", ["b", "a", "c"])
    assert names == ["b", "a", "c", "new", "rare"]
    assert "1 classes are evaluated but have no training row: rare" in caplog.text
    assert with_label_ids(train, "label", names)["labels"][:] == [0, 3, 1]


def test_bare_indices_are_the_old_models():
    rows = Dataset.from_dict({"label": [0, 2]})
    assert label_names(rows, rows, "label", ["x", "y", "z"]) == ["x", "y", "z"]
    assert with_label_ids(rows, "label", ["x", "y", "z"])["labels"][:] == [0, 2]
    with pytest.raises(ValueError, match=r"Labels \[2\] are not indices of the 2 classes"):
        with_label_ids(rows, "label", ["x", "y"])


def test_a_first_version_needs_no_old_model(tmp_path):
    task = write_text_task(tmp_path)[2:]  # without --old_model
    settings = EXAMPLES / "text_classification" / "plain.yaml"
    launch("text_classification/run_text_update.py", settings, *task, "--num_train_epochs", 1)
    assert json.loads((tmp_path / "out" / "eval_results.json").read_text())["eval_accuracy"] >= 0
    assert not (tmp_path / "out" / "flip_report.json").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["--method", "none"], "metric_for_best_model='nfr' is about an old model, and there is none"),
        (["--train_file", "nowhere.jsonl"], "nowhere.jsonl"),
        (["--old_model", "{folder}/old", "--output_dir", "{folder}/old"], "compared with itself"),
        (["--label_column_name", "kind"], "label_column_name is 'kind', the rows have id, text, label"),
        (["--reference", "cached", "--method", "fd-lm"], "There is no old model and the training set has no column"),
    ],
)
def test_what_a_script_cannot_do_is_one_message(tmp_path, changes, message):
    task = write_text_task(tmp_path)[2:]
    settings = EXAMPLES / "text_classification" / "fd_lm.yaml"
    changes = [change.format(folder=tmp_path) for change in changes]
    result = run("text_classification/run_text_update.py", settings, *task, *changes)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert "run_text_update.py: error: " in result.stderr
    assert message in result.stderr


def test_a_search_with_optuna(tmp_path):
    pytest.importorskip("optuna")
    task = write_text_task(tmp_path)
    settings = EXAMPLES / "text_classification" / "fd_lm.yaml"
    short = ["--num_train_epochs", 1, "--metric_for_best_model", "accuracy", "--disable_tqdm", "true"]
    printed = launch("text_classification/search_update.py", settings, *task, *short, "--n_trials", 3)
    assert re.search(r"%\s+[\d.]+%  --every_row [\d.]+ --right_rows [\d.]+", printed)


@pytest.mark.parametrize("words", [["--config", "{}"], ["--config={}"], ["{}"]], ids=["flag", "joined", "first"])
def test_settings_come_from_one_file_however_it_is_named(tmp_path, words):
    path = tmp_path / "own.yaml"
    path.write_text("method: none\noutput_dir: here\nseed: 5\n")
    first = [word.format(path) for word in words]
    _, args = parse_arguments([DataArguments, UpdateArguments], [*first, "--seed", "6"])
    assert (args.output_dir, args.seed) == ("here", 6)
    with pytest.raises(ValueError, match="Got 2 files of settings"):
        parse_arguments([DataArguments, UpdateArguments], [str(path), "--config", str(path)])
    with pytest.raises(ValueError, match="--config is the last argument"):
        parse_arguments([DataArguments, UpdateArguments], ["--config"])
