import argparse
import json
import runpy
import shutil
import sys
from pathlib import Path

import pytest
import torch
from merging_kit import nudged, tiny_bert
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification, BertTokenizer

from hf_pct.cli import main
from hf_pct.cli.change import merge as command
from hf_pct.core.errors import NotComparableError
from hf_pct.merging.checkpoints.record import MergeRecord
from hf_pct.merging.interpolate import interpolate

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"word{i}" for i in range(40))]


def run(*arguments):
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.run(parser.parse_args([str(argument) for argument in arguments]))


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Old and new model folders with a tokenizer, and development data that the old model mostly gets right."""
    root = tmp_path_factory.mktemp("world")
    (root / "vocab.txt").write_text("\n".join(WORDS))
    tokenizer = BertTokenizer(str(root / "vocab.txt"))
    old = tiny_bert(1)
    for name, model in (("old", old), ("new", nudged(old, 2)), ("new2", nudged(old, 3))):
        model.save_pretrained(root / name)
        tokenizer.save_pretrained(root / name)
    texts = [" ".join(f"word{(7 * i + j * j) % 40}" for j in range(3 + i % 4)) for i in range(80)]
    with torch.no_grad():
        answers = old(**tokenizer(texts, padding=True, return_tensors="pt")).logits.argmax(-1).tolist()
    rows = [
        {"id": i, "text": text, "label": old.config.id2label[answer if i % 5 else (answer + 1) % 3]}
        for i, (text, answer) in enumerate(zip(texts, answers, strict=True))
    ]
    (root / "dev.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return root


def test_a_given_alpha(world, tmp_path, capsys):
    assert run(world / "old", world / "new", "--alpha", ".4", "--output_dir", tmp_path / "out", "--quiet") == 0
    assert "merged at alpha 0.4" in capsys.readouterr().out
    old, new = (load_file(world / name / "model.safetensors") for name in ("old", "new"))
    merged, expected = load_file(tmp_path / "out/model.safetensors"), interpolate(old, new, 0.4)
    assert all(torch.equal(merged[name], expected[name]) for name in expected)


def test_alphas_by_group(world, tmp_path):
    alpha = {"head": 1, "default": 0}
    assert run(world / "old", world / "new", "--alpha", json.dumps(alpha), "--output_dir", tmp_path, "--quiet") == 0
    merged, old = (load_file(folder / "model.safetensors") for folder in (tmp_path, world / "old"))
    assert torch.equal(merged["classifier.weight"], old["classifier.weight"])
    assert MergeRecord.load(tmp_path / "pct_merge.json").alpha == alpha


@pytest.mark.parametrize("method", ["linear", "soup", "fisher"])
def test_auto_chooses_writes_and_can_be_made_again(world, tmp_path, capsys, method):
    new = [world / "new", world / "new2"] if method == "soup" else [world / "new"]
    out, again = tmp_path / "out", tmp_path / "again"
    data = ["--dataset", world / "dev.jsonl", "--alphas", "0.3", "0.6"]
    assert run(world / "old", *new, "--method", method, "--alpha", "auto", *data, "--quiet", "--output_dir", out) == 0
    printed = capsys.readouterr().out
    assert "the fewest negative flips among" in printed
    record = MergeRecord.load(out / "pct_merge.json")
    assert [row["alpha"] for row in record.curve] == [0.0, 0.3, 0.6, 1.0]
    assert record.selection["kept"]
    AutoModelForSequenceClassification.from_pretrained(out)
    assert (out / "tokenizer.json").exists()
    assert run("--config", out / "pct_merge.json", "--quiet", "--output_dir", again) == 0
    assert (out / "model.safetensors").read_bytes() == (again / "model.safetensors").read_bytes()


def test_a_promise_that_is_not_kept_exits_with_1(world, tmp_path, capsys):
    options = ["--alpha", "auto", "--dataset", world / "dev.jsonl", "--alphas", "0.5", "--max_nfr", "0", "--quiet"]
    options += ["--certify", "--output_dir", tmp_path / "out"]
    assert run(world / "old", world / "new", *options) == 1
    assert "returned unmerged" in capsys.readouterr().out
    merged = (tmp_path / "out/model.safetensors").read_bytes()
    assert merged == (world / "new/model.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a"], "expected OLD and at least one NEW"),
        (["a", "b"], "--alpha is missing"),
        (["a", "b", "c", "--alpha", "0.5"], "use --method soup"),
        (["a", "b", "--alpha", "auto"], "need --dataset"),
        (["a", "b", "--alpha", "0.5", "--method", "fisher"], "need --dataset"),
        (["a", "b", "--alpha", "0.5", "--align", "permutation"], "--align needs --alpha auto"),
        (["--config", "c.json", "--alpha", "0.5"], "leave --alpha out"),
        (["a", "--config", "c.json"], "give no models, or"),
        (["no/such-model", "b", "--alpha", "0.5"], "not a model on the Hub"),
    ],
)
def test_wrong_use(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        run(*arguments, "--output_dir", tmp_path / "out")


def test_bad_alpha_not_mergeable_and_a_full_folder(world, tmp_path, capsys):
    with pytest.raises(SystemExit):
        run("a", "b", "--alpha", "1.5", "--output_dir", tmp_path / "out")
    assert "neither a number from 0 to 1, nor auto" in capsys.readouterr().err
    tiny_bert(1, num_hidden_layers=1).save_pretrained(tmp_path / "small")
    with pytest.raises(NotComparableError, match=r"only in"):
        run(world / "old", tmp_path / "small", "--alpha", "0.5", "--output_dir", tmp_path / "out")
    with pytest.raises(ValueError, match="not empty"):
        run(world / "old", world / "new", "--alpha", "0.5", "--output_dir", world)


def test_a_full_disk_and_a_link_are_found_before_the_merge_and_are_wrong_use(world, tmp_path, small_disk, capsys):
    (tmp_path / "link").symlink_to(tmp_path)
    (small_disk / "filler").write_bytes(b"x" * shutil.disk_usage(small_disk).free)
    data = ["--dataset", str(world / "dev.jsonl")]
    for alpha in (["--alpha", "0.4"], ["--alpha", "auto", *data]):
        for out, says in ((small_disk / "out", "are free on that disk"), (tmp_path / "link", "is a link to")):
            merge = ["merge", str(world / "old"), str(world / "new"), *alpha, "--quiet", "--output_dir", str(out)]
            assert main(merge) == 2
            printed = capsys.readouterr()
            assert says in printed.err
            assert "accuracy" not in printed.out  # nothing was swept
    assert [path.name for path in small_disk.iterdir()] == ["filler"]


def test_the_example_trains_merges_and_reports(world, tmp_path, monkeypatch, capsys):
    script = Path(__file__).resolve().parents[2] / "examples/text_classification/merge_update.py"
    flags = {"old_model": world / "old", "train_file": world / "dev.jsonl", "validation_file": world / "dev.jsonl"}
    flags |= {"output_dir": tmp_path / "out", "num_train_epochs": 1, "learning_rate": 0.001, "margin": 0.05}
    flags |= {"use_cpu": True, "report_to": "none", "save_strategy": "no", "disable_tqdm": True}
    command = [str(script), *(part for name, value in flags.items() for part in (f"--{name}", str(value)))]
    monkeypatch.setattr(sys, "argv", command)
    runpy.run_path(str(script), run_name="__main__")
    assert "alpha" in capsys.readouterr().out
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"model.safetensors", "tokenizer.json", "pct_merge.json", "flip_report.json"} <= written
    (tmp_path / "other.jsonl").write_text('{"text": "turn on the light", "label": "never seen"}\n')
    changed = ["--validation_file", str(tmp_path / "other.jsonl"), "--output_dir", str(tmp_path / "again")]
    monkeypatch.setattr(sys, "argv", [*command, *changed])
    with pytest.raises(SystemExit, match="2"):
        runpy.run_path(str(script), run_name="__main__")
    assert "The rows have classes that no model knows: never seen." in capsys.readouterr().err


@pytest.fixture(scope="module")
def adapters(world):
    """Two LoRA adapters of the old model, saved with their tokenizer as our trainers save them."""
    peft = pytest.importorskip("peft")
    tokenizer = BertTokenizer.from_pretrained(world / "old")
    for seed, name, targets in ((5, "lora_old", ["query", "value"]), (6, "lora_new", ["query"])):
        config = peft.LoraConfig(task_type="SEQ_CLS", r=2, target_modules=targets)
        base = AutoModelForSequenceClassification.from_pretrained(world / "old")
        model = peft.get_peft_model(base, config)
        torch.manual_seed(seed)
        for parameter in (p for p in model.parameters() if p.requires_grad):
            parameter.data += 0.1 * torch.randn_like(parameter)
        model.save_pretrained(world / name)
        tokenizer.save_pretrained(world / name)
    return world / "lora_old", world / "lora_new"


def adapter_weights(world, folder):
    from peft import PeftModel

    base = AutoModelForSequenceClassification.from_pretrained(world / "old")
    return PeftModel.from_pretrained(base, folder).merge_and_unload().state_dict()


def test_two_adapters(world, adapters, tmp_path, capsys):
    assert run(*adapters, "--alpha", "0.3", "--output_dir", tmp_path / "out", "--quiet") == 0
    assert "merged two adapters at alpha 0.3" in capsys.readouterr().out
    old, new, merged = (adapter_weights(world, folder) for folder in (*adapters, tmp_path / "out"))
    for name, value in merged.items():
        torch.testing.assert_close(value, 0.3 * old[name] + 0.7 * new[name], rtol=1e-4, atol=1e-5)
    assert (tmp_path / "out/tokenizer.json").is_file()
    assert run(*adapters, "--alpha", "0.3", "--rank", "1", "--output_dir", tmp_path / "small", "--quiet") == 0
    assert "rank 1, relative error 0." in capsys.readouterr().out


def test_adapters_leave_few_choices(world, adapters, tmp_path):
    out = ("--alpha", "0.3", "--output_dir", tmp_path / "out", "--quiet")
    with pytest.raises(ValueError, match=r"is an adapter and .* is not"):
        run(adapters[0], world / "new", *out)
    with pytest.raises(ValueError, match="--method linear, as one old and one new"):
        run(*adapters, adapters[1], "--method", "soup", *out)
    with pytest.raises(ValueError, match="one alpha for all parts"):
        run(*adapters, "--alpha", '{"default": 0.2}', "--output_dir", tmp_path / "out")
    with pytest.raises(ValueError, match="--rank is for two LoRA adapters"):
        run(world / "old", world / "new", "--rank", "3", *out)
