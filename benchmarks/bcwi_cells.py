"""The trained models behind `bcwi_massive.py`: old, target and new, one cell per seed, each trained once and kept.

The split is the BCWI paper's own (MASSIVE, 1000 -> 1500 training sentences, 60 intents). The encoder is
all-MiniLM-L6-v2 from its package instead of RoBERTa-base, so that a seed takes minutes on one CPU thread; the recipe
is otherwise the paper's: AdamW with betas (0.9, 0.98) and eps 1e-6, batch 16, 10 % linear warm-up, clipping at 5.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
    set_seed,
)

SEEDS = (1111, 2222, 3333, 4444, 5555, 6666, 7777, 8888, 9999, 1010)  # the paper's ten
SOUP_SIZE = 4
EPOCHS = {"old": 12, "target": 12, "new": 6}
LEARNING_RATE = 3e-4


def find_data(given: str | None) -> Path:
    """The data folder: `--data_dir`, or `../shared/data` beside the repository."""
    root = Path(given) if given else Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = root / "massive_bcwi"
    if not (folder / "labels.json").is_file():
        raise SystemExit(f"No MASSIVE split in {folder}: pass --data_dir, the folder that holds massive_bcwi/")
    return folder


class Massive:
    """The split, tokenized once; labels are numbered as `labels.json` orders them."""

    def __init__(self, folder: Path, pretrained: str):
        self.labels: list[str] = json.loads((folder / "labels.json").read_text())
        self.tokenizer = AutoTokenizer.from_pretrained(pretrained)
        self.collator = DataCollatorWithPadding(self.tokenizer)
        number = {name: i for i, name in enumerate(self.labels)}

        def read(part: str) -> Dataset:
            rows = [json.loads(line) for line in (folder / part).read_text().splitlines()]
            tokens = self.tokenizer([row["text"] for row in rows], truncation=True, max_length=64)
            labels = [number[row["label"]] for row in rows]
            return Dataset.from_dict({**tokens, "labels": labels, "id": [row["id"] for row in rows]})

        self.train = {"old": read("old/train.jsonl"), "new": read("updated/train.jsonl")}
        self.train["target"] = self.train["new"]
        self.dev, self.test = read("updated/dev.jsonl"), read("updated/test.jsonl")

    def fresh_model(self, folder: str | Path, seed: int) -> Any:
        set_seed(seed)
        names = dict(enumerate(self.labels))
        return AutoModelForSequenceClassification.from_pretrained(
            folder, num_labels=len(names), id2label=names, label2id={name: i for i, name in names.items()}
        )


def training_arguments(folder: Path, epochs: int, seed: int, **options: Any) -> dict[str, Any]:
    """The paper's recipe as keyword arguments, so that the baselines' own argument classes take the same."""
    settings: dict[str, Any] = {
        "output_dir": str(folder),
        "num_train_epochs": epochs,
        "learning_rate": LEARNING_RATE,
        "per_device_train_batch_size": 16,
        "per_device_eval_batch_size": 64,
        "adam_beta1": 0.9,
        "adam_beta2": 0.98,
        "adam_epsilon": 1e-6,
        "weight_decay": 0.01,
        "warmup_steps": 0.1,
        "max_grad_norm": 5.0,
        "optim": "adamw_torch_fused",
        "lr_scheduler_type": "linear",
        "seed": seed,
        "use_cpu": True,
        "save_strategy": "no",
        "eval_strategy": "no",
        "logging_strategy": "epoch",
        "report_to": "none",
        "disable_tqdm": True,
        "dataloader_num_workers": 0,
    }
    return {**settings, **options}


def train_cell(work: Path, seed: int, name: str, data: Massive, pretrained: str) -> Path:
    """Train `old`, `target` or `new-<k>` for one seed, unless its folder is already there; returns that folder."""
    folder = work / str(seed) / name
    if folder.exists():
        return folder
    kind, _, member = name.partition("-")
    start = work / str(seed) / "old" if kind == "new" else pretrained
    run_seed = seed + int(member or 0) + {"old": 0, "target": 500, "new": 1000}[kind]
    began = time.perf_counter()
    model = data.fresh_model(start, run_seed)
    partial = folder.with_name(f"{name}.partial-{os.getpid()}")
    arguments = TrainingArguments(**training_arguments(partial, EPOCHS[kind], run_seed))
    trainer = Trainer(model, arguments, data_collator=data.collator, train_dataset=data.train[kind])
    trainer.train()
    trainer.save_model(str(partial))
    data.tokenizer.save_pretrained(str(partial))
    (partial / "seconds.json").write_text(json.dumps({"train": time.perf_counter() - began}))
    if folder.exists():  # another process was quicker
        shutil.rmtree(partial)
        return folder
    partial.rename(folder)
    print(f"{seed}/{name}: trained in {time.perf_counter() - began:.0f} s", flush=True)
    return folder


@torch.inference_mode()
def logits_of(model: Any, data: Massive, dataset: Dataset, batch_size: int = 64) -> np.ndarray:
    """float32 logits in the dataset's order, batched by length so that padding costs nothing."""
    model.eval()
    tokens = dataset.remove_columns(["id", "labels"])
    order = np.argsort([len(row) for row in tokens["input_ids"]], kind="stable")
    out = np.empty((len(order), len(data.labels)), dtype=np.float32)
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        out[rows] = model(**data.collator([tokens[int(i)] for i in rows])).logits.float().numpy()
    return out
