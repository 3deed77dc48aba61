"""A large file is compared without holding it: the report is the same as from the whole tables."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hf_pct import Predictions, compare
from hf_pct.cli import main
from hf_pct.flips.tables import logits as logit_tables
from hf_pct.flips.tables.logits import FileColumns, FileLogits
from hf_pct.flips.tables.readers import parquet

NAMES = ["a", "b", "c", "d"]


def table(seed, rows=500, order=None, names=NAMES, ids=None):
    rng = np.random.default_rng(9)
    labels = rng.integers(0, 4, rows)
    columns = {
        "channel": np.array(["app", "web"])[rng.integers(0, 2, rows)].tolist(),
        "text": [f"t{i}" for i in range(rows)],
    }
    logits = 2 * np.eye(4)[labels] + np.random.default_rng(seed).normal(size=(rows, 4))
    order = np.arange(rows) if order is None else order
    ids = np.arange(rows) if ids is None else ids
    return Predictions(
        ids[order],
        np.array(NAMES)[labels][order].tolist(),
        logits=logits[order].astype(np.float32),
        label_names=names,
        columns={name: np.array(values)[order].tolist() for name, values in columns.items()},
    )


@pytest.fixture
def large(monkeypatch):
    """Every file counts as large, and blocks hold few rows."""
    monkeypatch.setattr(parquet, "LARGE", 0)
    monkeypatch.setattr(logit_tables, "BLOCK_BYTES", 1)
    monkeypatch.setattr(logit_tables, "rows_per_block", lambda width: 64)
    monkeypatch.setattr("hf_pct.flips.compare.rows_per_block", lambda width: 50)


def saved(path, predictions):
    predictions.save(path)
    return Predictions.load(path)


def same(one, other):
    first, second = one.to_dict(), other.to_dict()
    assert first == second


@pytest.mark.parametrize("order", [None, "turned", "part"])
def test_the_report_is_the_same(tmp_path, large, order):
    old, new = table(1), table(2)
    if order == "turned":
        new = table(2, order=np.arange(500)[::-1].copy())
    if order == "part":
        new = table(2, order=np.arange(40, 480))
    expected = compare(old, new, allow_partial=order == "part")
    lazy_old, lazy_new = saved(tmp_path / "old.parquet", old), saved(tmp_path / "new.parquet", new)
    assert isinstance(lazy_old.logit_source, FileLogits)
    assert isinstance(lazy_old.columns, FileColumns)
    same(compare(lazy_old, lazy_new, allow_partial=order == "part"), expected)
    assert np.array_equal(lazy_old.logits, old.logits)
    assert lazy_old.to_arrow().equals(old.to_arrow())
    assert lazy_old.confidence() == pytest.approx(old.confidence(), abs=0)


def test_answers_come_from_the_logits_when_there_are_none(tmp_path, large):
    whole = table(1)
    pq.write_table(whole.to_arrow().drop_columns(["prediction"]), tmp_path / "p.parquet")
    assert np.array_equal(Predictions.load(tmp_path / "p.parquet").prediction_codes, whole.prediction_codes)


def test_columns_are_read_when_they_are_asked_for(tmp_path, large, monkeypatch):
    lazy = saved(tmp_path / "p.parquet", table(1))
    other = saved(tmp_path / "q.parquet", table(2))
    read = []
    whole = pq.read_table
    monkeypatch.setattr(
        pq, "read_table", lambda path, columns, **rest: read.append(columns) or whole(path, columns=columns, **rest)
    )
    compare(lazy, other, slices=["channel"])
    assert ["logits"] not in read
    assert read.count(["channel"]) == 2  # once to count by, once for the flipped rows
    assert len(lazy.columns) == 2
    with pytest.raises(KeyError):
        lazy.columns["nowhere"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda matrix: matrix.__setitem__((300, 1), np.nan), "From row 256 on: The logits of 1 of 64 rows are NaN"),
        (lambda matrix: matrix.__setitem__((3, 0), np.inf), "NaN or infinite"),
    ],
)
def test_bad_logits_are_found(tmp_path, large, change, message):
    whole = table(1).to_arrow()
    matrix = table(1).logits.copy()
    change(matrix)
    bad = whole.set_column(3, "logits", pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), 4))
    pq.write_table(bad, tmp_path / "p.parquet")
    with pytest.raises(ValueError, match=message):
        Predictions.load(tmp_path / "p.parquet")


def test_ragged_logits_and_wrong_widths(tmp_path, large):
    whole = table(1).to_arrow()
    ragged = whole.set_column(3, "logits", pa.array([[1.0, 2.0, 3.0, 4.0]] * 499 + [[1.0]]))
    pq.write_table(ragged, tmp_path / "p.parquet")
    with pytest.raises(ValueError, match="columns"):
        Predictions.load(tmp_path / "p.parquet")
    narrow = whole.set_column(3, "logits", pa.array([[1.0, 2.0]] * 500))
    pq.write_table(narrow, tmp_path / "q.parquet")
    with pytest.raises(ValueError, match="expected 500 rows and 4 columns"):
        Predictions.load(tmp_path / "q.parquet")


def test_by_the_command(tmp_path, large, capsys):
    for name, seed in (("old", 1), ("new", 2)):
        table(seed).save(tmp_path / f"{name}.parquet")
    files = [str(tmp_path / f"{name}.parquet") for name in ("old", "new")]
    assert main(["compare", *files, "--output_dir", str(tmp_path / "out")]) == 0
    assert main(["gate", str(tmp_path / "out" / "flip_report.json"), "--max_nfr", "0.5"]) == 0
