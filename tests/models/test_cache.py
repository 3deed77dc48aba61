"""What a full disk, a read-only folder and damage do to kept answers: nothing wrong is used, nothing is lost."""

import logging
import os
import time

import numpy as np
import pytest

from hf_pct.core import files
from hf_pct.core.files import OutputError
from hf_pct.models.cache import Layout, load_or_compute
from hf_pct.models.run import RowAnswers

ROWS, WIDTH = 64, 5
LOGITS = np.random.default_rng(0).standard_normal((ROWS, WIDTH)).astype(np.float32)


@pytest.fixture
def table():
    """Loads or computes the table, and counts how often it was computed."""
    computed = []

    def load(path, logits=LOGITS, **options):
        def fill(share):
            computed.append(share)
            yield RowAnswers(range(0, 32), logits[:32])
            yield RowAnswers(range(32, len(logits)), logits[32:])

        return load_or_compute(path, Layout(logits.shape[1]), len(logits), fill, **options)

    load.computed = computed
    return load


def same(answers, logits=LOGITS):
    return np.array_equal(answers.in_memory("logits"), logits)


def test_kept_answers_are_used_again(table, tmp_path):
    path = tmp_path / "deep" / "a.safetensors"
    assert same(table(path))
    assert same(table(path))
    assert len(table.computed) == 1
    assert os.listdir(path.parent) == ["a.safetensors"]


@pytest.mark.parametrize("place", ["header", "first", "last", "all", "cut", "longer"])
def test_damage_is_noticed_named_and_mended(table, tmp_path, caplog, place):
    path = tmp_path / "a.safetensors"
    table(path)
    content = bytearray(path.read_bytes())
    start = len(content) - LOGITS.nbytes
    if place == "all":
        content = bytearray(len(content))
    elif place in ("cut", "longer"):
        content = content[:-4] if place == "cut" else content + b"1234"
    else:
        content[{"header": 9, "first": start, "last": -1}[place]] ^= 1
    path.write_bytes(content)
    assert same(table(path))
    assert len(table.computed) == 2
    assert f"{path} is damaged" in caplog.text
    caplog.clear()
    assert same(table(path))
    assert len(table.computed) == 2
    assert caplog.text == ""


def test_a_full_disk_loses_no_answers_and_kills_nothing(table, small_disk, caplog):
    many = np.ones((20_000, WIDTH), dtype=np.float32)  # 400 kB on a disk of 256
    assert same(table(small_disk / "a.safetensors", many), many)
    assert "Answers are not kept for the next run" in caplog.text
    assert os.listdir(small_disk) == []
    with pytest.raises(OutputError, match=r"cannot be kept: .*reserved.*reference_cache_dir"):
        table(small_disk / "a.safetensors", many, must_keep=True)
    assert os.listdir(small_disk) == []


def test_a_folder_that_cannot_be_made_only_warns(table, tmp_path, caplog):
    (tmp_path / "file").touch()
    assert same(table(tmp_path / "file" / "a.safetensors"))
    assert "Answers are not kept" in caplog.text


def test_a_write_that_fails_at_the_end_only_warns(table, tmp_path, caplog, monkeypatch):
    def refuse(*_):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("hf_pct.models.cache.os.replace", refuse)
    assert same(table(tmp_path / "a.safetensors"))
    assert "Read-only file system" in caplog.text
    assert os.listdir(tmp_path) == []


def test_answers_that_are_no_numbers_are_not_kept(table, tmp_path):
    broken = LOGITS.copy()
    broken[3, 1] = np.nan
    answers = table(tmp_path / "a.safetensors", broken)
    assert np.isnan(answers.in_memory("logits")).sum() == 1
    assert os.listdir(tmp_path) == []


def test_what_a_killed_run_left_is_removed(table, tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(files, "_cleaned", set())
    left = tmp_path / ".b.safetensors.0123456789abcdef.0.locked.partial"
    left.write_bytes(b"half")
    os.utime(left, (time.time() - 120,) * 2)
    table(tmp_path / "a.safetensors")
    assert os.listdir(tmp_path) == ["a.safetensors"]
