import os
import stat

import pytest

from hf_pct.core.files import check_can_write, write_text, write_whole


def test_a_file_appears_whole_with_ordinary_rights(tmp_path):
    path = write_text(tmp_path / "deep" / "er" / "a.txt", "text")
    assert path.read_text() == "text"
    assert stat.S_IMODE(path.stat().st_mode) & 0o600 == 0o600
    ordinary = tmp_path / "ordinary"
    ordinary.touch()
    assert path.stat().st_mode == ordinary.stat().st_mode
    assert os.listdir(path.parent) == ["a.txt"]


def test_nothing_is_left_of_a_write_that_failed(tmp_path):
    (tmp_path / "a.txt").write_text("before")

    def break_off():
        with write_whole(tmp_path / "a.txt", overwrite=True) as partial:
            partial.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        break_off()
    assert (tmp_path / "a.txt").read_text() == "before"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_what_exists_is_kept(tmp_path):
    write_text(tmp_path / "a.txt", "mine")
    with pytest.raises(FileExistsError, match=r"a\.txt exists and is kept"):
        write_text(tmp_path / "a.txt", "yours")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        check_can_write(tmp_path, overwrite=True)
    assert (tmp_path / "a.txt").read_text() == "mine"
