"""The long form of T7 on a toy of the same shape: two processes, every row of the table, nothing computed twice."""

import json

import bcwi_massive
import pytest
from tiny_models import INTENTS, tiny_bert

SENTENCES = ["turn on the light", "turn off the light", "play music", "what is the weather today"]
ROWS = {"old/train.jsonl": 16, "updated/train.jsonl": 24, "updated/dev.jsonl": 12, "updated/test.jsonl": 20}


@pytest.fixture
def options(tmp_path, tokenizer):
    """A data set and an encoder in place of MASSIVE and MiniLM."""
    data, encoder = tmp_path / "data" / "massive_bcwi", tmp_path / "encoder"
    for name, count in ROWS.items():
        path = data / name
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = [
            {"id": f"{name}-{at}", "text": SENTENCES[at % 4], "label": INTENTS[at % 4 if at % 5 else 0]}
            for at in range(count)
        ]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (data / "labels.json").write_text(json.dumps(INTENTS))
    tiny_bert().save_pretrained(encoder)
    tokenizer.save_pretrained(encoder)
    folders = {"data_dir": data.parent, "pretrained": encoder, "work_dir": tmp_path / "work"}
    folders["results_dir"] = tmp_path / "results"
    return [word for name, folder in folders.items() for word in (f"--{name}", str(folder))]


def test_a_run_in_two_processes_has_every_row_and_goes_on_where_it_stopped(tmp_path, options, capsys):
    run = ["--seeds", "2", "--soup", "--baselines", *options]
    bcwi_massive.main(run)
    table = json.loads((tmp_path / "results" / "table.json").read_text())
    rows = {name: row["seeds"] for name, row in table["rows"].items()}
    expected = ("old", "target", "new", "BCWI, alpha by contract", "FisherBCWI, alpha by contract")
    assert all(rows[name] == list(bcwi_massive.cells.SEEDS[:2]) for name in expected)
    assert sum(name.endswith("for all seeds") for name in rows) == len(bcwi_massive.STRENGTHS) + 1
    cells = {path: path.stat().st_mtime_ns for path in (tmp_path / "results").glob("*/*.npz")}
    tried = [len(list((tmp_path / "results" / str(seed)).glob("ewc-*.npz"))) for seed in bcwi_massive.cells.SEEDS[:2]]
    assert tried == [4, 1], "every strength on the first seed, the chosen one on the other"

    lost = tmp_path / "results" / "2222" / "linear-0.5.npz"
    del cells[lost]
    lost.unlink()
    printed = capsys.readouterr().out
    bcwi_massive.main([*run, "--processes", "1"])
    assert lost.is_file()
    assert {path: path.stat().st_mtime_ns for path in cells} == cells
    assert capsys.readouterr().out == printed, "and the table is the same"
