"""The whole demo, cut short, and what it does to folders."""

import shlex
import sys
from pathlib import Path

import pytest

from hf_pct.cli import main
from hf_pct.demo.story import MARKER, run_demo
from hf_pct.flips.predictions import Predictions
from hf_pct.flips.report import FlipReport


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """One quick run: its folder and what it printed."""
    import contextlib
    import io

    folder = tmp_path_factory.mktemp("demo") / "out"
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert run_demo(folder, quick=True) == 0
    return folder, printed.getvalue()


@pytest.mark.parametrize("name", ["intents", "digits"])
def test_leaves_models_tables_and_reports(told, name):
    folder = told[0] / name
    old, new = (Predictions.load(folder / f"{side}_predictions.parquet") for side in ("old", "new"))
    report = FlipReport.load(folder / "flip_report.json")
    assert len(old) == len(new) == report.counts.total == 200
    assert old.provenance.weights != new.provenance.weights
    assert (folder / "flip_report.md").read_text(encoding="utf-8").startswith("# Flips")
    assert {path.name for path in (folder / "old").iterdir()} >= {"model.safetensors", "config.json"}
    assert not list(folder.rglob("*.bin")), "no pickled file belongs into a model's folder"


def test_flips_by_domain_and_with_their_text(told):
    report = FlipReport.load(told[0] / "intents" / "flip_report.json")
    assert "domain" in report.slices
    assert "text" in report.flips.column_names


@pytest.mark.parametrize(
    ("name", "sides"), [("intents", ["focal", "tuned", "merged"]), ("digits", ["tuned", "focal"])]
)
def test_every_treatment_is_compared_with_the_same_old_model(told, name, sides):
    folder = told[0] / name
    untreated = FlipReport.load(folder / "flip_report.json")
    for side in sides:
        report = FlipReport.load(folder / f"{side}_flips" / "flip_report.json")
        assert report.counts.total == untreated.counts.total
        assert report.counts.old_accuracy == untreated.counts.old_accuracy
        assert report.counts != untreated.counts


def test_the_merge_is_shown_and_recorded(told):
    folder, printed = told
    assert printed.count("<- chosen") == 1
    assert "alpha is the share of the old model" in printed
    assert (folder / "intents" / "alpha_curve.md").read_text(encoding="utf-8").startswith("| alpha |")
    assert {"model.safetensors", "pct_merge.json"} <= {path.name for path in (folder / "intents" / "merged").iterdir()}


def test_development_and_test_rows_are_apart():
    from hf_pct.demo.updates import digits_update, intents_update

    for update in (intents_update(0), digits_update(0)):
        development, test = (set(update.splits[part]["id"]) for part in ("development", "test"))
        assert not development & test
        assert len(test) >= 500


def test_says_what_to_do_next(told):
    folder, printed = told
    assert "What does an update break?" in printed
    assert printed.count("negative flip") + printed.count("NFR") > 4
    assert "REGRESSED" in printed or "PASSED" in printed
    assert "What to look at next" in printed
    assert str(folder / "intents" / "flip_report.md") in printed


@pytest.mark.parametrize("start", ["Gate", "Repeat", "Files"])
def test_the_commands_that_it_names_work(told, start, capsys):
    printed = told[1].replace("\\\n", " ")
    line = next(line for line in printed.splitlines() if line.startswith(start))
    line = line.replace(sys.argv[0] + " ", "hf-pct ")  # where the command is not on the path
    command = shlex.split(line.split("hf-pct ", 1)[1].partition(";")[0])
    assert main(command) in ((0, 1) if start == "Gate" else (0,))
    assert "NFR" in capsys.readouterr().out


def test_a_folder_with_other_things_in_it_is_refused(tmp_path):
    mine = tmp_path / "mine.txt"
    mine.write_text("precious", encoding="utf-8")
    with pytest.raises(FileExistsError, match=r"not empty and was not made by hf-pct demo.*--output_dir"):
        run_demo(tmp_path, quick=True)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    with pytest.raises(FileExistsError, match="is a file, expected a folder"):
        run_demo(mine, quick=True)
    assert main(["demo", "--output_dir", str(tmp_path), "--quick"]) == 2


def test_a_folder_of_its_own_is_used_again(told, monkeypatch):
    from hf_pct.demo import story

    folder = told[0]
    assert (folder / MARKER).exists()
    assert story._claim(Path(folder)) == folder


def test_same_seed_same_flips(told, tmp_path):
    """What a newcomer sees is what we saw: training is deterministic on one machine."""
    from hf_pct.demo.story import Telling
    from hf_pct.demo.updates import digits_update

    telling = Telling(digits_update(0).shortened(), tmp_path / "digits", 0)
    telling.update_as_usual()
    first = FlipReport.load(told[0] / "digits" / "flip_report.json")
    assert telling.reports["trained anew"].counts == first.counts
    assert telling.reports["trained anew"].new.weights == first.new.weights
