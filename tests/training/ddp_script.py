"""Run by `test_distributed.py` in two processes: trains as the test does in one, and saves what came out."""

import json
import sys
from pathlib import Path

from safetensors.torch import save_file
from training_kit import bert, images, texts, timm_model, trainer, weights


def main(folder: Path) -> None:
    for kind, model, data in (("text", bert, texts), ("vit", timm_model, images)):
        run = trainer(
            folder / kind, model=model(seed=1), train=data(48), old_model=model(seed=2), eval_dataset=data(21, seed=5),
            per_device_train_batch_size=8, optim="sgd", learning_rate=0.1, max_grad_norm=1000.0, num_train_epochs=2,
        )  # fmt: skip
        run.train()
        metrics = run.evaluate()
        if run.is_world_process_zero():
            save_file(weights(run.model), folder / f"{kind}.safetensors")
            facts = {"processes": run.accelerator.num_processes, **metrics}
            (folder / f"{kind}.json").write_text(json.dumps(facts))
    run.end()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
