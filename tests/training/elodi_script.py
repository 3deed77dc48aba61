"""Run by `test_distributed_members.py` in two processes: members together, and each process its own."""

import json
import sys
from pathlib import Path

from safetensors.torch import save_file
from training_kit import elodi, texts
from two_processes import end_together

SETTINGS = {"num_members": 3, "optim": "sgd", "learning_rate": 0.1, "max_grad_norm": 1000.0, "num_train_epochs": 2}


def run(folder: Path, name: str, **settings) -> None:
    run = elodi(folder / name, train=texts(48), eval_dataset=texts(21, seed=5), **SETTINGS, **settings)
    run.train()
    metrics = run.evaluate()
    if run.is_world_process_zero():
        state = {key: value.detach().clone() for key, value in run.model.state_dict().items()}
        save_file(state, folder / f"{name}.safetensors")
        facts = {"processes": run.accelerator.num_processes, **metrics}
        (folder / f"{name}.json").write_text(json.dumps(facts))
    run.accelerator.wait_for_everyone()


if __name__ == "__main__":
    for spread in (True, False):
        run(Path(sys.argv[1]), "spread" if spread else "together", spread_members=spread,
            per_device_train_batch_size=8)  # fmt: skip
    end_together()
