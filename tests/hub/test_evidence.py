"""A report stays with the model that it is about: the gate, the card and the page refuse that of another."""

import dataclasses
import json
import shutil

import pytest
from tiny_models import tiny_bert

from hf_pct import compare, predict
from hf_pct.cli import main
from hf_pct.flips.render.public import without_paths
from hf_pct.hub.evidence import check_folder
from hf_pct.merging.checkpoints.stream import merge_checkpoints
from hf_pct.models.ensembles import save_ensemble
from hf_pct.models.ensembles.fused import save_fused
from hf_pct.policies.fusion import Fusion


@pytest.fixture(scope="module")
def world(tmp_path_factory, text_models, text_file):
    """Models, their merge, and the reports of both."""
    home, (old, new) = tmp_path_factory.mktemp("evidence"), text_models
    merge_checkpoints(old, new, home / "merged", alpha=0.5)
    answers = {name: predict(folder, text_file) for name, folder in (("old", old), ("new", new))}
    answers["merged"] = predict(home / "merged", text_file)
    for name in ("new", "merged"):
        compare(answers["old"], answers[name]).save(home / f"{name}.json")
    shutil.copytree(new, home / "new")
    return home


COMMANDS = {
    "gate": ["--max_nfr", "0.99"],
    "card": ["--repo_id", "org/new", "--output", "README.md"],
    "page": ["-o", "page.html"],
}


@pytest.mark.parametrize("verb", COMMANDS)
def test_a_report_about_other_weights_is_not_comparable(world, tmp_path, monkeypatch, capsys, verb):
    monkeypatch.chdir(tmp_path)
    assert main([verb, str(world / "new.json"), *COMMANDS[verb], "--folder", str(world / "merged")]) == 3
    assert "other weights" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    for name in ("new", "merged"):
        arguments = [*COMMANDS[verb], "--folder", str(world / name)]
        assert main([verb, str(world / f"{name}.json"), *arguments]) == 0
        for path in tmp_path.iterdir():
            path.unlink()


def test_what_cannot_be_compared_is_not_judged(world, tmp_path, capsys):
    report = json.loads((world / "new.json").read_text())
    report["new"]["weights"] = None
    (tmp_path / "r.json").write_text(json.dumps(report))
    gate = ["gate", str(tmp_path / "r.json"), "--max_nfr", "0.99"]
    assert main(gate) == 0
    assert main([*gate, "--folder", str(world / "new")]) == 3
    assert "does not record its weights" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert main(["gate", str(world / "new.json"), "--max_nfr", "0.99", "--folder", str(tmp_path / "empty")]) == 3
    assert main(["gate", str(world / "new.json"), "--max_nfr", "0.99", "--folder", str(tmp_path / "nowhere")]) == 2


def test_files_whose_names_the_library_changes_are_known_by_the_loaded_model(world, tmp_path, text_file, tokenizer):
    from safetensors.torch import load_file, save_file

    tiny_bert(seed=5).save_pretrained(tmp_path / "m")
    tokenizer.save_pretrained(tmp_path / "m")
    path = tmp_path / "m" / "model.safetensors"
    renamed = {name.replace("LayerNorm.weight", "LayerNorm.gamma"): value for name, value in load_file(path).items()}
    save_file(renamed, path, metadata={"format": "pt"})
    answers = predict(tmp_path / "m", text_file)
    assert check_folder(compare(answers, answers), tmp_path / "m") == []


def test_a_curve_of_another_merge_is_refused(world, tmp_path, text_models, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    curve = [{"alpha": alpha, "accuracy": 0.5, "nfr": 0.1} for alpha in (0, 0.5, 1)]
    old, new = text_models
    merge_checkpoints(old, new, tmp_path / "this", alpha=0.5, curve=curve)
    merge_checkpoints(new, old, tmp_path / "other", alpha=0.25, curve=curve)
    page = ["page", str(world / "merged.json"), "--overwrite", "-o", "page.html", "--curve"]
    assert main([*page, "this/pct_merge.json"]) == 0
    assert main([*page, "other/pct_merge.json"]) == 3
    assert "another merge than the report" in capsys.readouterr().err
    unmerged = ["page", str(world / "new.json"), "--overwrite", "-o", "page.html", "--curve", "this/pct_merge.json"]
    assert main(unmerged) == 0  # the curve's end at alpha 0 is this model


def test_a_local_file_has_no_split_and_a_relative_folder_is_no_id(tmp_path, text_models, text_file, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(text_models[0], tmp_path / "models" / "old")
    shutil.copy(text_file, tmp_path / "test.jsonl")
    answers = predict("models/old", "test.jsonl")
    assert answers.provenance.split is None
    assert answers.provenance.model == "./models/old"
    assert predict("models/old", "test.jsonl", split="train").provenance.split == "train"
    compare(answers, answers).save(tmp_path / "r.json")
    shutil.rmtree(tmp_path / "models")
    assert main(["card", "r.json", "--repo_id", "org/new", "--output", "README.md"]) == 0
    card = (tmp_path / "README.md").read_text()
    assert "split train" not in card
    assert "models/old" not in card
    assert "base_model" not in card
    # a report of an earlier version, made elsewhere: the name looks like an id, and no commit says that it is one
    report = compare(answers, answers)
    dataclasses.replace(report, old=dataclasses.replace(report.old, model="models/old")).save(tmp_path / "s.json")
    assert main(["card", "s.json", "--repo_id", "org/new", "--output", "README.md", "--overwrite"]) == 0
    assert "models/old" not in (tmp_path / "README.md").read_text()


@pytest.mark.parametrize(
    ("text", "public"),
    [
        ("rows of /home/mia/data/test.jsonl: 3", "rows of test.jsonl: 3"),
        ("see ~/x/y.csv, '/srv/a b' and C:\\Users\\mia\\m", "see y.csv, 'a b' and m"),
        ("https://huggingface.co/org/a and/or 1/2/3 at 2/3", "https://huggingface.co/org/a and/or 1/2/3 at 2/3"),
        ("class a/b, ./local/c and org/model", "class a/b, ./local/c and org/model"),
    ],
)
def test_paths_inside_of_sentences(text, public):
    assert without_paths(text) == public


def test_a_page_without_texts_holds_no_path_of_this_machine(world, tmp_path):
    saved = json.loads((world / "merged.json").read_text())
    saved["notes"] = [f"3 rows of {tmp_path}/secret/rows.jsonl were left out"]
    (tmp_path / "r.json").write_text(json.dumps(saved))
    assert main(["page", str(tmp_path / "r.json"), "-o", str(tmp_path / "p.html"), "--no_texts"]) == 0
    page = (tmp_path / "p.html").read_text()
    for part in (str(tmp_path), str(world), str(world.parent)):
        assert part not in page
    assert "3 rows of rows.jsonl were left out" in page


@pytest.mark.parametrize("verb", COMMANDS)
def test_numbers_that_were_changed_are_neither_judged_nor_shown_nor_published(
    world, tmp_path, monkeypatch, capsys, verb
):
    report = json.loads((world / "new.json").read_text())
    report["both_right"] += report["negative_flips"]
    report["negative_flips"] = 0
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.json").write_text(json.dumps(report))
    assert main([verb, "r.json", *COMMANDS[verb]]) == 3
    assert "changed after it was written" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


@pytest.mark.parametrize("kind", ["fused", "ensemble"])
def test_folders_that_name_other_models_are_known_too(
    world, tmp_path, text_models, text_file, monkeypatch, capsys, kind
):
    def folder(name, share):
        if kind == "ensemble":
            save_ensemble(tmp_path / name, text_models, temperatures=[1.0, 1 + share])
        else:
            save_fused(tmp_path / name, *text_models, Fusion("surer", share))
        return tmp_path / name

    made, other = folder("made", 0.5), folder("other", 0.6)
    compare(predict(text_models[0], text_file), predict(made, text_file)).save(tmp_path / "r.json")
    monkeypatch.chdir(tmp_path)
    for verb, options in COMMANDS.items():
        assert main([verb, "r.json", *options, "--folder", str(made)]) == 0
        assert (
            main([verb, "r.json", *options, "--folder", str(other), *([] if verb == "gate" else ["--overwrite"])]) == 3
        )
        assert "about other weights" in capsys.readouterr().err
