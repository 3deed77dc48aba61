"""Members that two processes train together, or each by itself, are those that one process trains."""

import json
from pathlib import Path

import pytest
from elodi_script import run
from safetensors.torch import load_file
from training_kit import distance
from two_processes import run_in_two_processes


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("members")
    run_in_two_processes(Path(__file__).with_name("elodi_script.py"), folder)
    return folder


@pytest.fixture(scope="module")
def one_process(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    run(folder, "alone", per_device_train_batch_size=8, gradient_accumulation_steps=2)
    return folder


def member(folder, number):
    return load_file(folder / "members" / str(number) / "model.safetensors")


@pytest.mark.parametrize(("way", "most"), [("spread", 0.0), ("together", 1e-5)])
def test_members_are_the_same(two_processes, one_process, way, most):
    for number in range(3):
        ours, theirs = member(one_process / "alone", number), member(two_processes / way, number)
        assert distance(ours, theirs) <= most
        record = json.loads((two_processes / way / "members" / str(number) / "pct_member.json").read_text())
        assert record["cost"]["rows"] == 96


@pytest.mark.parametrize("way", ["spread", "together"])
def test_the_student_is_trained_by_both(two_processes, one_process, way):
    ours = json.loads((one_process / "alone.json").read_text())
    theirs = json.loads((two_processes / f"{way}.json").read_text())
    assert (ours["processes"], theirs["processes"]) == (1, 2)
    assert theirs["eval_ensemble_accuracy"] == pytest.approx(ours["eval_ensemble_accuracy"])
    weights = [load_file(folder / f"{name}.safetensors")
               for folder, name in ((one_process, "alone"), (two_processes, way))]  # fmt: skip
    assert distance(*weights) < 1e-5
    assert not list((two_processes / way / "members").glob(".*"))
