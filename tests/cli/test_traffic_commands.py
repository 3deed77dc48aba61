"""`hf-pct traffic` and `hf-pct label-plan` as a person uses them, from two files to a verdict and a gate."""

import csv
import gzip
import json

import pytest

from hf_pct.cli import main


@pytest.fixture
def files(tmp_path):
    """1,000 rows, of which 50 differ."""
    for name, changed in (("old", 0), ("new", 50)):
        lines = ["id,prediction,text,channel"]
        for row in range(1000):
            lines.append(f"{row},{'send' if row < changed else 'pay'},sentence {row},{'app' if row % 4 else 'web'}")
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def sides(folder):
    return [str(folder / "old.csv"), str(folder / "new.csv")]


def fill(path, right):
    rows = list(csv.DictReader(path.open(newline="")))
    for number, row in enumerate(rows):
        row["right"] = right(number)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def test_from_two_files_to_a_verdict_and_a_gate(files, capsys):
    assert main(["traffic", *sides(files)]) == 0
    printed = capsys.readouterr().out
    assert "50 of 1,000 answers changed: churn 5.00 %" in printed
    assert "pay -> send (50)" in printed
    assert "channel = web" in printed
    assert "sentence" in printed
    plan, page, report = files / "plan.csv", files / "label.html", files / "traffic.json"
    assert main(["label-plan", *sides(files), "--labels", "40", "--output", str(plan), "--page", str(page)]) == 0
    assert "40 of 50 differing rows" in capsys.readouterr().out
    assert page.read_text().startswith("<!doctype html>")
    fill(plan, lambda number: "old" if number % 10 == 9 else "new")
    assert main(["traffic", *sides(files), "--labels", str(plan), "--output", str(report)]) == 0
    printed = capsys.readouterr().out
    assert "from 40 labels of differing rows" in printed
    assert "NFR            0.50 %" in printed
    assert "labels of random rows" in printed
    assert main(["gate", str(report), "--max_nfr", "0.01", "--max_nfr_upper", "0.02"]) == 0
    assert "from 40 labels" in capsys.readouterr().out
    assert main(["gate", str(report), "--max_nfr", "0.001"]) == 1
    assert main(["gate", str(report), "--max_slice_nfr", "0.1"]) == 3
    assert main(["gate", str(report), "--max_nfr", "0.01", "--folder", str(files)]) == 2
    data = json.loads(report.read_text())
    assert data["estimates"]["nfr"]["value"] == pytest.approx(0.005)


@pytest.mark.parametrize(
    ("right", "limit", "code", "said"),
    [("new", "0.02", 0, "SHIP"), ("old", "0.02", 1, "HOLD BACK"), ("unsure", "0.02", 3, "LABEL ON")],
)
def test_a_verdict_after_every_label(files, capsys, right, limit, code, said):
    plan = files / "plan.jsonl"
    assert main(["label-plan", *sides(files), "--labels", "30", "--output", str(plan)]) == 0
    rows = [json.loads(line) | {"right": right} for line in plan.read_text().splitlines()]
    plan.write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = ["traffic", *sides(files), "--labels", str(plan), "--until_decided", "--max_nfr", limit]
    assert main(arguments) == code
    assert said in capsys.readouterr().out


def test_churn_alone_decides_without_a_label(files, capsys):
    assert main(["traffic", *sides(files), "--until_decided", "--max_nfr", "0.05"]) == 0
    assert "no label is needed" in capsys.readouterr().out


def test_packed_files_are_files(files, capsys):
    packed = files / "new.csv.gz"
    packed.write_bytes(gzip.compress((files / "new.csv").read_bytes()))
    assert main(["traffic", str(files / "old.csv"), str(packed)]) == 0
    assert "50 of 1,000 answers changed" in capsys.readouterr().out


def test_a_filled_plan_is_never_overwritten(files, capsys):
    plan = files / "plan.csv"
    plan.write_text("mine")
    assert main(["label-plan", *sides(files), "--output", str(plan)]) == 2
    assert "exists and is kept" in capsys.readouterr().err
    assert plan.read_text() == "mine"


def test_inputs_are_never_written_over(files, capsys):
    before = (files / "old.csv").read_text()
    for command in (["label-plan", "--output"], ["traffic", "--output"]):
        code = main([command[0], *sides(files), command[1], str(files / "old.csv"), "--overwrite"])
        assert code == 2
        assert "is read here and would be written over" in capsys.readouterr().err
    assert (files / "old.csv").read_text() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--until_decided"], "--until_decided and --max_nfr go together"),
        (["--max_nfr", "0.1"], "--until_decided and --max_nfr go together"),
        (["--labels", "nowhere.csv"], "nowhere.csv does not exist"),
        (["--slices", "country"], "no column 'country'"),
        (["--until_decided", "--max_nfr", "3"], "max_nfr is 3.0"),
    ],
)
def test_bad_input(files, capsys, arguments, message):
    assert main(["traffic", *sides(files), *arguments]) == 2
    assert message in capsys.readouterr().err


def test_models_answer_rows_without_labels(text_models, text_rows, tmp_path, capsys):
    data, plan = tmp_path / "traffic.jsonl", tmp_path / "plan.jsonl"
    data.write_text("".join(json.dumps({"id": row["id"], "text": row["text"]}) + "\n" for row in text_rows))
    models = [*map(str, text_models[:2]), "--dataset_name", str(data), "--no_cache"]
    assert main(["traffic", *models]) == 0
    assert f"of {len(text_rows)} answers changed" in capsys.readouterr().out
    assert main(["label-plan", *models, "--output", str(plan)]) == 0
    texts = {str(row["id"]): row["text"] for row in text_rows}
    rows = [json.loads(line) for line in plan.read_text().splitlines()]
    assert rows
    assert all(row["text"] == texts[row["id"]] for row in rows)
    assert all(row["old_answer"] != row["new_answer"] for row in rows)
