"""Exit codes, --debug and --config, for every command alike."""

import json

import numpy as np
import pytest

from hf_pct import Predictions
from hf_pct.cli import COMMANDS, build_parser, main
from hf_pct.cli.commands import load_command
from hf_pct.training import DivergenceError


@pytest.fixture
def report(tmp_path, capsys):
    labels = np.arange(200) % 3
    new = labels.copy()
    new[:6] = (labels[:6] + 1) % 3
    for name, answers in (("old", labels), ("new", new)):
        Predictions(list(range(200)), labels, answers, label_names=list("abc")).save(tmp_path / f"{name}.parquet")
    files = [str(tmp_path / f"{name}.parquet") for name in ("old", "new")]
    assert main(["compare", *files, "--output_dir", str(tmp_path)]) == 0
    capsys.readouterr()
    return tmp_path / "flip_report.json"


def test_every_command_module_has_its_four_names():
    for name in COMMANDS:
        command = load_command(name)
        assert command.HELP.endswith(".")
        assert command.EXAMPLE.startswith(f"hf-pct {name}")
        assert callable(command.add_arguments)
        assert callable(command.run)


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (RuntimeError("boom"), 70, "unexpected error: RuntimeError: boom"),
        (KeyError("x"), 70, "unexpected error: KeyError"),
        (MemoryError(), 70, "unexpected error: MemoryError"),
        (ImportError("no timm", name="timm.models"), 2, "pip install 'hf-pct[vision] @ git+https"),
        (ModuleNotFoundError("No module named 'peft'", name="peft"), 2, "pip install 'hf-pct[adapters] @ git+https"),
        (ModuleNotFoundError("No module named 'torch'", name="torch"), 2, "Install everything: pip install 'hf-pct @"),
        (
            ImportError("ViTImageProcessor requires the PIL library but it was not found."),
            2,
            "'hf-pct[vision] @ git+https",
        ),
        (ImportError("This needs Torchvision, which is not here"), 2, "'hf-pct[vision] @ git"),
        (
            DivergenceError("ce", "is nan", step=2, advice="Lower learning_rate."),
            2,
            "error: Training diverged at step 2",
        ),
        (OSError("disk full"), 2, "error: disk full"),
        (ValueError("bad\n::error::x\x1b[2K"), 2, "bad\n  \\::error::x\\x1b[2K\n"),
        (KeyboardInterrupt(), 130, "stopped"),
    ],
)
def test_what_nobody_foresaw_has_its_own_code(monkeypatch, capsys, error, code, message):
    def fail():
        raise error

    monkeypatch.setattr("hf_pct.core.versions.describe_environment", fail)
    assert main(["env"]) == code
    printed = capsys.readouterr().err
    assert message in printed
    assert "Traceback" not in printed
    if code == 70:
        assert printed.count("\n") == 1
        assert main(["env", "--debug"]) == 70
        assert "Traceback" in capsys.readouterr().err


def test_wrong_arguments_are_text_in_a_log(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["gate", "report.json", "x\n::error::pwned\x1b[2K"])
    assert stopped.value.code == 2
    printed = capsys.readouterr().err
    assert "\n\\::error::pwned\\x1b[2K" in printed
    assert "\x1b" not in printed


def test_every_command_takes_a_config():
    parser = build_parser()
    for name in COMMANDS:
        assert "--config" in parser._subparsers._group_actions[0].choices[name]._option_string_actions


def test_a_config_has_the_keys_of_the_options(report, tmp_path, capsys):
    config = tmp_path / "compare.yaml"
    config.write_text(
        f"models: [{tmp_path}/old.parquet, {tmp_path}/new.parquet]\nconfidence: 0.9\nallow_partial: false\n"
    )
    assert main(["compare", "--config", str(config)]) == 0
    assert "at 90% confidence" in capsys.readouterr().out
    assert main(["compare", "--config", str(config), "--confidence", "0.8"]) == 0
    assert "at 80% confidence" in capsys.readouterr().out
    config.write_text(f"report: {report}\nmax_nfr: 1e-2\n")
    assert main(["gate", "--config", str(config)]) == 1
    assert main(["gate", str(report), f"--config={config}", "--max_nfr", "0.5"]) == 0


def test_a_wrong_config_names_every_problem(report, tmp_path, capsys):
    config = tmp_path / "gate.yaml"
    config.write_text("max_nrf: 0.1\nmin_group_rows: .inf\nallow_partial: 'no'\nmax_nfr: true\nmin_rows: 1.5\n")
    assert main(["gate", str(report), "--config", str(config)]) == 2
    printed = capsys.readouterr().err
    problems = ("min_group_rows: is inf", "allow_partial: is 'no'", "max_nfr: is True", "min_rows: is 1.5")
    for problem in ("did you mean max_nfr?", *problems):
        assert problem in printed
    config.write_text("max_nfr: 0.1\nmax_nfr: 0.9\n")
    assert main(["gate", str(report), "--config", str(config)]) == 2
    assert "stands twice" in capsys.readouterr().err


def test_names_of_transformers_and_todays_are_the_same_option(tmp_path):
    parser = build_parser()
    common = ["predict", "m", "--output", "o"]
    new = parser.parse_args([*common, "--dataset_name", "d", "--label_column_name", "l", "--max_seq_length", "8",
                             "--per_device_eval_batch_size", "4", "--text_column_names", "a", "b"])  # fmt: skip
    old = parser.parse_args([*common, "--dataset", "d", "--label_column", "l", "--max_length", "8",
                             "--batch_size", "4", "--input_column", "a", "b"])  # fmt: skip
    assert vars(new) == vars(old)
    assert json.dumps(new.input_column) == '["a", "b"]'


def test_no_input_is_written_over(tmp_path, capsys):
    labels = np.arange(30) % 3
    for name, wrong in (("old", 3), ("new", 5)):
        answers = labels.copy()
        answers[:wrong] = (labels[:wrong] + 1) % 3
        Predictions(list(range(30)), labels, answers, label_names=list("abc")).save(
            tmp_path / f"{name}_predictions.parquet"
        )
    old, new = (tmp_path / f"{name}_predictions.parquet" for name in ("old", "new"))
    before = old.read_bytes(), new.read_bytes()
    swapped = ["compare", "--old_predictions", str(new), "--new_predictions", str(old)]
    assert main([*swapped, "--output_dir", str(tmp_path), "--overwrite"]) == 2
    assert "is read here and would be written over" in capsys.readouterr().err
    assert (old.read_bytes(), new.read_bytes()) == before
    assert main(["compare", str(old), str(new), "--output_dir", str(tmp_path), "--overwrite"]) == 0
    assert (old.read_bytes(), new.read_bytes()) == before
    report = tmp_path / "flip_report.json"
    text = report.read_text()
    assert main(["gate", str(report), "--max_nfr", "0.5", "--markdown", str(report), "--overwrite"]) == 2
    assert main(["page", str(report), "-o", str(report), "--overwrite"]) == 2
    assert report.read_text() == text


def test_dates_decimals_and_durations(tmp_path, capsys):
    import datetime
    import decimal

    import pyarrow as pa

    labels = ["a", "b"] * 30
    day = datetime.date(2024, 5, 1)
    columns = {
        "created_at": pa.array([datetime.datetime(2024, 5, 1, 12, 30)] * 60),
        "day": pa.array([day] * 60),
        "at": pa.array([datetime.time(8, 15)] * 60),
        "price": pa.array([decimal.Decimal("9.90")] * 60),
        "took": pa.array([datetime.timedelta(seconds=90.5)] * 60),
        "score": pa.array([float("nan")] * 60),
        "seen": pa.array([[day]] * 60),
        "segment": pa.array(["x", "y"] * 30, pa.large_string()),
        "tier": pa.array(["gold", "basic"] * 30).dictionary_encode(),
        "vip": pa.array([True, False] * 30),
    }
    wrong = ["b", *labels[1:]]
    for name, answers in (("old", labels), ("new", wrong)):
        Predictions(list(range(60)), labels, answers, columns=columns).save(tmp_path / f"{name}.parquet")
    out = tmp_path / "out"
    files = [str(tmp_path / f"{name}.parquet") for name in ("old", "new")]
    assert main(["compare", *files, "--output_dir", str(out)]) == 0
    text = (out / "flip_report.json").read_text()
    assert "NaN" not in text
    report = json.loads(text)
    row = report["flips"][0]
    assert row["created_at"] == "2024-05-01T12:30:00"
    assert (row["day"], row["at"], row["price"], row["took"]) == ("2024-05-01", "08:15:00", "9.90", "PT90.5S")
    assert row["score"] is None
    assert row["seen"] == ["2024-05-01"]
    assert {"segment", "tier", "vip"} <= set(report["slices"])
    assert main(["gate", str(out / "flip_report.json"), "--max_slice_nfr", "0.5"]) == 0
    assert main(["page", str(out / "flip_report.json"), "-o", str(tmp_path / "p.html")]) == 0
    assert main(["compare", *files, "--output_dir", str(out), "--slices", "day", "took", "--overwrite"]) == 0


def test_many_flipped_rows_lie_beside_the_report(tmp_path, monkeypatch, capsys):
    from hf_pct import FlipReport
    from hf_pct.flips import report_files

    monkeypatch.setattr(report_files, "LISTED_ROWS", 4)
    labels = np.arange(60) % 3
    answers = labels.copy()
    answers[:10] = (labels[:10] + 1) % 3
    for name, codes in (("old", labels), ("new", answers)):
        Predictions(list(range(60)), labels, codes, label_names=list("abc")).save(tmp_path / f"{name}.parquet")
    out = tmp_path / "out"
    files = [str(tmp_path / f"{name}.parquet") for name in ("old", "new")]
    assert main(["compare", *files, "--output_dir", str(out)]) == 0
    path = out / "flip_report.json"
    assert len(json.loads(path.read_text())["flips"]) == 4
    assert FlipReport.load(path).flips.num_rows == 10
    assert len(FlipReport.load(path).to_dataset()) == 10
    assert main(["gate", str(path), "--max_nfr", "0.5"]) == 0
    (out / "flip_report_rows.parquet").unlink()
    assert FlipReport.load(path).flips_cut
    capsys.readouterr()
    assert main(["gate", str(path), "--max_nfr", "0.5"]) == 0
    assert "note: The flipped rows beyond the first 4 are not here" in capsys.readouterr().out
