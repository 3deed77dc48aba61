"""Two real processes over gloo train the model that one process trains."""

import json

import pytest
from ddp_script import ANCHORED, run
from safetensors.torch import load_file
from training_kit import bert, distance, images, in_two_processes, texts, timm_model


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ddp")
    in_two_processes("ddp_script.py", folder)
    return folder


CASES = {
    "text": (bert, texts, {}),
    "vit": (timm_model, images, {}),
    "fsdp": (bert, texts, ANCHORED),  # weights spread over the processes by FSDP2, and held near the old ones
}


@pytest.mark.parametrize("kind", CASES)
def test_two_processes_of_eight_equal_one_of_sixteen(tmp_path, two_processes, kind):
    model, data, own = CASES[kind]
    alone = run(tmp_path, kind, model(seed=1), model(seed=2), data, per_device_train_batch_size=16, **own)
    assert distance(load_file(two_processes / f"{kind}.safetensors"), alone.model) < 1e-5
    assert distance(model(seed=1), alone.model) > 1e-2
    ours, theirs = (json.loads((folder / f"{kind}.json").read_text()) for folder in (tmp_path, two_processes))
    assert (ours["processes"], theirs["processes"]) == (1, 2)
    for name in ("eval_nfr", "eval_pfr", "eval_accuracy", "eval_old_accuracy", "penalty"):
        assert theirs[name] == pytest.approx(ours[name], rel=1e-4)


def test_two_processes_write_one_table(two_processes):
    tables = sorted((two_processes / "text" / "cache").iterdir())
    assert [table.suffix for table in tables] == [".npy", ".npy"]  # the training set's and the evaluation set's


def test_rows_with_another_fingerprint_in_each_process_are_computed_by_each(two_processes):
    whole, apart = (load_file(two_processes / f"{kind}.safetensors") for kind in ("text", "unhashed"))
    assert all(whole[name].equal(apart[name]) for name in whole)
    kept = list((two_processes / "unhashed" / "cache").glob("*"))
    assert len(kept) == 0


def test_an_old_model_that_differs_between_processes_is_refused_in_all(two_processes):
    for rank in (0, 1):
        message = (two_processes / f"refused{rank}.txt").read_text()
        assert "does not have the same weights in all 2 processes" in message
        assert "set_seed" in message
