"""The notebooks of examples/ run from first cell to last, offline; their outputs are those of a real run."""

import shutil
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "examples" / "notebooks"
NOTEBOOKS = sorted(path.name for path in FOLDER.glob("*.ipynb"))


def test_there_are_three():
    assert NOTEBOOKS == ["intents_end_to_end.ipynb", "only_two_files.ipynb", "timm_model.ipynb"]


def code_cells(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs(name, tmp_path):
    if name != "only_two_files.ipynb":
        pytest.importorskip("home_assistant_intents", reason="no data: pip install 'hf-pct[demo]'")
    shutil.copytree(FOLDER / "data", tmp_path / "data")
    notebook = nbformat.read(FOLDER / name, as_version=4)
    nbformat.validate(notebook)
    NotebookClient(notebook, timeout=240, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    assert "</html>" in (tmp_path / "out" / "update.html").read_text(encoding="utf-8")
    printed = "".join(output.get("text", "") for cell in code_cells(notebook) for output in cell.outputs)
    assert "The new model breaks" in printed


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_committed_outputs_name_no_machine(name):
    text = (FOLDER / name).read_text(encoding="utf-8")
    cells = code_cells(nbformat.reads(text, as_version=4))
    assert any(cell.outputs for cell in cells)
    assert not any(place in text for place in ("/home/", "/root/", "/tmp/", "site-packages"))
