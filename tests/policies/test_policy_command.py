"""`hf-pct policy` from files to a table that compare takes like any other."""

import numpy as np
import pytest

from hf_pct import Predictions
from hf_pct.cli import main


@pytest.fixture
def files(tmp_path):
    """Two versions on 300 rows; a list of 100 of their ids."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 300)
    for number, accuracy in enumerate((0.8, 0.85), start=1):
        answers = np.where(rng.random(300) < accuracy, truth, (truth + 1) % 3)
        table = Predictions(np.arange(300), truth, answers, label_names=["a", "b", "c"])
        table.save(tmp_path / f"v{number}.parquet")
    (tmp_path / "rows.csv").write_text("id,why\n" + "".join(f"{row},held out\n" for row in range(100)))
    return tmp_path


def test_calibration_rows_named_by_id_are_left_out(files, capsys):
    versions = [str(files / f"v{number}.parquet") for number in (1, 2)]
    output = files / "decided.parquet"
    options = ["--calibration", str(files / "rows.csv"), "--output", str(output)]
    assert main(["policy", "bayes", *versions, *options]) == 0
    assert "after version 2:      200" in capsys.readouterr().out
    table = Predictions.load(output)
    assert table.ids.to_pylist() == list(range(100, 300))
    assert table.provenance.settings["rule"] == "cost-ratio"
    assert main(["policy", "bayes", *versions, *options]) == 2, "what exists is kept"
    assert main(["compare", versions[0], str(output), "--allow_partial"]) == 0


def test_what_cannot_be_used_says_so(files, capsys):
    versions = [str(files / f"v{number}.parquet") for number in (1, 2)]
    output = ["--output", str(files / "decided.parquet")]
    assert main(["policy", "bayes", *versions, "--calibration", *versions, *output]) == 3
    assert "never judged on the rows that it learnt from" in capsys.readouterr().err
    (files / "rows.csv").write_text("name\nx\n")
    assert main(["policy", "bayes", *versions, "--calibration", str(files / "rows.csv"), *output]) == 2
    assert "has no column id" in capsys.readouterr().err
    assert main(["policy", "bayes", versions[0], "--calibration", versions[1], *output]) != 0
    assert not (files / "decided.parquet").exists()


def test_no_input_is_written_over(files, capsys):
    versions = [str(files / f"v{number}.parquet") for number in (1, 2)]
    before = [path.read_bytes() for path in sorted(files.iterdir())]
    for output in (*versions, str(files / "rows.csv")):
        options = ["--calibration", str(files / "rows.csv"), "--output", output, "--overwrite"]
        assert main(["policy", "bayes", *versions, *options]) == 2
        assert "is read here and would be written over" in capsys.readouterr().err
    assert [path.read_bytes() for path in sorted(files.iterdir())] == before
