"""Two real processes over gloo, as `torchrun` starts them, and how each of them ends."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def run_in_two_processes(script: Path, *arguments: object) -> str:
    """Run a script as two processes and return what they printed; the kit is the one beside these tests."""
    path = os.pathsep.join([str(script.parent), str(Path(__file__).parent), str(ROOT)])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true", "PYTHONPATH": path}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", str(script)]
    result = subprocess.run(
        [*command, *map(str, arguments)],
        env=environment, capture_output=True, text=True, timeout=280, check=False, cwd=ROOT,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout


def end_together() -> None:
    """End this process once the other one has come here, without tearing gloo down.

    Threads of gloo that still run while their process group is destroyed abort the process now and then
    ("terminate called without an active exception"), after all work was done.
    """
    import torch.distributed

    torch.distributed.barrier()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
