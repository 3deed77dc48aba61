import json
from pathlib import Path

import numpy as np
import pytest
from two_processes import run_in_two_processes
from update_kit import TRAINING, tiny_rows, tiny_setting, write_rows

from hf_pct.cli import main
from hf_pct.update import Contract, update
from hf_pct.update.planning.plan import Case, make_recipes
from hf_pct.update.planning.recipes import mixture, soup_name


@pytest.fixture(scope="module")
def setting(tmp_path_factory, tokenizer):
    return tiny_setting(tmp_path_factory.mktemp("update"), tokenizer, (160, 120, 50), seed=1)


@pytest.fixture(scope="module")
def finished(setting):
    lines = []
    result = update(
        setting["old"], setting["train"], setting["dev"], test_dataset=setting["test"], budget=3, training=TRAINING,
        contract=Contract(margin=0.02), output_dir=setting["root"] / "new", progress=False, announce=lines.append,
    )  # fmt: skip
    return result, lines


def test_candidates_are_the_plan_and_the_soup(finished):
    result, lines = finished
    names = [candidate.name for candidate in result.candidates]
    assert set(names) == {"fd-lm light", "plain", "soup of 2 fd-lm light", "soup of 2 fd-lm light and 1 plain"}
    assert "contract: accuracy at most 0.0200 below the best plain model" in lines[0]
    assert len(lines) == 5
    assert {point.candidate for point in result.choice.points} == set(names)
    assert result.choice.yardstick == "plain"


def test_what_is_written_is_what_was_chosen(finished, setting):
    from transformers import AutoModelForSequenceClassification

    result, _ = finished
    folder = setting["root"] / "new"
    AutoModelForSequenceClassification.from_pretrained(folder)
    record = json.loads((folder / "pct_update.json").read_text())
    assert record["chosen"]["candidate"] == result.shipped.candidate
    assert record["kept"] == result.kept
    assert len(record["points"]) == len(result.choice.points)
    page = (folder / "update.html").read_text()
    assert "<script" not in page
    assert "soup of 2 fd-lm light" in page
    assert page.count("<circle") >= len([point for point in result.choice.points if point.alpha < 1])
    assert (folder / "flip_report.json").is_file()
    assert "NFR" in (folder / "README.md").read_text()
    assert result.report.counts.total == 50
    assert result._repr_html_().startswith("<svg")
    assert result.report.new.model == str(folder), "where it is, and not where it was put together"
    assert result.report.new.dataset == setting["test"], "the file, and not the format that it was read as"


def test_a_second_run_trains_nothing_again(finished, setting, monkeypatch):
    from hf_pct.update.training import Workshop

    first, _ = finished
    monkeypatch.setattr(Workshop, "_train", lambda *_: pytest.fail("a candidate was trained twice"))
    again = update(
        setting["old"], setting["train"], setting["dev"], budget=3, training=TRAINING, contract=Contract(margin=0.02),
        candidates_dir=setting["root"] / "new-candidates", progress=False,
    )  # fmt: skip
    assert again.shipped == first.shipped
    for one, two in zip(first.candidates, again.candidates, strict=True):
        assert np.array_equal(one.curve.correct, two.curve.correct)


def test_the_command_writes_a_record_that_makes_it_again(setting, capsys):
    root = setting["root"]
    command = [
        "update", "--old_model", setting["old"], "--train_file", setting["train"], "--validation_file", setting["dev"],
        "--budget", "1", "--num_train_epochs", "1", "--learning_rate", "0.001", "--margin", "0.5", "--quiet",
    ]  # fmt: skip
    code = main([*command, "--output_dir", str(root / "made"), "--certify"])
    assert code in (0, 1)
    assert "written to" in capsys.readouterr().out
    again = main(["update", "--config", str(root / "made" / "pct_update.json"), "--output_dir", str(root / "again"),
                  "--quiet"])  # fmt: skip
    assert again == code
    one, two = (json.loads((root / name / "pct_update.json").read_text()) for name in ("made", "again"))
    assert one["chosen"] == two["chosen"]
    assert one["certificate"] == two["certificate"]
    assert (root / "made" / "model.safetensors").read_bytes() == (root / "again" / "model.safetensors").read_bytes()


def test_dry_run_only_plans(setting, capsys):
    root = setting["root"]
    code = main(["update", "--old_model", setting["old"], "--train_file", setting["train"], "--validation_file",
                 setting["dev"], "--budget", "4", "--dry_run", "--output_dir", str(root / "none")])  # fmt: skip
    out = capsys.readouterr().out
    assert code == 0
    assert "4. fd-lm light, seed 2" in out
    assert "time: about" in out
    assert "disk: about" in out
    assert not (root / "none").exists()


def test_nothing_keeps_an_impossible_contract_and_the_plain_model_is_written(setting):
    result = update(
        setting["old"], setting["train"], setting["dev"], budget=2, training=TRAINING, progress=False,
        contract=Contract(max_nfr=0.0, margin=0.0), output_dir=setting["root"] / "flagged",
        candidates_dir=setting["root"] / "new-candidates",
    )  # fmt: skip
    record = json.loads((setting["root"] / "flagged" / "pct_update.json").read_text())
    if not result.kept:
        assert record["chosen"]["candidate"] == "plain"
        assert record["chosen"]["alpha"] == 0
        assert "nearest to the contract was" in record["sentence"]


def test_every_problem_is_reported_before_any_training(setting, tokenizer):
    root = setting["root"]
    rows = tiny_rows(200, seed=1)
    train = write_rows(root / "few.jsonl", [row for row in rows[:160] if row["label"] != "music"])
    dev = write_rows(root / "shared.jsonl", [{**row, "id": f"x{row['id']}"} for row in rows[:40]])
    with pytest.raises(ValueError, match="cannot be planned") as caught:
        update(setting["old"], train, dev, budget=0.5, test_dataset=dev, methods=["magic"], start="anew")
    text = str(caught.value)
    assert "30 of 40 development rows are among the training rows (same content)" in text
    assert "40 of 40 test rows are among the development rows" in text
    assert "1 classes of the old model have no training row: 'music'" in text or "music" in text
    assert "budget is 0.5, expected at least 1" in text
    assert "methods are magic" in text
    assert "start is 'anew', which needs base_model" in text


def test_another_architecture_is_no_start(setting, tokenizer, tmp_path):
    from tiny_models import tiny_bert
    from transformers import BertForSequenceClassification

    config = tiny_bert().config
    config.num_hidden_layers = 1
    BertForSequenceClassification(config).save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    with pytest.raises(ValueError, match="start is 'old', but the base model has another architecture"):
        update(setting["old"], setting["train"], setting["dev"], base_model=str(tmp_path / "base"), start="old")
    result = update(
        setting["old"], setting["train"], setting["dev"], base_model=str(tmp_path / "base"), budget=2,
        training=TRAINING, candidates_dir=tmp_path / "candidates", progress=False,
    )  # fmt: skip
    assert all(len(candidate.curve.alphas) == 1 for candidate in result.candidates)
    assert result.choice.yardstick == "plain"


def test_a_base_model_without_a_head_is_the_same_one_every_time(tokenizer, tmp_path):
    """Otherwise a second run would train again what starts from it."""
    from tiny_models import tiny_bert

    from hf_pct.update.inputs.models import identity, load_base

    tiny_bert().bert.save_pretrained(tmp_path / "encoder")
    tokenizer.save_pretrained(tmp_path / "encoder")
    first, again = (identity(load_base(str(tmp_path / "encoder"))) for _ in range(2))
    assert first == again


def test_plans_by_budget():
    same = Case(same_architecture=True, added_classes=0, base_model=False)
    assert [recipe.name for recipe in make_recipes(same, 1)] == ["fd-lm light"]
    assert make_recipes(same, 1)[0].settings == {"every_row": 0.05, "right_rows": 0.25}
    assert [recipe.name for recipe in make_recipes(same, 2)] == ["fd-lm light", "plain"]
    assert [recipe.name for recipe in make_recipes(same, 9, ["plain"])] == ["plain"]
    swept = [recipe for recipe in make_recipes(same, 9, ["plain", "prior-weight-decay"]) if recipe.sweep]
    assert [next(iter(recipe.settings.values())) for recipe in swept] == [1, 10, 100, 1000, 10000]
    other = Case(same_architecture=False, added_classes=0, base_model=True)
    assert [recipe.start for recipe in make_recipes(other, 3)] == ["anew"] * 3
    with_base = Case(same_architecture=True, added_classes=0, base_model=True)
    assert "anew" in [recipe.name for recipe in make_recipes(with_base, 4)]


def test_plans_for_images_hold_rows_of_which_the_old_model_is_surer():
    same = Case(same_architecture=True, added_classes=0, base_model=True, images=True)
    assert [recipe.name for recipe in make_recipes(same, 1)] == ["fd-dynamic"]
    assert make_recipes(same, 1)[0].settings == {"every_row": 0.0, "right_rows": 4.0, "temperature": 2.0}
    whole = make_recipes(same, 5)
    assert [recipe.name for recipe in whole] == [
        "fd-dynamic", "plain", "fd-dynamic, seed 1", "anew", "fd-dynamic, seed 2",
    ]  # fmt: skip
    assert {recipe.family for recipe in whole} == {"fd-dynamic", "plain", "anew"}, "seeds of one family are averaged"
    deeper = Case(same_architecture=False, added_classes=0, base_model=True, images=True)
    assert [recipe.name for recipe in make_recipes(deeper, 2)] == ["plain", "fd-dynamic"]
    third = make_recipes(deeper, 3)[2]
    assert (third.name, third.seed, third.head_seed) == ("fd-dynamic, seed 1", 1, 0), "its head begins alike"
    assert soup_name(mixture(make_recipes(deeper, 4))) == "soup of 1 plain and 2 fd-dynamic and 1 fd-lm medium"
    named = make_recipes(same, 9, ["plain", "fd-lm"])
    assert not [recipe for recipe in named if recipe.method == "fd-dynamic"], "what was not asked for is not trained"
    asked = [recipe for recipe in make_recipes(same, 9, ["plain", "fd-dynamic", "soup"]) if not recipe.plain]
    assert {recipe.method for recipe in asked} == {"fd-dynamic"}
    assert [recipe.name for recipe in asked][:2] == ["fd-dynamic", "fd-dynamic, seed 1"], "narrowed, in the same order"
    swept = [recipe.settings["right_rows"] for recipe in asked if recipe.sweep]
    assert swept == [1.0, 2.0], "the third strength comes first, without a sweep"


def test_a_method_that_is_asked_for_is_swept():
    text = Case(same_architecture=True, added_classes=0, base_model=False)
    kl = [recipe for recipe in make_recipes(text, 9, ["plain", "fd-kl"]) if recipe.method == "fd-kl"]
    assert [recipe.settings["right_rows"] for recipe in kl] == [0.25, 1.0, 5.0]
    swept = [recipe for recipe in make_recipes(text, 9, ["plain", "fd-dynamic"]) if recipe.method == "fd-dynamic"]
    assert [recipe.settings["right_rows"] for recipe in swept] == [1.0, 2.0, 4.0]
    assert all(recipe.settings["every_row"] == 0.0 for recipe in swept)
    assert not [recipe for recipe in make_recipes(text, 9) if recipe.method == "fd-dynamic"]


def test_the_room_is_called_as_the_function_is():
    import hf_pct

    with pytest.raises(TypeError, match="missing 3 required positional arguments"):
        hf_pct.update()


def test_two_processes_make_one_update(setting, tmp_path):
    script = Path(__file__).with_name("distributed_update.py")
    printed = run_in_two_processes(script, setting["old"], setting["train"], setting["dev"], tmp_path / "new")
    said = {line for line in printed.splitlines() if line.startswith("chose")}
    assert len(said) == 1  # both processes chose the same
    assert (tmp_path / "new" / "pct_update.json").is_file()
    assert not list((tmp_path / "new-candidates").glob(".shipped*"))
