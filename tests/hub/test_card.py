"""The card without a Hub: what it says, that it parses back, and that no name can break out of it."""

import argparse
import dataclasses
import json
import subprocess
import sys

import pytest
import yaml
from huggingface_hub import ModelCard
from loopback_repos import BLOCK, yaml_problems

from hf_pct import Predictions, compare
from hf_pct.flips.tables.predictions import Provenance
from hf_pct.hub.card.text import make_card
from hf_pct.hub.client.names import hub_id, public_name
from hf_pct.hub.public_report import public_report

HOSTILE = [
    "a | b | c",
    "x\n---\nlicense: stolen\n---\n",
    "`code` <script>alert(1)</script>",
    "]( http://evil ) ![x](y)",
    "'\"; rm -rf / #",
    "- item: {a: b}",
    "{{ 7 * 7 }} {% raw %}",
    "\x00\x1b[31m\u2028 line\rbreak",
    "```\n# heading\n",
    "!!python/object/apply:os.system ['x']",
]


def report_of(labels, *, model="org/old", revision="a" * 40, dataset="org/data"):
    """Half of the rows of each class break, the other half stay right."""
    rows = [label for label in labels for _ in range(4)]
    other = [labels[(index // 4 + 1) % len(labels)] if index % 2 else row for index, row in enumerate(rows)]
    old = Provenance(model=model, revision=revision, weights="f" * 32, dataset=dataset, split="test")
    new = Provenance(model="somewhere/new", dataset=dataset, split="test", fingerprint="e" * 32)
    ids = list(range(len(rows)))
    return compare(
        Predictions(ids, rows, rows, label_names=labels, provenance=old),
        Predictions(ids, rows, other, label_names=labels, provenance=new, columns={"text": [f"t{i}" for i in ids]}),
    )


def tables(body):
    """Tables as lists of rows, each with its number of cells."""
    found, current = [], []
    for line in [*body.splitlines(), ""]:
        if line.startswith("|"):
            current.append(line.replace("\\|", "").count("|"))
        elif current:
            found.append(current)
            current = []
    return found


def test_it_parses_back_and_passes_the_hubs_check():
    card = make_card(report_of(["on", "off"]), "org/new", license="apache-2.0", dataset_revision="d" * 40)
    again = ModelCard(str(card))
    assert again.data.to_dict() == card.data.to_dict()
    assert str(again) == str(card)
    assert yaml_problems(str(card), "model") == []
    (result, *_) = again.data.to_dict()["model-index"][0]["results"]
    assert result["dataset"]["revision"] == "d" * 40
    assert result["metrics"][1]["args"] == {
        "old_model": "org/old",
        "old_revision": "a" * 40,
        "old_weights": "f" * 32,
    }
    assert "[org/old](https://huggingface.co/org/old) at commit `aaaaaaaaaaaa`" in card.text
    assert "| **old right** | 4 (50.00 %) | **4 (50.00 %) broken** |" in card.text


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_breaks_out(name, tmp_path):
    (tmp_path / "pct_config.json").write_text(json.dumps({"method": name, "settings": {name: name}}))
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["BertForSequenceClassification"]}))
    labels = [name.replace("\x00", "") + "1", "plain"]
    plain = make_card(report_of(["a", "b"]), "org/new", folder=tmp_path)
    report = dataclasses.replace(report_of(labels, model=name, revision=name, dataset=name), notes=[name])
    card = make_card(report, "org/new", folder=tmp_path)
    assert yaml_problems(str(card), "model") == []
    data = yaml.safe_load(BLOCK.match(str(card)).group(2))
    assert "license" not in data
    assert "base_model" not in data
    assert set(data) - {"datasets"} == set(plain.data.to_dict()) - {"datasets", "base_model", "base_model_relation"}
    assert ModelCard(str(card)).text == card.text
    for rows in tables(card.text):
        assert len(set(rows)) == 1  # as many cells in every row
    assert "<script" not in card.text
    assert "49" not in card.text
    assert [line for line in card.text.splitlines() if line.startswith("#")] == [
        line for line in plain.text.splitlines() if line.startswith("#")
    ]
    assert card.text.count("\n```") == plain.text.count("\n```")


def test_settings_and_method_come_from_the_records(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["ViTForImageClassification"]}))
    (tmp_path / "pct_config.json").write_text(json.dumps({"method": "elodi", "settings": {"members": 8}}))
    card = make_card(report_of(["a", "b"]), "org/new", folder=tmp_path)
    assert card.data.pipeline_tag == "image-classification"
    assert "elodi" in card.data.tags
    assert "| members | 8 |" in card.text
    assert "zhao2022elodi" in card.text


def test_an_update_that_breaks_nothing_has_no_table_of_losses():
    report = report_of(["a", "b"])
    ids, rows = [1, 2], ["a", "b"]
    same = Predictions(ids, rows, rows, label_names=["a", "b"], provenance=report.old)
    card = make_card(compare(same, same), "org/new")
    assert "Classes that lost most" not in card.text


def test_a_bad_repo_id_is_named():
    with pytest.raises(ValueError, match="'no good' is not a name on the Hub, expected namespace/name"):
        make_card(report_of(["a", "b"]), "no good")


@pytest.mark.parametrize(
    ("name", "revision", "expected"),
    [
        ("org/model", None, "org/model"),
        ("bert-base-uncased", "a" * 40, "bert-base-uncased"),
        ("bert-base-uncased", None, None),
        ("./model", None, None),
        ("/home/someone/model", None, None),
        ("runs/v1/final", None, None),
        ("test.jsonl", "a" * 40, None),
        ("a b/c", None, None),
        (None, None, None),
    ],
)
def test_which_names_are_ids(name, revision, expected):
    assert hub_id(name, revision) == expected


def test_a_folder_that_is_called_like_an_id_is_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "org" / "model").mkdir(parents=True)
    assert hub_id("org/model") is None
    assert public_name("org/model") == "model"


@pytest.mark.parametrize("path", ["/home/someone/data.jsonl", "~/x/data.jsonl", "a/b/data.jsonl", "C:\\x\\data.jsonl"])
def test_of_a_path_only_its_end_is_public(path):
    assert public_name(path) == "data.jsonl"


def test_texts_are_published_only_by_name():
    report = report_of(["a", "b"])
    assert "text" not in public_report(report, "org/new").flips.column_names
    assert "text" in public_report(report, "org/new", columns=["text"]).flips.column_names
    with pytest.raises(ValueError, match="public_columns names txt"):
        public_report(report, "org/new", columns=["txt"])


def test_slices_are_published_only_by_name():
    rows = Predictions([1, 2, 3, 4], ["a", "b", "a", "b"], ["a", "b", "b", "a"], label_names=["a", "b"], columns={
        "user": ["mia", "mia", "otto", "otto"], "channel": ["x", "x", "y", "y"]})  # fmt: skip
    report = compare(rows, rows)
    assert set(report.slices) == {"user", "channel"}
    assert public_report(report, "org/new").slices == {}
    assert set(public_report(report, "org/new", columns=["channel"]).slices) == {"channel"}


def test_the_verb_writes_a_card_without_torch(tmp_path):
    report_of(["a", "b"]).save(tmp_path / "flip_report.json")
    code = (
        "import argparse, sys\nfrom hf_pct.cli.publish import card as command\nparser = argparse.ArgumentParser()\n"
        "command.add_arguments(parser)\n"
        "args = parser.parse_args(['flip_report.json', '--repo_id', 'org/new', '--output', 'README.md'])\n"
        "assert command.run(args) == 0\n"
        "assert not {'torch', 'transformers', 'datasets', 'evaluate'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)
    assert "org/new" in (tmp_path / "README.md").read_text()


@pytest.mark.parametrize("verb", ["card", "push", "verify", "push-metric"])
def test_the_options_have_underscores_and_help(verb, capsys):
    from hf_pct.cli.commands import load_command

    parser = argparse.ArgumentParser()
    load_command(verb).add_arguments(parser)
    for action in parser._actions:
        assert action.help
        assert not any("-" in option.removeprefix("--") for option in action.option_strings if option != "-h")
