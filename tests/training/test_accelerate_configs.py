"""The accelerate configs start what they promise; here on two processes without a GPU."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

CONFIGS = sorted((Path(__file__).parents[2] / "examples" / "accelerate").glob("*.yaml"))
SCRIPT = """
import os
import torch
from transformers import TrainingArguments
args = TrainingArguments("unused", use_cpu=True)
os.write(1, f"WORLD {args.world_size} {args.parallel_mode.value}\\n".encode())  # whole, beside the other process
torch.distributed.barrier()
os._exit(0)  # as `end_together` does: gloo torn down at the end aborts now and then
"""


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_accelerate_knows_every_setting(config):
    from accelerate.commands.config.config_args import load_config_from_file

    loaded = load_config_from_file(str(config))  # refuses keys that it does not know
    written = yaml.safe_load(config.read_text())
    assert (loaded.num_processes, loaded.num_machines) == (written["num_processes"], written["num_machines"])
    assert loaded.use_cpu is False  # with true, accelerate starts one process whatever num_processes says


@pytest.mark.parametrize("name", ["two_processes_cpu", "fsdp2_8_gpus"])
def test_two_processes_start(tmp_path, name):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    config = next(path for path in CONFIGS if path.stem == name)
    command = [sys.executable, "-m", "accelerate.commands.launch", "--config_file", str(config)]
    result = subprocess.run(
        [*command, "--num_processes", "2", "--num_machines", "1", "--mixed_precision", "no", str(script)],
        env={**os.environ, "ACCELERATE_USE_CPU": "true"}, capture_output=True, text=True, timeout=120, check=False,
        cwd=tmp_path,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr[-2000:]
    assert result.stdout.count("WORLD 2 distributed") == 2
