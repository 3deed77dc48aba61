"""What a killed process, a full disk and a link do to files: nothing is lost, nothing stays, and it is said early."""

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from hf_pct.core import files
from hf_pct.core.files import OutputError, check_can_write, check_output_folder, reserve, whole_folder, write_text

WRITER = """
import sys, time
from pathlib import Path
from hf_pct.core.files import whole_folder, write_whole
target = Path(sys.argv[1])
with (whole_folder if target.suffix == "" else write_whole)(target) as partial:
    (partial / "weights" if partial.is_dir() else partial).write_bytes(b"x" * 1000)
    print("writing", flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def another_run(monkeypatch):
    """A process cleans each folder once: each test is a run of its own."""
    monkeypatch.setattr(files, "_cleaned", set())


@pytest.fixture
def writer():
    """Starts a process that is in the middle of writing a target."""
    running = []

    def start(target):
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(target)], stdout=subprocess.PIPE, text=True)
        running.append(process)
        assert process.stdout.readline() == "writing\n"
        return process

    yield start
    for process in running:
        process.kill()
        process.wait()


@pytest.mark.parametrize("name", ["table.parquet", "model"])
def test_the_next_run_removes_what_a_killed_one_left_and_nothing_else(tmp_path, writer, name):
    living, killed = writer(tmp_path / f"living-{name}"), writer(tmp_path / name)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    (tmp_path / ".mine.partial").write_text("a person's")
    left = {path.name for path in tmp_path.iterdir()}
    assert len(left) == 3
    write_text(tmp_path / "report.json", "{}")
    kept = {path.name for path in tmp_path.iterdir()}
    assert {"report.json", ".mine.partial"} < kept
    assert len(kept) == 3
    assert any(path.startswith(".living-") for path in kept)
    living.kill()
    living.wait()
    files._cleaned.clear()
    write_text(tmp_path / "again.json", "{}")
    assert sorted(os.listdir(tmp_path)) == [".mine.partial", "again.json", "report.json"]


def test_partial_files_without_a_lock_are_removed_after_a_day(tmp_path):
    fresh, stale = tmp_path / ".a.npy.0123456789abcdef.partial", tmp_path / ".b.npy.fedcba9876543210.0.partial"
    for path in (fresh, stale):
        path.write_bytes(b"x")
    os.utime(stale, (time.time() - 2 * 86400,) * 2)
    assert files.remove_left_behind(tmp_path) == [stale]
    assert fresh.exists()


def test_two_runs_may_write_beside_each_other(tmp_path):
    with whole_folder(tmp_path / "one") as one:
        files._cleaned.clear()
        with whole_folder(tmp_path / "two") as two:
            (one / "a").write_text("1")
            (two / "a").write_text("2")
    assert [(tmp_path / name / "a").read_text() for name in ("one", "two")] == ["1", "2"]
    assert sorted(os.listdir(tmp_path)) == ["one", "two"]


def test_a_link_a_file_in_the_way_and_a_full_disk_are_found_before_the_work(tmp_path, monkeypatch):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(OutputError, match="is a link to"):
        check_output_folder(tmp_path / "link")
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="is a file, expected a folder"):
        check_output_folder(tmp_path / "file" / "out")
    with pytest.raises(OutputError, match="cannot be made"):
        check_can_write(tmp_path / "file" / "report.json")
    with pytest.raises(OutputError, match=r"needs 1,000,000,000,000,000 bytes, [\d,]+ are free"):
        check_output_folder(tmp_path / "out", 10**15)
    monkeypatch.setattr(files.os, "access", lambda path, mode: False)  # root may write everywhere else
    with pytest.raises(OutputError, match="read-only, or no permission"):
        check_can_write(tmp_path / "report.json")


def test_a_full_disk_is_an_error_before_anything_is_written(small_disk):
    reserve(small_disk / "table", 100_000)
    assert (small_disk / "table").stat().st_size == 100_000
    with pytest.raises(OutputError, match="300,000 bytes cannot be reserved"):
        reserve(small_disk / "more", 300_000)
    (small_disk / "more").unlink()
    free = shutil.disk_usage(small_disk).free
    (small_disk / "filler").write_bytes(b"x" * free)
    with pytest.raises(OutputError, match="are free on that disk"):
        check_can_write(small_disk / "report.json")
    with pytest.raises(OutputError, match="are free on that disk"):
        check_output_folder(small_disk / "out")
