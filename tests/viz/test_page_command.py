"""`hf-pct page` as its two functions: the options, the file, the messages."""

import argparse
import json
import subprocess
import sys

import datasets
import numpy as np
import pytest
from page_reports import CHAIN, curve_rows, small_report
from PIL import Image

from hf_pct.cli.measure import page as command
from hf_pct.core.errors import NotComparableError


def page(*arguments) -> int:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.run(parser.parse_args([str(argument) for argument in arguments]))


@pytest.fixture
def saved(tmp_path):
    return small_report().save(tmp_path / "flip_report.json")


def test_all_that_can_be_shown(saved, tmp_path, capsys):
    (tmp_path / "gate.yaml").write_text("max_nfr: 0.001\n")
    (tmp_path / "merge.json").write_text(json.dumps({"curve": curve_rows(), "alpha": 0.3}))
    (tmp_path / "chain.json").write_text(json.dumps(CHAIN))
    out = tmp_path / "new" / "update.html"
    extras = ("--gate", tmp_path / "gate.yaml", "--curve", tmp_path / "merge.json", "--chain", tmp_path / "chain.json")
    assert page(saved, "-o", out, *extras) == 0, "a failed gate is shown, not judged here"
    text = out.read_text(encoding="utf-8")
    for part in ('id="gate"', 'id="curve"', 'id="chain"', "FAILED", "alpha = 0.3"):
        assert part in text
    assert str(out) in capsys.readouterr().out


def test_no_texts_and_overwrite(saved, tmp_path):
    out = tmp_path / "update.html"
    assert page(saved, "-o", out) == 0
    assert "say alarm" in out.read_text(encoding="utf-8")
    with pytest.raises(FileExistsError, match="--overwrite"):
        page(saved, "-o", out, "--no_texts")
    assert page(saved, "-o", out, "--no_texts", "--overwrite") == 0
    assert "say alarm" not in out.read_text(encoding="utf-8")


def test_images_come_from_a_saved_dataset(saved, tmp_path):
    ids = [f"row/{row} %" for row in range(400)]
    pictures = [Image.fromarray(np.full((8, 8), row % 255, dtype=np.uint8)) for row in range(400)]
    data = datasets.Dataset.from_dict({"id": ids, "image": pictures}).cast_column("image", datasets.Image())
    data.save_to_disk(tmp_path / "images")
    assert page(saved, "-o", tmp_path / "a.html", "--images", tmp_path / "images", "--max_images", 5) == 0
    assert (tmp_path / "a.html").read_text(encoding="utf-8").count("data:image/png") == 5


def test_what_is_wrong_is_said(saved, tmp_path):
    with pytest.raises(ValueError, match="images are examples too"):
        page(saved, "-o", tmp_path / "a.html", "--images", "x", "--no_texts")
    with pytest.raises(ValueError, match="--max_images is 0"):
        page(saved, "-o", tmp_path / "a.html", "--max_images", 0)
    with pytest.raises(FileNotFoundError, match="expected a flip report"):
        page(tmp_path / "none.json", "-o", tmp_path / "a.html")
    (tmp_path / "gate.yaml").write_text("max_excess_nfr: 0.1\n")
    with pytest.raises(NotComparableError, match="noise floor"):
        page(saved, "-o", tmp_path / "a.html", "--gate", tmp_path / "gate.yaml")
    assert not (tmp_path / "a.html").exists()


def test_a_page_needs_neither_torch_nor_matplotlib(saved, tmp_path):
    code = (
        "import sys; from hf_pct import FlipReport; from hf_pct.viz.page.write import write_page; "
        f"write_page({str(tmp_path / 'a.html')!r}, FlipReport.load({str(saved)!r})); "
        "assert not {'torch', 'transformers', 'datasets', 'matplotlib', 'PIL'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
