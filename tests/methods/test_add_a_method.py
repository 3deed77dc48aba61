"""docs/add_a_method.md does what it says: one file, and the method is everywhere; docs/methods.md is up to date."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hf_pct.methods.tables import methods_page

ROOT = Path(__file__).parents[2]
SCRIPT = """
import sys
import hf_pct.methods.losses as losses
losses.__path__.append(sys.argv[1])  # the file stands beside those of the kit

import torch
from torch.nn import functional
from training_kit import bert, texts, tokenizer, trainer, losses as logged

from hf_pct.hub.card.methods import describe_method
from hf_pct.hub.records import training_record
from hf_pct.methods import TrainingMethod, find_method
from hf_pct.methods.tables import methods_page
from hf_pct.training.memory import estimate_memory
from hf_pct.training.script import UpdateArguments, parse_arguments

folder = sys.argv[2]
flags = ["--output_dir", folder, "--use_cpu", "--method", "confident", "--sharpness", "2"]
(args,) = parse_arguments([UpdateArguments], flags)
assert args.training_method().sharpness == 2.0
try:
    parse_arguments([UpdateArguments], [*flags, "--sharpness=-1", "--every_row=-1"])
except ValueError as error:
    assert "sharpness=-1.0: expected a finite number >= 0" in str(error) and "every_row=-1.0" in str(error)
else:
    raise AssertionError("a bad value was accepted")

run = trainer(folder, method="confident", sharpness=2.0)
new, old, labels = torch.randn(6, 4), torch.randn(6, 4), torch.tensor([0, 1, 2, 3, 0, -100])
expected = (old.softmax(-1).amax(-1) ** 2 * 0.5 * (new - old).square().mean(-1))[:5].sum() / 6
torch.testing.assert_close(run.loss_terms(new, {"old": old}, labels)["confident"], expected)
run.train()
assert all("loss_confident" in entry for entry in run.state.log_history if "loss" in entry)

described = describe_method(training_record(run), {})
assert described.tag == "confident" and "sure of its answer" in described.sentence
assert "you2026confident" in described.citation and described.settings["sharpness"] == 2.0
assert estimate_memory(run.args, 1000, live=True).references == 4000
assert "| `confident` | Half the squared logit difference, weighted" in methods_page()
assert "| `sharpness` | 1.0 | Power of" in methods_page()

method = find_method("confident", TrainingMethod)(sharpness=2.0)
same = trainer(folder, method="none", method_object=method)
same.train()
assert logged(same) == logged(run)
"""


MERGE_SCRIPT = """
import sys
import hf_pct.methods.merges as merges
merges.__path__.append(sys.argv[1])  # the file stands beside those of the kit
from pathlib import Path

import torch
from safetensors.torch import load_file
from tiny_models import tiny_bert

from hf_pct.cli import main
from hf_pct.hub.card.methods import describe_method
from hf_pct.merging import BCWIArguments
from hf_pct.merging.interpolate import interpolate
from hf_pct.merging.checkpoints.record import MergeRecord
from hf_pct.methods import MergeRule, find_method
from hf_pct.methods.tables import methods_page

folder = Path(sys.argv[2])
for seed, name in enumerate(("old", "new")):
    tiny_bert(seed=seed).save_pretrained(folder / name)
flags = ["merge", str(folder / "old"), str(folder / "new"), "--method", "keep-length", "--quiet"]
assert main([*flags, "--length", "2", "--alpha", "0.25", "--output_dir", str(folder / "out")]) == 0
assert main([*flags, "--length=0", "--alpha", "0.25", "--output_dir", str(folder / "bad")]) == 2

old, new, out = (load_file(folder / name / "model.safetensors") for name in ("old", "new", "out"))
for name, value in out.items():
    if value.is_floating_point():
        line = 0.25 * old[name] + 0.75 * new[name]
        torch.testing.assert_close(value, line * (2 * old[name].norm() / line.norm()).nan_to_num())
rule = find_method("keep-length", MergeRule)(length=2.0)
in_memory = interpolate(old, new, 0.25, rule=rule)
assert all(torch.equal(in_memory[name], out[name]) for name in out)
assert all(torch.equal(value, old[name]) for name, value in interpolate(old, new, 1.0, rule=rule).items())
assert BCWIArguments(str(folder / "run"), method="keep-length", length=2.0, report_to="none").rule == rule

record = MergeRecord.load(folder / "out" / "pct_merge.json")
assert (record.method, record.settings) == ("keep-length", {"length": 2.0})
described = describe_method({}, {"method": "keep-length", "alpha": 0.25, "settings": {"length": 2.0}})
assert "at the old model's lengths" in described.sentence and "you2026length" in described.citation
assert "| `keep-length` | The line between both models" in methods_page()
"""


def page_block(file: str) -> str:
    text = (ROOT / "docs" / "add_a_method.md").read_text(encoding="utf-8")
    (block,) = re.findall(rf"```python\n(# hf_pct/methods/{re.escape(file)}\n.*?)```", text, re.DOTALL)
    return block


@pytest.mark.parametrize(
    ("file", "script"),
    [("losses/confident.py", SCRIPT), ("merges/keep_length.py", MERGE_SCRIPT)],
    ids=["loss", "merge"],
)
def test_one_file_is_all_that_a_new_method_needs(tmp_path, file, script):
    (tmp_path / "methods").mkdir()
    (tmp_path / "methods" / Path(file).name).write_text(page_block(file))
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "training"), str(ROOT / "tests")])
    result = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "methods"), str(tmp_path / "out")],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr[-3000:]


def test_help_shows_the_settings_of_the_new_method(tmp_path):
    (tmp_path / "confident.py").write_text(page_block("losses/confident.py"))
    code = (
        "import sys, hf_pct.methods.losses as losses\nlosses.__path__.append(sys.argv[1])\n"
        "from hf_pct.training.script import UpdateArguments, parse_arguments\nsys.argv[1:] = ['--help']\n"
        "parse_arguments([UpdateArguments])"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    result = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], env=environment, capture_output=True, text=True, check=False
    )
    assert "--sharpness" in result.stdout, result.stderr[-2000:]
    assert "confident: Half the squared logit difference" in " ".join(result.stdout.split())


def test_the_page_of_methods_is_up_to_date():
    """`make docs-methods` writes it."""
    assert (ROOT / "docs" / "methods.md").read_text(encoding="utf-8") == methods_page()


def test_only_its_method_its_trainer_and_public_names_know_elodi():
    """The rest of the kit asks the registry. The demo tells a story about it."""
    allowed = {
        "methods/losses/elodi.py", "training/elodi.py", "training/__init__.py", "__init__.py",
        "methods/loss_modules.py",  # LogitDifferenceInhibitionLoss is public
        "methods/__init__.py",
    }  # fmt: skip
    named = {
        path.relative_to(ROOT / "hf_pct").as_posix()
        for path in (ROOT / "hf_pct").rglob("*.py")
        if "elodi" in path.read_text(encoding="utf-8").lower()
    }
    assert {name for name in named if not name.startswith("demo/")} <= allowed
