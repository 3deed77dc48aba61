"""Two real processes over gloo train the model that one process trains."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file
from training_kit import bert, distance, images, losses, texts, timm_model, trainer, weights

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ddp")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true", "PYTHONPATH": str(HERE)}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    result = subprocess.run(
        [*command, str(HERE / "ddp_script.py"), str(folder)],
        env=environment, capture_output=True, text=True, timeout=240, check=False, cwd=HERE.parent.parent,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr[-3000:]
    return folder


@pytest.mark.parametrize(("kind", "model", "data"), [("text", bert, texts), ("vit", timm_model, images)])
def test_two_processes_of_eight_equal_one_of_sixteen(tmp_path, two_processes, kind, model, data):
    run = trainer(
        tmp_path, model=model(seed=1), train=data(48), old_model=model(seed=2), eval_dataset=data(21, seed=5),
        per_device_train_batch_size=16, optim="sgd", learning_rate=0.1, max_grad_norm=1000.0, num_train_epochs=2,
    )  # fmt: skip
    before = weights(run.model)
    run.train()
    facts = json.loads((two_processes / f"{kind}.json").read_text())
    assert facts["processes"] == 2
    assert distance(load_file(two_processes / f"{kind}.safetensors"), run.model) < 1e-5
    assert distance(before, run.model) > 1e-2
    assert len(losses(run)) == 6
    metrics = run.evaluate()
    for name in ("eval_nfr", "eval_pfr", "eval_accuracy", "eval_old_accuracy"):
        assert facts[name] == pytest.approx(metrics[name])


def test_two_processes_write_one_table(two_processes):
    tables = sorted((two_processes / "text" / "cache").iterdir())
    assert [table.suffix for table in tables] == [".npy", ".npy"]  # the training set's and the evaluation set's
