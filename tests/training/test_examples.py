"""The example scripts, launched for real on a little data."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from datasets import ClassLabel, Dataset, Features, Image
from PIL import Image as Pictures
from training_kit import NAMES, bert, texts, tokenizer

from hf_pct.flips.report import FlipReport
from hf_pct.training.script import DataArguments, label_names, parse_arguments, with_label_ids
from hf_pct.training.timm_models import timm_classifier

EXAMPLES = Path(__file__).parents[2] / "examples"
LEFT_BEHIND = {"model.safetensors", "flip_report.json", "flip_report.md", "train_results.json", "eval_results.json"}


def launch(script, *arguments):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}
    result = subprocess.run(
        [sys.executable, str(EXAMPLES / script), *map(str, arguments)],
        env=environment, capture_output=True, text=True, timeout=240, check=False, cwd=EXAMPLES.parent,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-4000:]
    return result.stdout


def write_texts(path, rows, seed):
    data = texts(rows, seed=seed, tokenized=False)
    lines = [json.dumps({"id": i, "text": row["text"], "label": NAMES[row["label"]]}) for i, row in enumerate(data)]
    path.write_text("\n".join(lines) + "\n")


def test_text_update(tmp_path):
    for name in ("old", "start"):
        bert(seed=len(name)).save_pretrained(tmp_path / name)
        tokenizer().save_pretrained(tmp_path / name)
    write_texts(tmp_path / "train.jsonl", 48, 0)
    write_texts(tmp_path / "test.jsonl", 30, 1)
    out = tmp_path / "out"
    printed = launch(
        "text_classification/run_text_update.py", EXAMPLES / "text_classification" / "fd_lm.yaml",
        "--old_model", tmp_path / "old", "--model_name_or_path", tmp_path / "start",
        "--train_file", tmp_path / "train.jsonl", "--validation_file", tmp_path / "test.jsonl",
        "--max_train_samples", 40, "--num_train_epochs", 2, "--output_dir", out, "--use_cpu",
        "--reference_cache_dir", tmp_path / "cache", "--logging_steps", 1,
    )  # fmt: skip
    assert {path.name for path in out.iterdir()} >= LEFT_BEHIND
    report = FlipReport.load(out / "flip_report.json")
    metrics = json.loads((out / "eval_results.json").read_text())
    assert metrics["eval_nfr"] == pytest.approx(report.nfr)
    assert report.to_text() in printed
    train = json.loads((out / "trainer_state.json").read_text())["log_history"]
    assert any("loss_distillation" in entry for entry in train)


def test_image_update(tmp_path):
    model, processor = timm_classifier("test_resnet", ["0", "1", "2"], 16)
    model.save_pretrained(tmp_path / "old")
    processor.save_pretrained(tmp_path / "old")
    generator = np.random.default_rng(0)
    for name, rows in (("train", 24), ("test", 15)):
        labels = generator.integers(0, 3, rows)
        pixels = generator.integers(0, 256, (rows, 16, 16, 3)).astype("uint8")
        features = Features({"image": Image(), "label": ClassLabel(names=["0", "1", "2"])})
        columns = {"image": [Pictures.fromarray(picture) for picture in pixels], "label": labels.tolist()}
        Dataset.from_dict(columns, features=features).to_parquet(tmp_path / f"{name}.parquet")
    out = tmp_path / "out"
    launch(
        "image_classification/run_image_update.py", EXAMPLES / "image_classification" / "fd_kl.yaml",
        "--old_model", tmp_path / "old", "--timm_architecture", "test_resnet", "--image_size", 16,
        "--train_file", tmp_path / "train.parquet", "--validation_file", tmp_path / "test.parquet",
        "--per_device_train_batch_size", 8, "--gradient_accumulation_steps", 1, "--num_train_epochs", 2,
        "--lr_drop_every", 1, "--output_dir", out, "--use_cpu", "--save_strategy", "no", "--logging_steps", 1,
    )  # fmt: skip
    assert {path.name for path in out.iterdir()} >= LEFT_BEHIND
    history = json.loads((out / "trainer_state.json").read_text())["log_history"]
    rates = [entry["learning_rate"] for entry in history if "learning_rate" in entry]
    assert rates == pytest.approx([0.1] * 3 + [0.01] * 3)


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
