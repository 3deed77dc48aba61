"""The command as a person uses it: what it prints, what it writes, what it returns."""

import json
import os
import re
import shlex
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from hf_pct import FlipReport, Predictions
from hf_pct.cli import COMMANDS, build_parser, main
from hf_pct.cli.commands import load_command

NAMES = ["a", "b", "c"]


@pytest.fixture
def tables(tmp_path):
    """old.parquet and new.parquet: 200 rows, 6 broken, 10 fixed."""
    labels = np.arange(200) % 3
    old, new = labels.copy(), labels.copy()
    old[:10] = (labels[:10] + 1) % 3
    new[-6:] = (labels[-6:] + 1) % 3
    for name, answers in (("old", old), ("new", new)):
        Predictions(list(range(200)), labels, answers, label_names=NAMES).save(tmp_path / f"{name}.parquet")
    return tmp_path


def files(folder):
    return ["--old_predictions", str(folder / "old.parquet"), "--new_predictions", str(folder / "new.parquet")]


@pytest.fixture
def report(tables, capsys):
    assert main(["compare", *files(tables), "--output_dir", str(tables / "out")]) == 0
    capsys.readouterr()
    return tables / "out" / "flip_report.json"


def test_compare_writes_the_report_and_both_tables(tables, capsys):
    assert main(["compare", *files(tables), "--output_dir", str(tables / "out")]) == 0
    printed = capsys.readouterr().out
    assert "breaks 6 and fixes 10 of 200 rows: NFR 3.00 %" in printed
    written = sorted(path.name for path in (tables / "out").iterdir())
    assert written == ["flip_report.json", "flip_report.md", "new_predictions.parquet", "old_predictions.parquet"]
    assert FlipReport.load(tables / "out" / "flip_report.json").counts.negative_flips == 6
    assert "| **old right** |" in (tables / "out" / "flip_report.md").read_text()
    copied = Predictions.load(tables / "out" / "old_predictions.parquet")
    assert copied.to_arrow().equals(Predictions.load(tables / "old.parquet").to_arrow(), check_metadata=True)


def test_compare_takes_files_as_its_two_words(tables, capsys):
    assert main(["compare", str(tables / "old.parquet"), str(tables / "new.parquet")]) == 0
    assert "breaks 6 and fixes 10" in capsys.readouterr().out


def test_compare_draws_what_it_found(tables, capsys):
    plots = tables / "plots"
    assert main(["compare", *files(tables), "--plots", str(plots)]) == 0
    assert {"flip_square.png", "nfr_by_class.png"} <= {path.name for path in plots.iterdir()}
    assert "drawn: " in capsys.readouterr().out
    assert main(["compare", *files(tables), "--plots", str(plots)]) == 2
    assert "exists and is kept" in capsys.readouterr().err


def test_the_page_of_a_report(report, tmp_path, capsys):
    assert main(["page", str(report), "-o", str(tmp_path / "update.html")]) == 0
    assert "<script" in (tmp_path / "update.html").read_text(encoding="utf-8")
    assert main(["page", str(tmp_path / "nowhere.json"), "-o", str(tmp_path / "b.html")]) == 2
    assert "nowhere.json does not exist" in capsys.readouterr().err


def test_three_versions_are_a_chain(tables, capsys):
    shutil.copy(tables / "old.parquet", tables / "again.parquet")
    names = [str(tables / f"{name}.parquet") for name in ("old", "new", "again")]
    assert main(["compare", *names, "--output_dir", str(tables / "chain")]) == 0
    assert "16 rows changed at least twice" in capsys.readouterr().out
    chain = json.loads((tables / "chain" / "chain.json").read_text())
    assert chain["nfr"] == [[0, 0.03, 0], [0.05, 0, 0.05], [0, 0.03, 0]]
    assert len(list((tables / "chain").iterdir())) == 5
    assert main(["compare", *names, "--output_dir", str(tables / "chain")]) == 2
    assert "exists and is kept" in capsys.readouterr().err


def test_nothing_is_overwritten_without_asking(tables, report, capsys):
    before = report.read_bytes()
    again = ["compare", *files(tables), "--output_dir", str(tables / "out"), "--confidence", "0.9"]
    assert main(again) == 2
    assert "exists and is kept" in capsys.readouterr().err
    assert report.read_bytes() == before
    assert main([*again, "--overwrite"]) == 0
    assert report.read_bytes() != before


def test_a_comparison_made_again_from_its_own_output(tables, report):
    out = report.parent
    own = ["--old_predictions", str(out / "old_predictions.parquet"),
           "--new_predictions", str(out / "new_predictions.parquet")]  # fmt: skip
    before = (out / "old_predictions.parquet").read_bytes()
    assert main(["compare", *own, "--output_dir", str(out), "--overwrite"]) == 0
    assert (out / "old_predictions.parquet").read_bytes() == before


def test_the_second_old_run_by_file(tables, capsys):
    assert main(["compare", *files(tables), "--old_rerun", str(tables / "old.parquet")]) == 0
    assert "a second run of the old recipe flips 0.00 %" in capsys.readouterr().out


def test_label_names_for_files_that_lack_them(tables, capsys):
    (tables / "old.csv").write_text("id,label,prediction\n1,0,0\n2,1,1\n")
    (tables / "new.jsonl").write_text('{"id": "1", "label": "yes", "prediction": "no"}\n'
                                      '{"id": "2", "label": "no", "prediction": "no"}\n')  # fmt: skip
    both = ["compare", str(tables / "old.csv"), str(tables / "new.jsonl")]
    assert main(both) == 3
    assert "have two different labels" in capsys.readouterr().err
    for name, content in (
        ("names.json", '["yes", "no"]'),
        ("names.txt", "yes\nno\n"),
        ("config.json", '{"id2label": {"1": "no", "0": "yes"}}'),
    ):
        (tables / name).write_text(content)
        assert main([*both, "--old_label_names", str(tables / name)]) == 0
        assert "breaks 1 and fixes 0 of 2 rows" in capsys.readouterr().out
    for name, content, message in (  # a name left out would shift all that come after it
        ("names.txt", "yes\n\nno\n", "line 2 is empty"),
        ("config.json", '{"id2label": {"1": "yes", "2": "no"}}', "expected every class index from 0 to 1 once"),
    ):
        (tables / name).write_text(content)
        assert main([*both, "--old_label_names", str(tables / name)]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["compare"], 2, "Got 0 models and 0 prediction files, expected two models"),
        (["compare", "a.parquet"], 2, "Got 1 models"),
        (["compare", "--old_predictions", "a.parquet"], 2, "Got 0 models and 1 prediction files"),
        (["compare", "nowhere.parquet", "b.parquet"], 2, "nowhere.parquet does not exist"),
        (["compare", "modelA", "modelB"], 2, "a model needs --dataset"),
        (["compare", "modelA", "modelB", "--dataset", "nowhere/data"], 2, "not a dataset on the Hub"),
        (["compare", "OLD", "NEW", "--confidence", "95"], 2, "confidence is 95"),
        (["compare", "OLD", "NEW", "--slices", "locale"], 2, "no column 'locale'"),
        (["compare", "OLD", "PART"], 3, "50 of 200 ids are only in the old: 150, 151, 152, 153, 154, ..."),
        (["predict", "nobody/nothing", "--dataset", "DATA", "--output", "p.parquet"], 2, "not a folder with a model"),
        (["gate", "nowhere.json", "--max_nfr", "0.1"], 2, "nowhere.json does not exist"),
    ],
)
def test_wrong_use_is_one_message(tables, text_file, monkeypatch, capsys, arguments, code, message):
    old = Predictions.load(tables / "old.parquet")
    part = Predictions(list(range(150)), old.label_codes[:150], old.prediction_codes[:150], label_names=NAMES)
    part.save(tables / "part.parquet")
    monkeypatch.chdir(tables)
    names = {"OLD": "old.parquet", "NEW": "new.parquet", "PART": "part.parquet", "DATA": str(text_file)}
    assert main([names.get(word, word) for word in arguments]) == code
    error = capsys.readouterr().err
    assert message in error
    assert f"hf-pct {arguments[0]}: " in error
    assert "Traceback" not in error


def test_partial_comparison_on_request(tables, capsys):
    old = Predictions.load(tables / "old.parquet")
    part = Predictions(list(range(150)), old.label_codes[:150], old.prediction_codes[:150], label_names=NAMES)
    part.save(tables / "part.parquet")
    out = str(tables / "partial")
    assert main(["compare", str(tables / "old.parquet"), str(tables / "part.parquet"), "--allow_partial",
                 "--output_dir", out]) == 0  # fmt: skip
    assert "PARTIAL: 150 rows compared; left out 50" in capsys.readouterr().out
    assert main(["gate", f"{out}/flip_report.json", "--max_nfr", "0.1"]) == 3
    assert main(["gate", f"{out}/flip_report.json", "--max_nfr", "0.1", "--allow_partial"]) == 0


@pytest.mark.parametrize(
    ("rules", "code", "said"),
    [
        (["--max_nfr", "0.03"], 0, "PASSED"),
        (["--max_nfr", "0.01", "--min_accuracy_gain", "0"], 1, "REGRESSED: max_nfr"),
        (["--max_nfr", "0.01", "--max_nfr_upper", "0.015", "--max_class_nfr", "0.05", "--min_accuracy_gain", "0"], 1,
         "FAIL  max_nfr_upper"),
        ([], 2, "no rule, so it would pass anything"),
        (["--max_nfr", "3"], 2, "max_nfr is 3.0, expected a fraction from 0 to 1"),
        (["--max_excess_nfr", "0.1"], 3, "no noise floor"),
    ],
)  # fmt: skip
def test_gate_exit_codes(report, capsys, rules, code, said):
    assert main(["gate", str(report), *rules]) == code
    printed = capsys.readouterr()
    assert said in printed.out + printed.err


def test_gate_rules_from_yaml_with_flags_over_them(report, tmp_path, capsys):
    rules = tmp_path / "gate.yaml"
    rules.write_text("max_nfr: 0.01\nmin_rows: 100\n")
    assert main(["gate", str(report), "--config", str(rules)]) == 1
    assert main(["gate", str(report), "--config", str(rules), "--max_nfr", "0.05"]) == 0
    assert "min_rows" in capsys.readouterr().out
    rules.write_text("max_nrf: 0.01\n")
    assert main(["gate", str(report), "--config", str(rules)]) == 2
    assert "did you mean max_nfr?" in capsys.readouterr().err


def test_gate_writes_junit_and_markdown(report, tmp_path):
    outputs = ["--junit", str(tmp_path / "gate.xml"), "--markdown", str(tmp_path / "gate.md")]
    assert main(["gate", str(report), "--max_nfr", "0.01", *outputs]) == 1
    assert ElementTree.parse(tmp_path / "gate.xml").find(".//failure") is not None
    assert "REGRESSED" in (tmp_path / "gate.md").read_text()
    assert main(["gate", str(report), "--max_nfr", "0.01", *outputs]) == 2  # they exist by now


def test_gate_on_a_report_of_a_newer_version(report, capsys):
    data = json.loads(report.read_text()) | {"format_version": 7}
    report.write_text(json.dumps(data))
    assert main(["gate", str(report), "--max_nfr", "0.01"]) == 3
    assert "pip install --upgrade 'hf-pct @ git" in capsys.readouterr().err


def test_env_says_versions_and_nothing_private(capsys):
    assert main(["env"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"^torch: +\d", printed, re.MULTILINE)
    assert "devices:" in printed
    assert os.path.expanduser("~") not in printed


def test_every_verb_has_help_with_an_example(capsys):
    for name in COMMANDS:
        with pytest.raises(SystemExit) as stopped:
            main([name, "--help"])
        assert stopped.value.code == 0
        assert "example:\n  hf-pct " in capsys.readouterr().out


def test_the_examples_in_help_work(tmp_path, text_models, text_file, monkeypatch, capsys):
    """Each example as it is printed, in a folder that holds what it names."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(text_models[0], "intent-v1")
    shutil.copytree(text_models[1], "intent-v2")
    shutil.copy(text_file, "test.jsonl")
    assert main(["predict", "./intent-v2", "--dataset", "test.jsonl", "--output", "v2.parquet"]) == 0
    shutil.copy("v2.parquet", "v3.parquet")
    for version, right in (("v1", 1), ("v2", 0)):
        Path("lm_eval", version).mkdir(parents=True)
        sample = {"doc_id": 0, "doc_hash": "d", "target_hash": "t", "filter": "none", "metrics": ["acc"], "acc": right}
        Path("lm_eval", version, "samples_qa_2026-01-01T00-00-00.jsonl").write_text(json.dumps(sample) + "\n")
        Path(f"{version}.csv").write_text(f"qid,pred,f1\n1,a,{right}\n")
    codes = {}
    for name in COMMANDS:
        for line in load_command(name).EXAMPLE.splitlines():
            if name not in ("predict", "compare", "gate", "env"):  # the others have tests of their own
                continue
            words = shlex.split(line)[1:]
            if name == "compare" and "--old_predictions" in words:
                words.append("--overwrite")  # both examples write to `out`
            codes[line.strip()] = main(words)
    assert set(codes.values()) <= {0, 1}, codes
    assert sum(code == 0 for code in codes.values()) >= 4
    printed = capsys.readouterr().out
    assert "./intent-v1  ->  ./intent-v2" in printed


def test_a_model_is_compared_with_a_file(tmp_path, text_models, text_file, capsys):
    old = tmp_path / "old.parquet"
    assert main(["predict", str(text_models[0]), "--dataset", str(text_file), "--output", str(old)]) == 0
    assert main(["compare", str(old), str(text_models[1]), "--dataset", str(text_file), "--keep_columns", "channel",
                 "--slices", "channel", "--output_dir", str(tmp_path / "out")]) == 0  # fmt: skip
    report = FlipReport.load(tmp_path / "out" / "flip_report.json")
    assert {group.name for group in report.slices["channel"]} == {"app", "phone"}


def test_predict_checks_its_output_before_it_works(tmp_path, capsys):
    (tmp_path / "p.parquet").write_text("mine")
    arguments = ["predict", "nobody/nothing", "--dataset", "d", "--output", str(tmp_path / "p.parquet")]
    assert main(arguments) == 2
    assert "exists and is kept" in capsys.readouterr().err


def test_unknown_verbs_and_flags_exit_with_2(capsys):
    for arguments in ([], ["compair"], ["gate", "r.json", "--max_nrf", "1"]):
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        assert stopped.value.code == 2
    assert build_parser().prog == "hf-pct"
