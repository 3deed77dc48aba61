"""What is run on each family of models, and the page that says what came of it: `make docs-models` writes it."""

from __future__ import annotations

import logging
import sys
import tempfile
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import torch
from support_families import FAMILIES, NAMES, WORDS, Family
from transformers import DataCollatorWithPadding, DefaultDataCollator

import hf_pct
from hf_pct.merging.checkpoints.stream import merge_checkpoints
from hf_pct.models.fisher.diagonal import diagonal_fisher
from hf_pct.models.load import ask, load_model

PAGE = Path(__file__).parent.parent / "docs" / "models.md"
COLUMNS = ("predict", "one step of focal distillation", "merge", "Fisher")
ROWS = 6
ABOVE = """# Models that work

<!-- written by `make docs-models`; tests/test_support_matrix.py holds it current -->

Tiny random models of {families} families, each saved to a folder and run through `predict`, one training step of
`FocalDistillTrainer` against an old model of the same family, a merge of two folders at alpha 0.5, and the diagonal
Fisher. The table is what came of it; `tests/test_support_matrix.py` runs it again.

"""
BELOW = """

What else `predict`, `compare` and `old_model=` take: a bare timm model (give `label_names=`, or `old_label_names=` for
an old model, if it does not say its classes), a folder with a PEFT adapter, an ensemble, and for `predict` anything
that answers a list of rows with labels or scores: a transformers pipeline, a sentence-transformers `CrossEncoder`, a
SetFit or scikit-learn model, a function that asks an endpoint.

What is refused, with a sentence that says why: a checkpoint without a trained head (a base encoder, a token
classifier), multi-label and regression models, pickled weights, a decoder without a padding token, sounds at another
rate than the model's.

A family that is not in the table may work as well. To try one, add a line to `tests/support_families.py` and run
`make docs-models`.
"""


def check(family: Family, folder: Path) -> list[str]:
    """The cells of one family: what worked, in a word."""
    old, new, processor = family.make(0), family.make(1), family.processor()
    for name, model in (("old", old), ("new", new)):
        model.save_pretrained(folder / name)
        processor.save_pretrained(folder / name)
    raw = raw_rows(family)
    ready = load_model(str(folder / "old"))
    return [
        _predict(folder, raw, ready),
        _step(family, folder, old, new, raw, ready),
        _merge(folder, raw, has_statistics=any("running_mean" in name for name in old.state_dict())),
        _fisher(ready, raw),
    ]


def raw_rows(family: Family) -> datasets.Dataset:
    """A few texts, pictures or sounds."""
    random = np.random.default_rng(0)
    labels = [NAMES[number % len(NAMES)] for number in range(ROWS)]
    if family.kind == "text":
        texts = [" ".join(random.choice(WORDS, random.integers(2, 8))) for _ in labels]
        return datasets.Dataset.from_dict({"text": texts, "label": labels})
    if family.kind == "audio":
        sounds = [random.normal(size=random.integers(800, 1200)).astype("float32") for _ in labels]
        return datasets.Dataset.from_dict({"audio": sounds, "label": labels})
    pictures = [random.integers(0, 255, (20, 20, 3), dtype=np.uint8) for _ in labels]
    features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("string")})
    return datasets.Dataset.from_dict({"image": pictures, "label": labels}, features=features)


def _column(data: datasets.Dataset) -> list[Any]:
    return list(data[next(name for name in data.column_names if name != "label")])


def _predict(folder: Path, raw: datasets.Dataset, ready: Any) -> str:
    """The table is what one row at a time gives, and the second time it comes from the cache."""
    options = {"progress": False, "cache_dir": folder / "cache", "batch_size": 4}
    table = hf_pct.predict(str(folder / "old"), raw, **options)
    model = ready.model.eval()
    with torch.no_grad():
        alone = [ask(model, ready.task.collate(ready.task.prepare([value]))) for value in _column(raw)]
    assert np.allclose(table.logits, torch.cat(alone).numpy(), atol=1e-3)
    assert len(np.unique(table.logits.round(4), axis=0)) > 1
    again = hf_pct.predict(str(folder / "old"), raw, **options)
    assert np.array_equal(table.logits, again.logits)
    kept = list((folder / "cache").rglob("*.safetensors"))
    return "yes, cached" if len(kept) == 1 else "yes, not cached"


def _step(family: Family, folder: Path, old: Any, new: Any, raw: datasets.Dataset, ready: Any) -> str:
    from training_kit import arguments

    from hf_pct.training import FocalDistillTrainer

    labels = [NAMES.index(label) for label in raw["label"]]
    prepared = ready.task.prepare(_column(raw))
    if family.kind == "audio":
        prepared = [{"input_values": ready.task.collate([row])["input_values"][0]} for row in prepared]
        shortest = min(len(row["input_values"]) for row in prepared)
        prepared = [{"input_values": row["input_values"][:shortest]} for row in prepared]
    rows = [{**row, "labels": label} for row, label in zip(prepared, labels, strict=True)]
    collate: Any = DataCollatorWithPadding(ready.processor) if family.kind == "text" else DefaultDataCollator()
    before = {name: value.detach().clone() for name, value in new.named_parameters()}
    args = arguments(folder / "run", max_steps=1, learning_rate=1e-4, remove_unused_columns=False)
    trainer = FocalDistillTrainer(new, args, train_dataset=rows, old_model=old, data_collator=collate)
    trainer.train()
    losses = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert np.isfinite(losses[-1]["loss"])
    assert len([name for name in losses[-1] if name.startswith("loss_")]) == 2  # cross-entropy, and the old model's
    assert any(not torch.equal(value, before[name]) for name, value in new.named_parameters())
    return "yes, old model live" if trainer.source.live else "yes, logits cached"


def _merge(folder: Path, raw: datasets.Dataset, has_statistics: bool) -> str:
    """The ends are the models themselves, and the middle answers."""
    merge_checkpoints(str(folder / "old"), [str(folder / "new")], folder / "merged", alpha=0.5, progress=False)
    tables = [
        hf_pct.predict(str(folder / name), raw, progress=False, use_cache=False) for name in ("old", "new", "merged")
    ]
    assert np.isfinite(tables[2].logits).all()
    assert not np.allclose(tables[2].logits, tables[0].logits)
    return "yes, BatchNorm needs training rows" if has_statistics else "yes"


def _fisher(ready: Any, raw: datasets.Dataset) -> str:
    batch = ready.task.collate(ready.task.prepare(_column(raw)))
    messages: list[str] = []
    logger = logging.getLogger("hf_pct.models.fisher")
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    try:
        fisher = diagonal_fisher(ready.model, [batch])
    finally:
        logger.removeHandler(handler)
    assert all(torch.isfinite(value).all() and (value >= 0).all() for value in fisher.values())
    assert any((value > 0).any() for value in fisher.values())
    return "yes, some layers alone" if messages else "yes, in batches"


def row_of(family: Family, cells: list[str]) -> str:
    reads = "image" if family.kind == "timm" else family.kind.removesuffix("32")
    return f"| {family.name} | {reads} | {' | '.join(cells)} |"


def render(rows: list[str]) -> str:
    """The page."""
    table = [f"| family | reads | {' | '.join(COLUMNS)} |", f"|{'---|' * (len(COLUMNS) + 2)}", *rows]
    return ABOVE.format(families=len(FAMILIES)) + "\n".join(table) + BELOW


def main() -> None:
    sys.path.insert(0, str(Path(__file__).parent / "training"))
    rows = []
    for family in FAMILIES:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(row_of(family, check(family, Path(folder))))
        print(rows[-1], flush=True)
    PAGE.write_text(render(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
