"""The real clients against the loopback Hub: what is pushed is what is loaded, once, whole, and with its flips."""

import json
import re
import shutil

import pytest

FILES = {
    ".gitattributes",
    "README.md",
    "config.json",
    "flip_report.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
}


@pytest.fixture(scope="module")
def pushed(hub, client, update):
    code, out = client.cli("push", update.new, "--repo_id", "org/intent-v2", "--report", update.report)
    assert code == 0, out
    return hub.model("org/intent-v2")


def test_everything_goes_up_in_one_commit(pushed):
    assert len(pushed.branches["main"]) == 2  # the initial one, and ours
    assert set(pushed.files) == FILES
    assert pushed.messages[pushed.head] == "Update of org/intent-v1"


def test_what_is_loaded_is_what_was_pushed(client, update, pushed):
    difference, answer = client.run(
        """
        import torch
        from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline
        here = AutoModelForSequenceClassification.from_pretrained(a.new).eval()
        there = AutoModelForSequenceClassification.from_pretrained("org/intent-v2").eval()
        inputs = AutoTokenizer.from_pretrained("org/intent-v2")(["turn on the light", "stop"], return_tensors="pt",
                                                                padding=True)
        with torch.no_grad():
            difference = (here(**inputs).logits - there(**inputs).logits).abs().max().item()
        result = difference, pipeline("text-classification", model="org/intent-v2")("play music")[0]["label"]
        """,
        new=update.new,
    )
    assert difference == 0
    assert answer in {row["label"] for row in update.rows}


def test_the_card_says_what_was_measured_against_what(client, update, pushed):
    data, results = client.run(
        """
        from huggingface_hub import ModelCard
        card = ModelCard.load("org/intent-v2")
        card.validate()
        result = card.data.to_dict(), [vars(entry) for entry in card.data.eval_results]
        """
    )
    assert {key: data[key] for key in ("library_name", "pipeline_tag", "base_model", "base_model_relation")} == {
        "library_name": "transformers",
        "pipeline_tag": "text-classification",
        "base_model": "org/intent-v1",
        "base_model_relation": "finetune",
    }
    assert (data["license"], data["language"], data["datasets"]) == ("mit", "en", ["org/intents"])
    report = json.loads(update.report.read_text())
    assert {result["metric_type"]: result["metric_value"] for result in results} == {
        "accuracy": pytest.approx(report["new_accuracy"], abs=1e-6),
        "nfr": pytest.approx(report["nfr"], abs=1e-6),
        "pfr": pytest.approx(report["pfr"], abs=1e-6),
        "relative_nfr": pytest.approx(report["relative_nfr"], abs=1e-6),
    }
    for result in results:
        assert (result["dataset_type"], result["dataset_split"]) == ("org/intents", "test")
        assert result["dataset_args"] == {"rows": 120, "fingerprint": report["new"]["fingerprint"]}
        assert result["metric_args"]["old_model"] == "org/intent-v1"
        assert result["metric_args"]["old_revision"] == update.old_commit


def test_the_lines_on_the_card_run(client, pushed):
    card = pushed.files["README.md"].decode()
    blocks = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    assert len(blocks) == 1
    client.run(blocks[0])
    (command,) = re.findall(r"^hf-pct (verify .*)$", card, re.MULTILINE)
    code, out = client.cli(*command.split())
    assert code == 0, out


def test_texts_columns_and_local_paths_stay_at_home(update, pushed):
    report = json.loads(pushed.files["flip_report.json"])
    columns = {"id", "kind", "label", "old_answer", "new_answer", "old_confidence", "new_confidence"}
    assert all(set(row) == columns for row in report["flips"])
    assert report["new"]["model"] == "org/intent-v2"
    assert report["slices"] == {}
    texts = {row["text"] for row in update.rows if len(row["text"].split()) > 4}
    for name, content in pushed.files.items():
        assert str(update.new.parent).encode() not in content, name
        assert not any(text.encode() in content for text in texts), name


def test_columns_are_published_when_they_are_named(hub, client, update):
    code, out = client.cli(
        "push", update.new, "--repo_id", "mia/with-texts", "--report", update.report, "--public_columns", "text",
        "channel", "--private",
    )  # fmt: skip
    assert code == 0, out
    repo = hub.model("mia/with-texts")
    assert repo.private
    report = json.loads(repo.files["flip_report.json"])
    assert {"text", "channel"} < set(report["flips"][0])
    assert set(report["slices"]) == {"channel"}


def test_what_should_be_private_does_not_go_into_a_public_repository(hub, client, update):
    repo = hub.add("models", "org/open", {})
    data = hub.add("datasets", "org/open-flips", {})
    before, started = repo.head, len(hub.log)
    push = ("push", update.new, "--report", update.report, "--repo_id")
    code, out = client.cli(*push, "org/open", "--private")
    assert code == 2
    assert "org/open exists and is public, and this should be private" in out
    code, out = client.cli(*push, "org/open", "--flips_dataset", "org/open-flips")  # private unless said otherwise
    assert code == 2
    assert "org/open-flips exists and is public" in out
    assert (repo.head, set(data.files)) == (before, {".gitattributes"})
    assert not [route for method, route, _ in hub.log[started:] if method in ("POST", "PUT")]


def test_nothing_follows_a_link_out_of_the_folder(hub, client, update, tmp_path):
    folder = shutil.copytree(update.new, tmp_path / "model")
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "vocab.txt").symlink_to(tmp_path / "secret.txt")
    code, out = client.cli("push", folder, "--repo_id", "org/linked", "--report", update.report)
    assert code == 2
    assert "vocab.txt is a link to" in out
    assert ("models", "org/linked") not in hub.repos


def test_paths_of_this_machine_stay_here(hub, client, update, tmp_path):
    folder = shutil.copytree(update.new, tmp_path / "secret" / "model")
    lay = f"{tmp_path}/secret"
    changes = {
        "config.json": {"_name_or_path": f"{lay}/base", "custom": {"teacher": f"{lay}/big"}},
        "tokenizer_config.json": {"name_or_path": f"{lay}/base", "tokenizer_file": "/opt/x/tokenizer.json"},
        "pct_config.json": {"method": "kd", "settings": {"data": f"{lay}/rows.jsonl"}},
    }
    for name, values in changes.items():
        before = json.loads((folder / name).read_text()) if (folder / name).is_file() else {}
        (folder / name).write_text(json.dumps(before | values))
    report = json.loads(update.report.read_text())
    report["notes"] = [f"left out: {lay}/rows.jsonl"]
    report["new"]["settings"] = {"processor": f"{lay}/tokenizer"}
    (tmp_path / "report.json").write_text(json.dumps(report))
    code, out = client.cli("push", folder, "--repo_id", "org/clean", "--report", tmp_path / "report.json")
    assert code == 0, out
    for name, content in hub.model("org/clean").files.items():
        assert b"secret" not in content, name
        assert b"/opt/x" not in content, name
    config = json.loads(hub.model("org/clean").files["config.json"])
    assert config["custom"] == {"teacher": "big"}
    assert config["id2label"] == json.loads((update.new / "config.json").read_text())["id2label"]
    assert json.loads((folder / "config.json").read_text())["custom"] == changes["config.json"]["custom"]


def test_an_existing_card_is_kept_unless_it_is_to_be_replaced(hub, client, update):
    others = {"pytorch_model.bin": b"old", "adapter_config.json": b"{}"}  # these would be another model
    kept = {"README.md": b"# mine\n", "notes.txt": b"x", "onnx/model.safetensors": b"o"}
    repo = hub.add("models", "org/has-card", {**others, **kept})
    push = ("push", update.new, "--repo_id", "org/has-card", "--report", update.report)
    code, out = client.cli(*push)
    assert code == 0
    assert "README.md of the repository is kept" in out
    assert not set(others) & set(repo.files)
    assert {name: repo.files[name] for name in kept} == kept
    head = repo.head
    assert client.cli(*push)[0] == 0
    assert repo.head == head  # the same push again adds nothing
    assert client.cli(*push, "--replace_card")[0] == 0
    assert b"negative flip" in repo.files["README.md"]


def test_a_branch(hub, client, update):
    code, out = client.cli(
        "push", update.new, "--repo_id", "org/branched", "--report", update.report, "--revision", "next"
    )
    assert code == 0, out
    repo = hub.model("org/branched")
    assert set(repo.files) == {".gitattributes"}
    assert "model.safetensors" in repo.commits[repo.branches["next"][-1]]


def test_a_report_about_other_weights_is_refused(hub, client, update):
    code, out = client.cli("push", update.old, "--repo_id", "org/wrong", "--report", update.report)
    assert code == 2
    assert "The report is about other weights" in out
    assert ("models", "org/wrong") not in hub.repos


def test_a_model_in_memory(hub, client, update):
    files, notes = client.run(
        """
        from transformers import AutoModelForSequenceClassification, AutoTokenizer
        from hf_pct.hub.publish import push_update
        model = AutoModelForSequenceClassification.from_pretrained(a.new)
        done = push_update(model, a.report, "memory", processor=AutoTokenizer.from_pretrained(a.new), license="mit")
        from huggingface_hub import list_repo_files
        result = list_repo_files(done.repo_id), done.notes
        """,
        new=update.new,
        report=update.report,
    )
    assert set(files) == FILES
    assert ("models", "mia/memory") in hub.repos  # a bare name belongs to the token's owner
    assert notes == []


def test_a_folder_that_lacks_parts_names_them_all(hub, client, update, tmp_path):
    (tmp_path / "config.json").write_text('{"architectures": ["BertForSequenceClassification"]}')
    (tmp_path / "pytorch_model.bin").write_bytes(b"pickle")
    code, out = client.cli("push", tmp_path, "--repo_id", "org/parts", "--report", update.report)
    assert code == 2
    assert "there are no weights as safetensors" in out
    assert "the tokenizer is missing" in out
    assert ("models", "org/parts") not in hub.repos


def test_shards_go_up_together_and_leave_together(hub, client, update, tmp_path):
    client.run(
        """
        from transformers import AutoModelForSequenceClassification, AutoTokenizer
        model = AutoModelForSequenceClassification.from_pretrained(a.new)
        model.save_pretrained(a.folder, max_shard_size="15KB")
        AutoTokenizer.from_pretrained(a.new).save_pretrained(a.folder)
        """,
        new=update.new,
        folder=tmp_path,
    )
    push = ("--repo_id", "org/sharded", "--report", update.report)
    assert client.cli("push", tmp_path, *push)[0] == 0
    repo = hub.model("org/sharded")
    shards = {name for name in repo.files if name.startswith("model-")}
    assert len(shards) > 1
    assert "model.safetensors.index.json" in repo.files
    assert client.cli("verify", "org/sharded")[0] == 0
    assert client.cli("push", update.new, *push)[0] == 0
    assert not {*shards, "model.safetensors.index.json"} & set(repo.files)
    next(tmp_path.glob("model-00001-*")).unlink()
    code, out = client.cli("push", tmp_path, *push)
    assert code == 2
    assert "the shard model-00001-of-" in out
