"""Two real processes over gloo train the model that one process trains."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from ddp_script import ANCHORED, OWN_LOSS, SHARDS, run
from safetensors.torch import load_file
from training_kit import bert, distance, images, texts, timm_model
from two_processes import run_in_two_processes

from hf_pct.training.references import part


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ddp")
    run_in_two_processes(Path(__file__).with_name("ddp_script.py"), folder)
    return folder


CASES = {
    "text": (bert, texts, {}),
    "vit": (timm_model, images, {}),
    "own loss": (bert, texts, OWN_LOSS),  # in four batches of four; the best checkpoint is the same one too
    "fsdp": (bert, texts, ANCHORED),  # weights spread over the processes by FSDP2, and held near the old ones
}


@pytest.mark.parametrize("kind", CASES)
def test_two_processes_of_eight_equal_one_of_sixteen(tmp_path, two_processes, kind):
    if kind == "fsdp" and not SHARDS:
        pytest.skip("this transformers spreads no weights over processes on a CPU")
    model, data, own = CASES[kind]
    alone = run(tmp_path, kind, model(seed=1), model(seed=2), data, per_device_train_batch_size=16, **own)
    assert distance(load_file(two_processes / f"{kind}.safetensors"), alone.model) < 1e-5
    assert distance(model(seed=1), alone.model) > 1e-2
    ours, theirs = (json.loads((folder / f"{kind}.json").read_text()) for folder in (tmp_path, two_processes))
    assert (ours["processes"], theirs["processes"]) == (1, 2)
    for name in ("eval_nfr", "eval_pfr", "eval_accuracy", "eval_old_accuracy", "penalty"):
        assert theirs[name] == pytest.approx(ours[name], rel=1e-4)
    assert theirs["best"] == ours["best"]


def test_two_processes_write_one_table(two_processes):
    tables = sorted((two_processes / "text" / "cache").iterdir())
    assert [table.suffix for table in tables] == [".safetensors"] * 2  # the training set's and the evaluation set's


def test_rows_with_another_fingerprint_in_each_process_are_known_by_what_they_hold(two_processes):
    whole, apart = (load_file(two_processes / f"{kind}.safetensors") for kind in ("text", "unhashed"))
    assert all(whole[name].equal(apart[name]) for name in whole)
    kept = {path.name for path in (two_processes / "unhashed" / "cache").glob("*")}
    assert kept == {path.name for path in (two_processes / "text" / "cache").glob("*")}


def test_rows_that_differ_between_processes_are_computed_by_each(monkeypatch, caplog):
    monkeypatch.setattr(part, "PartialState", lambda: SimpleNamespace(num_processes=2))
    monkeypatch.setattr(part, "gather_object", lambda mine: [*mine, ("model", "other rows")])
    assert part.shared_identity("model", "rows", "the old model") is None
    assert "The rows are not the same in all processes" in caplog.text
    assert part.shared_identity("model", "other rows", "the old model") == ["model", "other rows"]


def test_an_old_model_that_differs_between_processes_is_refused_in_all(two_processes):
    for rank in (0, 1):
        message = (two_processes / f"refused{rank}.txt").read_text()
        assert "does not have the same weights in all 2 processes" in message
        assert "set_seed" in message
