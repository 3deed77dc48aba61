"""The whole demo, cut short, and what it does to folders."""

import json
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

from hf_pct.cli import build_parser, main
from hf_pct.demo.story import MARKER, run_demo
from hf_pct.demo.telling import GATE, MARGIN, PLAIN
from hf_pct.demo.words import recommendation
from hf_pct.flips.compare import compare
from hf_pct.flips.gate import check_gate
from hf_pct.flips.render.report import percent
from hf_pct.flips.report import FlipReport
from hf_pct.flips.tables.predictions import Predictions
from hf_pct.models.data import load_data
from hf_pct.models.predict import predict


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Where logits of old models and ensembles would go that are kept beside the datasets cache."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def told(tmp_path_factory, cache):
    """One quick run: its folder and what it printed."""
    import contextlib
    import io

    folder = tmp_path_factory.mktemp("demo") / "out"
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.setattr("hf_pct.training.references.part.default_cache_dir", lambda: cache)
        patch.setenv("HF_PCT_CACHE", str(cache))
        assert run_demo(folder, quick=True) == 0
    return folder, printed.getvalue()


@pytest.mark.parametrize("name", ["intents", "digits", "students"])
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
    ("name", "sides"), [("intents", ["tuned", "updated"]), ("digits", ["updated"]), ("students", ["tuned"])]
)
def test_every_treatment_is_compared_with_the_same_old_model(told, name, sides):
    folder = told[0] / name
    untreated = FlipReport.load(folder / "flip_report.json")
    for side in sides:
        report = FlipReport.load(folder / f"{side}_flips" / "flip_report.json")
        assert report.counts.total == untreated.counts.total
        assert report.counts.old_accuracy == untreated.counts.old_accuracy
        assert report.new.weights != untreated.new.weights


@pytest.mark.parametrize("name", ["intents", "digits"])
def test_the_kit_chooses_on_development_rows_and_writes_what_it_tried(told, name):
    folder, printed = told
    record = json.loads((folder / name / "v2" / "pct_update.json").read_text(encoding="utf-8"))
    assert record["contract"]["margin"] == MARGIN
    assert record["sentence"] in printed, "why this strength, in the kit's own words"
    tried = {point["candidate"] for point in record["points"]}
    assert record["chosen"]["candidate"] in tried
    trained = {"fd-lm light"} if name == "intents" else {"plain", "fd-dynamic", "fd-lm medium"}
    assert {candidate for candidate in tried if not candidate.startswith("soup of")} == trained
    assert len(tried - trained) <= 2 * (name == "digits"), "and means of several, where several were trained"
    weights = FlipReport.load(folder / name / "updated_flips" / "flip_report.json").new.weights
    assert weights == FlipReport.load(folder / name / "v2" / "flip_report.json").new.weights


CHAPTERS = {
    "intents": ["trained anew", "fine-tuned from old", "hf-pct update"],
    "digits": ["trained anew", "hf-pct update"],
    "students": ["trained anew", "fine-tuned from old", "ensembles of 2", "ELODI to ELODI"],
}
FOLDERS = {
    "trained anew": "", "fine-tuned from old": "tuned_flips", "hf-pct update": "updated_flips",
    "ensembles of 2": "elodi/ensembles", "ELODI to ELODI": "elodi",
}  # fmt: skip


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_ends_in_one_table_and_in_what_to_ship(told, name):
    """Every number is a report's; the last row is held against the most accurate plain model."""
    folder, printed = told
    chapter = printed.split(f"--- {list(CHAPTERS).index(name) + 1}. ")[1].split("\n--- ")[0]
    (start,) = (at for at, line in enumerate(chapter.splitlines()) if line.startswith(f"{name} test, 200 rows"))
    rows = chapter.splitlines()[start + 1 :][: len(CHAPTERS[name])]
    reports = {method: FlipReport.load(folder / name / FOLDERS[method] / "flip_report.json") for method in FOLDERS
               if method in CHAPTERS[name]}  # fmt: skip
    for line, method in zip(rows, CHAPTERS[name], strict=True):
        counts = reports[method].counts
        rates = [counts.old_accuracy, counts.new_accuracy, counts.nfr]
        assert line.split() == " ".join([method, *map(percent, rates), percent(counts.relative_nfr, 1)]).split()
    plain = max((reports[method] for method in PLAIN if method in reports), key=lambda each: each.counts.new_accuracy)
    margin = 0.0 if name == "students" else MARGIN
    assert chapter.rstrip().endswith(recommendation(plain, reports[CHAPTERS[name][-1]], margin))


def test_what_to_ship_is_said_for_every_case():
    def report(right, broken):
        """1,000 rows of which the old model gets 900 right."""
        old = ["a"] * 900 + ["b"] * 100
        new = ["b"] * broken + ["a"] * right + ["b"] * (1000 - broken - right)
        sides = [Predictions(list(range(1000)), ["a"] * 1000, answers) for answers in (old, new)]
        return compare(*sides)

    plain = report(right=950, broken=20)
    better = recommendation(plain, report(right=955, broken=10), 0.005)
    assert better.startswith("Ship the last one: it is 0.50 points more accurate")
    assert better.endswith("breaks 10 rows instead of 20.")
    cheaper = recommendation(plain, report(right=947, broken=10), 0.005)
    assert "0.30 points less accurate than the best plain model" in cheaper
    assert "the contract allows 0.50 points" in cheaper
    worse = recommendation(plain, report(right=960, broken=25), 0.005)
    assert "ship the plain one" in worse


@pytest.mark.parametrize("name", CHAPTERS)
def test_the_gate_judges_the_reports_of_the_tables(told, name):
    folder, printed = told
    gate = printed.split("--- 4. ")[1]
    for method in CHAPTERS[name]:
        report = FlipReport.load(folder / name / FOLDERS[method] / "flip_report.json")
        (verdict,) = (line for line in gate.splitlines() if line.startswith(f"{name}, {method} "))
        assert verdict.endswith("PASSED" if check_gate(report, GATE).passed else ", ".join(_failed(report)))


def _failed(report):
    return [result.rule for result in check_gate(report, GATE).results if not result.passed]


def test_elodi_leaves_students_members_and_the_comparison(told):
    folder = told[0] / "students" / "elodi"
    for side in ("old", "new"):
        assert (folder / side / "model.safetensors").is_file()
        members = folder / side / "members"
        assert sorted(path.name for path in members.iterdir()) == ["0", "1", "pct_ensemble.json"]
        records = [json.loads((members / name / "pct_member.json").read_text()) for name in ("0", "1")]
        assert records[0]["seed"] != records[1]["seed"]
    tables = {
        name: [Predictions.load(folder / name / f"{side}_predictions.parquet") for side in ("old", "new")]
        for name in ("", "ensembles")
    }
    student = FlipReport.load(folder / "flip_report.json")
    assert student.old.weights == tables[""][0].provenance.weights
    assert student.old.weights != FlipReport.load(folder.parent / "flip_report.json").old.weights
    assert "<title>" in (folder / "update.html").read_text(encoding="utf-8")
    test = load_data(str(folder.parent / "test.parquet"))
    for side, table in zip(("old", "new"), tables["ensembles"], strict=True):  # the members' folder is that ensemble
        np.testing.assert_allclose(
            predict(folder / side / "members", test, use_cache=False).logits, table.logits, atol=1e-5
        )


def test_what_elodi_is_and_costs_is_said(told):
    section = told[1].split("--- 3. ")[1].split("--- 4. ")[0]
    assert "near the mean of theirs" in section
    assert "The price is paid in training: 2 members" in section


def test_nothing_is_written_outside_the_folder(told, cache):
    assert not list(cache.iterdir())
    assert len(list((told[0] / "students" / "elodi" / "reference_logits").iterdir())) == 2


def test_members_of_an_earlier_demo_do_not_stay(tmp_path):
    """They have another seed, and an ELODI run would refuse to go on with them."""
    from hf_pct.demo.train import train_elodi
    from hf_pct.demo.updates import students_update

    update = students_update(0).shortened()
    seeds = []
    for seed in (0, 1):
        train_elodi(
            update.new_model, update.splits["old_train"].select(range(16)), tmp_path / "old",
            seed=seed, members=2, epochs=1, learning_rate=1e-3,
        )  # fmt: skip
        seeds.append(json.loads((tmp_path / "old" / "members" / "0" / "pct_member.json").read_text())["seed"])
    assert seeds[0] != seeds[1]


def test_development_and_test_rows_are_apart():
    from hf_pct.demo.updates import digits_update, intents_update, students_update

    for update in (intents_update(0), digits_update(0), students_update(0)):
        train, development, test = (set(update.splits[part]["id"]) for part in ("new_train", "development", "test"))
        assert not development & test
        assert not train & (development | test)
        assert len(test) >= 1000


def test_says_what_to_do_next(told):
    folder, printed = told
    assert "What does an update break?" in printed
    assert printed.count("negative flip") + printed.count("NFR") > 4
    assert "REGRESSED" in printed or "PASSED" in printed
    assert "What to look at next" in printed
    for page in ("intents/update.html", "intents/candidates.html", "digits/updated_flips/update.html"):
        assert str(folder / page) in printed
        assert "<title>" in (folder / page).read_text(encoding="utf-8")


def test_it_ends_with_one_command_for_a_model_of_ones_own(told):
    last = told[1].replace("\\\n", " ").rstrip().splitlines()[-1]
    assert last.startswith("Yours ")
    words = shlex.split(last)[2:]
    assert build_parser().parse_args(words).old_model == "YOUR_MODEL"


@pytest.mark.parametrize("start", ["Gate", "Repeat", "Files", "Members"])
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
    from hf_pct.demo.telling import Telling
    from hf_pct.demo.updates import students_update

    telling = Telling(students_update(0).shortened(), tmp_path / "students", 0)
    telling.update_as_usual()
    first = FlipReport.load(told[0] / "students" / "flip_report.json")
    assert telling.reports["trained anew"].counts == first.counts
    assert telling.reports["trained anew"].new.weights == first.new.weights
