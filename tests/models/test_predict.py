import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from datasets import ClassLabel, Dataset, Features, Image, Value
from tiny_models import INTENTS, tiny_bert

import hf_pct
from hf_pct import Predictions, compare
from hf_pct.models.fingerprints import weights_fingerprint
from hf_pct.models.identity import model_fingerprint


@pytest.fixture
def run(text_dataset, tmp_path):
    """`predict` with a cache of its own."""

    def predict(model, dataset=text_dataset, **options):
        return hf_pct.predict(model, dataset, **({"progress": False, "cache_dir": tmp_path / "cache"} | options))

    return predict


def one_by_one(folder, rows):
    """The textbook way: no batches, no padding."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model, tokenizer = (
        AutoModelForSequenceClassification.from_pretrained(folder).eval(),
        AutoTokenizer.from_pretrained(folder),
    )
    with torch.no_grad():
        return torch.cat([model(**tokenizer(row["text"], return_tensors="pt")).logits for row in rows]).numpy()


def test_the_table_is_what_one_sentence_at_a_time_gives(run, text_models, text_rows):
    found = run(text_models[0], batch_size=7)
    assert found.logits == pytest.approx(one_by_one(text_models[0], text_rows), abs=1e-5)
    assert found.ids.to_pylist() == [row["id"] for row in text_rows]
    assert list(found.labels) == [row["label"] for row in text_rows]
    assert found.label_names == tuple(INTENTS)


def test_where_it_comes_from_is_recorded(run, text_models, text_file):
    found = run(text_models[0], text_file, keep_columns=["channel", "traffic"], name="intent-v1")
    source = found.provenance
    assert source.model == "intent-v1"
    assert source.dataset == str(text_file)
    assert source.weights == weights_fingerprint(tiny_bert(INTENTS, 0))
    assert len(source.fingerprint) == 32
    assert set(source.versions) == {"hf_pct", "torch", "transformers"}
    assert found.columns["channel"].to_pylist()[:2] == ["app", "phone"]


def test_models_that_order_their_classes_differently_are_compared_by_name(run, text_models):
    report = compare(run(text_models[0]), run(text_models[1]))
    assert report.counts.total == 120
    assert report.labels.shared == 4
    assert report.old.fingerprint == report.new.fingerprint


def test_a_module_is_left_as_it_was(run, tokenizer):
    model = tiny_bert().train()
    run(model, processor=tokenizer)
    assert model.training
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_the_cache_is_used_and_never_stale(run, text_models, tmp_path, text_rows, monkeypatch):
    calls = []
    module = sys.modules["hf_pct.models.predict"]
    loop = module.run
    monkeypatch.setattr(module, "run", lambda *args, **options: calls.append(1) or loop(*args, **options))
    folder = tmp_path / "model"
    shutil.copytree(text_models[0], folder)
    first = run(folder)
    assert run(folder).logits == pytest.approx(first.logits, abs=0)
    assert len(calls) == 1
    # another place, the same weights: still known
    run(text_models[0], keep_columns=["channel"])
    assert len(calls) == 1
    # the same place, other weights
    tiny_bert(INTENTS, seed=5).save_pretrained(folder)
    changed = run(folder)
    assert len(calls) == 2
    assert not np.allclose(changed.logits, first.logits)
    # the same ids and labels, another text
    edited = [text_rows[0] | {"text": "stop music"}, *text_rows[1:]]
    run(folder, Dataset.from_list(edited))
    assert len(calls) == 3
    # other settings
    run(folder, max_length=4)
    run(folder, use_cache=False)
    assert len(calls) == 5
    # a damaged file is made again
    for path in (tmp_path / "cache").rglob("*.safetensors"):
        path.write_bytes(path.read_bytes()[:30])
    assert run(folder).logits == pytest.approx(changed.logits, abs=0)
    assert len(calls) == 6


def test_a_model_of_ones_own_code_is_never_cached(tokenizer):
    class Mine(type(tiny_bert())):
        pass

    assert model_fingerprint(tiny_bert()) is not None
    assert model_fingerprint(Mine(tiny_bert().config)) is None


def test_the_fingerprint_sees_settings_that_are_not_weights():
    model, other = tiny_bert(), tiny_bert()
    other.config.hidden_act = "relu"
    assert weights_fingerprint(model) == weights_fingerprint(other)
    assert model_fingerprint(model) != model_fingerprint(other)


@pytest.fixture(scope="module")
def image_dataset():
    rng = np.random.default_rng(0)
    features = Features({"id": Value("int64"), "image": Image(), "label": ClassLabel(names=["cat", "dog"])})
    images = [rng.integers(0, 255, (20, 24, 3), dtype=np.uint8) for _ in range(12)]
    return Dataset.from_dict({"id": list(range(12)), "image": images, "label": [0, 1] * 6}, features=features)


def test_images_through_a_raw_timm_model(run, image_dataset):
    import timm

    torch.manual_seed(0)
    model = timm.create_model("test_vit", num_classes=2, pretrained=False).eval()
    found = run(model, image_dataset, batch_size=5)
    assert found.label_names == ("cat", "dog")  # the data names what the model does not
    assert found.logits.shape == (12, 2)
    single = run(model, image_dataset, batch_size=1, use_cache=False)
    assert single.logits == pytest.approx(found.logits, abs=1e-5)
    grey = image_dataset.map(lambda row: {"image": row["image"].convert("L")})
    assert run(model, grey).provenance.fingerprint != found.provenance.fingerprint


def test_anonymous_classes_take_the_names_of_the_data(run, tokenizer):
    features = Features({"text": Value("string"), "label": ClassLabel(names=INTENTS)})
    data = Dataset.from_dict({"text": ["turn on", "stop"], "label": [0, 2]}, features=features)
    model = tiny_bert([f"LABEL_{index}" for index in range(4)])
    assert run(model, data, processor=tokenizer).label_names == tuple(INTENTS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size is 0"),
        ({"keep_columns": ["locale"]}, r"keep_columns names \['locale'\], but the dataset has id, text"),
        ({"label_names": ["a", "b"]}, "None of the data's labels is a class of the model"),
        ({"label_names": ["light_on", "b"]}, "gives 4 logits, but there are 2 label names"),
        ({"dataset": []}, "no rows"),
    ],
)
def test_bad_calls(run, text_models, options, message):
    with pytest.raises(ValueError, match=message):
        run(text_models[0], **options)


def test_a_model_that_has_diverged_is_refused_and_not_cached(run, tokenizer, tmp_path):
    model = tiny_bert()
    torch.nn.init.constant_(model.classifier.bias, float("nan"))
    with pytest.raises(ValueError, match="logits of 120 of 120 rows are NaN"):
        run(model, processor=tokenizer)
    assert not list((tmp_path / "cache").rglob("*.safetensors"))


def test_two_processes_give_the_same_table_as_one(tmp_path, text_models, text_file):
    """A real launch: gloo, two processes, the command line."""
    command = ["predict", str(text_models[0]), "--dataset", str(text_file), "--no_cache", "--batch_size", "8"]
    tables = []
    options = "--multi_gpu --num_processes 2 --num_machines 1 --mixed_precision no --dynamo_backend no"
    launch = [sys.executable, "-m", "accelerate.commands.launch", *options.split(), "--main_process_port", "0"]
    launch += ["-m", "hf_pct"]
    for name, launcher in (("one", [sys.executable, "-m", "hf_pct"]), ("two", launch)):
        path = tmp_path / f"{name}.parquet"
        run = subprocess.run(
            [*launcher, *command, "--output", str(path), "--keep_columns", "channel"],
            capture_output=True, text=True, env=_cpu_environment(), timeout=200,
        )  # fmt: skip
        assert run.returncode == 0, run.stderr
        assert run.stdout.count("written to") == 1
        tables.append(Predictions.load(path))
    one, two = tables
    assert np.array_equal(one.logits, two.logits)
    assert one.to_arrow().equals(two.to_arrow())
    assert one.provenance.fingerprint == two.provenance.fingerprint


def _cpu_environment():
    import os

    return os.environ | {"ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1"}


def test_features_are_kept_and_make_the_logits(run, text_models, tmp_path):
    table = run(text_models[0], features=True)
    table.save(tmp_path / "with_features.parquet")
    again = Predictions.load(tmp_path / "with_features.parquet")
    features = np.array(again.columns["features"].to_pylist(), dtype=np.float32)
    from transformers import AutoModelForSequenceClassification

    head = AutoModelForSequenceClassification.from_pretrained(text_models[0]).classifier
    with torch.no_grad():
        logits = head(torch.from_numpy(features)).numpy()
    assert logits == pytest.approx(run(text_models[0]).logits, abs=1e-5)
    same = hf_pct.compare_retrieval(table, again, table, ks=(1,))
    assert same.flips["new-old"].counts.flip_rate == 0


def test_a_function_has_no_features(run):
    with pytest.raises(ValueError, match="features=True needs a model"):
        run(lambda rows: ["play_music"] * len(rows), features=True, label_names=INTENTS)


def test_the_command_keeps_features(text_models, text_file, tmp_path):
    from hf_pct.cli import main

    output = tmp_path / "v1.parquet"
    options = ["--dataset_name", str(text_file), "--output", str(output), "--features", "--no_cache"]
    assert main(["predict", str(text_models[0]), *options]) == 0
    assert "features" in Predictions.load(output).columns


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_a_bar_never_passes_its_total_and_reaches_it(monkeypatch, processes):
    """A process counts its own batches for all of them; the last ones are smaller, or are not there."""
    from hf_pct.models import run

    class Bar:
        n = 0

        def __init__(self, total, **options):
            self.total = total

        def __enter__(self):
            return self

        def __exit__(self, *error):
            assert self.n == self.total

        def update(self, rows):
            self.n += rows
            assert self.n <= self.total

    monkeypatch.setattr(run, "tqdm", Bar)
    answers = [run.RowAnswers(range(start, min(start + 4, 25)), np.zeros((1, 2))) for start in range(0, 25, 4)]
    share = run.Share(0, processes)
    mine = [answer for number, answer in enumerate(answers) if share.takes(number)]
    assert len(list(run.watched(mine, 25, "Sweep", share))) == len(mine)
