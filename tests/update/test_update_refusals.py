"""What is wrong with a request is said before anything is trained: every problem, what was expected, and the fix."""

import json
import os
from pathlib import Path

import pytest
from update_kit import save_tiny, tiny_rows, write_rows

from hf_pct.cli import main
from hf_pct.update import Contract, update
from hf_pct.update.training import Workshop

ROWS = tiny_rows(200, seed=11)


@pytest.fixture(scope="module")
def setting(tmp_path_factory, tokenizer):
    root = tmp_path_factory.mktemp("refusals")
    parts = {"train": ROWS[:100], "dev": ROWS[100:160], "test": ROWS[160:]}
    return {
        "root": root,
        "old": save_tiny(root / "old", tokenizer),
        **{name: write_rows(root / f"{name}.jsonl", part) for name, part in parts.items()},
    }


@pytest.fixture(autouse=True)
def nothing_is_trained(monkeypatch):
    monkeypatch.setattr(Workshop, "_train", lambda *_: pytest.fail("something was trained"))


def refusal(setting, **options):
    """The message of a request that cannot be planned; every option but the wrong one is right."""
    train, dev = options.pop("train", setting["train"]), options.pop("dev", setting["dev"])
    with pytest.raises((ValueError, OSError)) as caught:
        update(options.pop("old_model", setting["old"]), train, dev, progress=False, **options)
    return str(caught.value)


def test_development_rows_among_training_rows_are_counted_by_content(setting, tmp_path):
    shared = [{**row, "id": f"other-{row['id']}", "text": f" {row['text']}  "} for row in ROWS[:7]]
    dev = write_rows(tmp_path / "dev.jsonl", [*ROWS[100:160], *shared])
    assert "7 of 67 development rows are among the training rows (same content)" in refusal(setting, dev=dev)


def test_a_test_set_that_overlaps_is_refused_on_both_sides(setting, tmp_path):
    test = write_rows(tmp_path / "test.jsonl", [*ROWS[:3], *ROWS[100:105], *ROWS[160:]])
    text = refusal(setting, test_dataset=test)
    assert "3 of 48 test rows are among the training rows" in text
    assert "5 of 48 test rows are among the development rows" in text


@pytest.mark.parametrize("budget", [0, 0.99, -3, float("nan"), float("inf")])
def test_a_budget_below_one_buys_no_training(setting, budget):
    assert f"budget is {budget}, expected at least 1" in refusal(setting, budget=budget)


def test_start_old_needs_the_old_architecture(setting, tokenizer, tmp_path):
    from tiny_models import tiny_bert
    from transformers import BertForSequenceClassification

    config = tiny_bert().config
    config.num_hidden_layers = 1
    BertForSequenceClassification(config).save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    text = refusal(setting, base_model=str(tmp_path / "base"), start="old")
    assert "start is 'old', but the base model has another architecture or tokenizer" in text


@pytest.mark.parametrize(
    ("contract", "message"),
    [
        ({"margin": float("nan")}, "margin is nan, expected a fraction from 0 and 1"),
        ({"margin": -0.1}, "margin is -0.1"),
        ({"margin": 5}, "margin is 5"),
        ({"max_nfr": float("nan")}, "max_nfr is nan"),
        ({"delta": 0.0, "certify": True}, "delta is 0.0"),
        ({"margin": 0.01, "target_accuracy": 0.9}, "contradict each other"),
        ({"yardstick": "plain", "target_accuracy": 0.9}, "contradict each other"),
    ],
)
def test_a_contract_that_contradicts_itself(contract, message):
    with pytest.raises(ValueError, match="This contract cannot be kept") as caught:
        Contract(**contract)
    assert message in str(caught.value)


def test_a_contract_that_no_rows_could_prove_or_no_plan_could_keep(setting):
    few = Contract(certify=True, max_nfr=0.01)
    text = refusal(setting, contract=few, budget=2)
    assert "max_nfr is 0.01, and with 30 of 60 development rows to prove it" in text
    assert "proves only NFR <= 0.0950" in text
    certain = Contract(certify=True, target_accuracy=0.99)
    assert "always right proves only accuracy >= 0.9050" in refusal(setting, contract=certain)
    text = refusal(setting, contract=Contract(yardstick="anew"), budget=2)
    assert "yardstick is 'anew', and the plan trains fd-lm light, plain" in text


def test_classes_that_vanished_and_labels_that_are_misspelt(setting, tmp_path):
    left = [row for row in ROWS[:100] if row["label"] != "music"]
    train = write_rows(tmp_path / "train.jsonl", left)
    text = refusal(setting, train=train)
    assert "1 classes of the old model have no training row: 'music'" in text or "no training row: music" in text
    assert "--allow_missing_classes" in text
    spelt = [{**row, "label": "Music " if row["label"] == "music" else row["label"]} for row in ROWS[:100]]
    text = refusal(setting, train=write_rows(tmp_path / "spelt.jsonl", spelt))
    assert "'Music ' for 'music'" in text
    dev = [{**row, "label": "musik" if row["label"] == "music" else row["label"]} for row in ROWS[100:160]]
    text = refusal(setting, dev=write_rows(tmp_path / "dev.jsonl", dev))
    assert "never trained" in text
    assert "'musik' may be 'music'" in text


def test_files_that_are_empty_missing_or_without_labels(setting, tmp_path):
    (tmp_path / "empty.jsonl").write_text("")
    bare = write_rows(tmp_path / "bare.jsonl", [{"text": row["text"]} for row in ROWS[:20]])
    text = refusal(setting, train=str(tmp_path / "empty.jsonl"), dev=bare)
    assert "the training rows:" in text
    assert "no rows" in text
    assert "the development rows:" in text
    assert "label_column" in text
    assert "nothing.jsonl" in refusal(setting, train=str(tmp_path / "nothing.jsonl"))
    text = refusal(setting, old_model=str(tmp_path / "no-model"), base_model=str(tmp_path / "no-base"))
    assert "old_model: " in text
    assert "base_model: " in text


def test_training_options_that_no_run_can_start_with(setting):
    text = refusal(setting, training={"num_train_epochs": 0, "learning_rate": float("nan")})
    assert "num_train_epochs is 0, expected a finite number above 0" in text
    assert "learning_rate is nan" in text
    assert "training options: " in refusal(setting, training={"learning_rat": 1e-3})


def test_an_output_folder_that_is_taken_read_only_or_on_a_full_disk(setting, tmp_path, monkeypatch):
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "mine.txt").write_text("mine")
    assert "exists and is not empty" in refusal(setting, output_dir=taken)
    (tmp_path / "file").write_text("")
    assert "is a file, expected a folder" in refusal(setting, output_dir=tmp_path / "file" / "out")
    monkeypatch.setattr("shutil.disk_usage", lambda _: os.statvfs_result and type("Usage", (), {"free": 1000})())
    assert "1,000 are free on that disk" in refusal(setting, output_dir=tmp_path / "full")
    monkeypatch.undo()
    monkeypatch.setattr(Workshop, "_train", lambda *_: pytest.fail("something was trained"))
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert "cannot be written to (read-only, or no permission)" in refusal(setting, output_dir=tmp_path / "locked")


def test_methods_that_do_not_fit_the_case(setting):
    assert "methods are magic, expected some of plain, fd-lm" in refusal(setting, methods=["magic"])
    assert "allow_two_forwards" in refusal(setting, methods=["plain", "fusion"])
    assert "needs base_model" in refusal(setting, methods=["plain", "anew"])
    assert "nothing can be trained at budget 1" in refusal(setting, methods=["elodi"])


def test_the_command_says_it_in_one_message_and_leaves_nothing(setting, tmp_path, capsys):
    command = ["update", "--old_model", setting["old"], "--train_file", setting["train"], "--validation_file",
               setting["train"], "--budget", "0.5", "--output_dir", str(tmp_path / "out")]  # fmt: skip
    assert main(command) == 2
    shown = capsys.readouterr().err
    assert "100 of 100 development rows are among the training rows" in shown
    assert "budget is 0.5" in shown
    assert "Traceback" not in shown
    assert list(Path(tmp_path).iterdir()) == []
    assert main(["update", "--output_dir", str(tmp_path / "out")]) == 2
    assert "--old_model, --train_file, --validation_file missing" in capsys.readouterr().err


def test_a_file_that_is_no_table_is_named_with_the_reason(setting, tmp_path):
    (tmp_path / "broken.jsonl").write_text('{"text": "turn on", "label"\nnot json\n')
    text = refusal(setting, train=str(tmp_path / "broken.jsonl"))
    assert "broken.jsonl cannot be read as jsonl: " in text


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ([], "holds list, expected the record of an update"),
        ({"options": 5}, "options: Expected object"),
        ({"options": {"budget": "no"}}, "budget: is 'no', expected a number"),
        ({"options": {"max_nfr": float("nan")}}, "options.max_nfr is nan, expected a finite number"),
        ({"options": {"allow_missing_classes": "no"}}, "allow_missing_classes: is 'no', expected true or false"),
        ({"options": {"seed": 1.5}}, "seed: is 1.5, expected a whole number"),
        ({"options": {"start": "sideways"}}, "start: is 'sideways', expected one of auto, old, anew"),
        ({"options": {"run": "x"}}, "'run' is no option of hf-pct update"),
        ({"options": {"old_model": ["a"]}}, "old_model: is ['a'], expected text"),
        ({"options": {}}, "--old_model, --train_file, --validation_file missing"),
    ],
)
def test_a_record_is_read_as_its_options_are(tmp_path, capsys, record, message):
    (tmp_path / "pct_update.json").write_text(json.dumps(record))
    command = ["update", "--config", str(tmp_path / "pct_update.json"), "--output_dir", str(tmp_path / "new")]
    assert main(command) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
