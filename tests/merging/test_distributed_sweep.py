"""Two processes share the work of a sweep and get the numbers of one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sweep_script import sweep_once

HERE = Path(__file__).resolve().parent


def test_two_processes_sweep_as_one_does(tmp_path):
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(20000 + os.getpid() % 20000)}
    running = []
    for rank in ("0", "1"):
        place = {**os.environ, **shared, "RANK": rank, "LOCAL_RANK": rank, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "sweep_script.py", str(tmp_path)]
        running.append(subprocess.Popen(command, cwd=HERE, env=place, stdout=subprocess.PIPE, text=True))
    one, one_fisher = sweep_once(tmp_path)
    outputs = [process.communicate(timeout=280)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0]
    for output in outputs:
        line = next(line for line in output.splitlines() if line.startswith("TABLE"))
        two, two_fisher = json.loads(line.removeprefix("TABLE"))
        assert two == one
        assert two_fisher == pytest.approx(one_fisher, rel=1e-4)
