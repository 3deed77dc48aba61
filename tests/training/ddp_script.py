"""Run by `test_distributed.py` in two processes: trains as the test does in one, and saves what came out."""

import inspect
import json
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch.nn import functional
from training_kit import bert, images, texts, timm_model, trainer
from transformers import BertForSequenceClassification
from transformers.distributed import DistributedConfig
from two_processes import end_together

SETTINGS: dict[str, Any] = {
    "optim": "sgd", "learning_rate": 0.1, "max_grad_norm": 1000.0, "num_train_epochs": 2, "save_only_model": True,
}  # fmt: skip
SHARDS = "fsdp_size" in inspect.signature(DistributedConfig).parameters  # newer than transformers 5.0
ANCHORED = {"l2_sp_weight": 0.1, "prior_weight_decay": 0.5}


def weighted(outputs: Any, labels: torch.Tensor, num_items_in_batch: Any = None) -> torch.Tensor:
    """A class-weighted loss as people write it for `Trainer`."""
    sums = functional.cross_entropy(outputs.logits, labels, torch.tensor([1.0, 5.0, 1.0, 0.2]), reduction="sum")
    return sums / num_items_in_batch


OWN_LOSS: dict[str, Any] = {
    "compute_loss_func": weighted, "eval_strategy": "epoch", "save_strategy": "epoch", "load_best_model_at_end": True,
    "metric_for_best_model": "contract",
}  # fmt: skip


def run(folder: Path, kind: str, model: Any, old: Any, data: Any, **settings: Any) -> Any:
    """Train and evaluate; `folder` gets the whole model's weights and the metrics."""
    run = trainer(
        folder / kind,
        model=model,
        train=data(48),
        old_model=old,
        eval_dataset=data(21, seed=5),
        **SETTINGS,
        **settings,
    )
    run.train()
    metrics = run.evaluate()
    whole = {
        name: (value.full_tensor() if hasattr(value, "full_tensor") else value).detach().clone()
        for name, value in run.model.state_dict().items()
    }
    if run.is_world_process_zero():
        save_file(whole, folder / f"{kind}.safetensors")
        penalty = [entry.get("loss_l2_sp", 0.0) for entry in run.state.log_history if "loss" in entry][-1]
        best = str(run.state.best_model_checkpoint).rpartition("/")[2]
        facts = {"processes": run.accelerator.num_processes, "penalty": penalty, "best": best, **metrics}
        (folder / f"{kind}.json").write_text(json.dumps(facts))
    return run


def unhashed(rows: int, seed: int = 0) -> Any:
    """The same rows, made by a function that cannot be hashed: each process has another fingerprint of them."""
    cannot_be_pickled = (number for number in range(rows))
    return texts(rows, seed).map(lambda row: row if cannot_be_pickled else {})


def refuse_different_references(folder: Path, rank: int) -> None:
    """Each process with an old model of its own weights, as fresh heads without a seed are."""
    mistaken = trainer(folder / "different", train=texts(48), old_model=bert(seed=10 + rank), **SETTINGS)
    try:
        mistaken.train()
    except ValueError as error:
        (folder / f"refused{rank}.txt").write_text(str(error))


def main(folder: Path) -> None:
    batch = {"per_device_train_batch_size": 8}
    run(folder, "text", bert(seed=1), bert(seed=2), texts, **batch)
    shared = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2}
    run(folder, "own loss", bert(seed=1), bert(seed=2), texts, **shared, **OWN_LOSS)
    apart = run(folder, "unhashed", bert(seed=1), bert(seed=2), unhashed, **batch)
    refuse_different_references(folder, apart.accelerator.process_index)
    last = run(folder, "vit", timm_model(seed=1), timm_model(seed=2), images, **batch)
    if last.is_world_process_zero():
        bert(seed=1).save_pretrained(folder / "start")
    last.accelerator.wait_for_everyone()
    if SHARDS:
        train_sharded(folder, batch)


def train_sharded(folder: Path, batch: dict[str, int]) -> None:
    sharded = BertForSequenceClassification.from_pretrained(
        folder / "start", distributed_config=DistributedConfig(fsdp_size=2)
    )
    if not all(isinstance(value, torch.distributed.tensor.DTensor) for value in sharded.parameters()):
        raise RuntimeError("the weights were meant to be spread over the two processes")
    run(folder, "fsdp", sharded, bert(seed=2), texts, reference="live", **batch, **ANCHORED)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    end_together()
