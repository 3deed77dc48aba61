"""A parquet file that unpacks to more than the memory is refused from its table of contents, in bounded memory."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hf_pct import Predictions
from hf_pct.flips.tables import unpacked
from hf_pct.flips.tables.unpacked import check_unpacked_size, free_memory

MEGABYTE = 2**20


def equal_rows(path, rows, text="a"):
    codes = pa.array(np.zeros(rows, dtype=np.int32))
    same = pa.DictionaryArray.from_arrays(codes, [text])
    table = pa.table({"id": np.zeros(rows, dtype=np.int64), "label": same, "prediction": same})
    pq.write_table(table, path, compression="zstd")
    return path


def test_many_equal_numbers(tmp_path):
    path = equal_rows(tmp_path / "a.parquet", 2_000_000)
    assert path.stat().st_size < MEGABYTE
    with pytest.raises(ValueError, match=r"becomes more than [\d,]+ in memory.*damaged or hostile"):
        check_unpacked_size(path, free=16 * MEGABYTE)
    check_unpacked_size(path, free=64 * MEGABYTE)


def test_one_long_text_repeated(tmp_path):
    path = equal_rows(tmp_path / "a.parquet", 100_000, "long " * 20_000)
    assert path.stat().st_size < MEGABYTE
    with pytest.raises(ValueError, match="in memory"):
        check_unpacked_size(path, free=1024 * MEGABYTE)


def test_the_readers_ask_and_ordinary_files_pass(tmp_path, monkeypatch):
    rows = 200
    texts = [f"text {row}" for row in range(rows)]
    answers = Predictions(range(rows), ["a", "b"] * 100, ["a"] * rows, columns={"text": texts, "long": texts})
    answers.save(tmp_path / "a.parquet")
    assert len(Predictions.load(tmp_path / "a.parquet").ids) == rows
    monkeypatch.setattr(unpacked, "free_memory", lambda: 1000)
    with pytest.raises(ValueError, match="may be used"):
        Predictions.load(tmp_path / "a.parquet")


def test_what_is_no_parquet_is_left_to_its_reader(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1nothing")
    check_unpacked_size(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="not a whole parquet file"):
        Predictions.load(tmp_path / "a.parquet")
    assert free_memory() > MEGABYTE
