"""Pairs of image models, trained and merged by `hf-pct update` itself: BatchNorm models obey another law than encoders.

    python -m benchmarks.selection --pairs         # these too; needs make bench-packages for the photos
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import ROOT
from benchmarks.selection.curves import PAIRS_FILE
from benchmarks.tables.store import Answers, read_answers, write_answers
from benchmarks.updates.__main__ import train_old
from benchmarks.updates.cases import CIFAR, PHOTOS, UpdateCase, load_parts
from hf_pct.flips.choice.curve import AlphaCurve

DIGITS = {**CIFAR, "learning_rate": 0.05, "per_device_train_batch_size": 32}
DIGITS_ON = {**DIGITS, "learning_rate": 0.02}
IMAGE_PAIRS: dict[str, UpdateCase] = {
    "digits": UpdateCase("digits", 150, 240, "resnet10", None, 30, 12, DIGITS_ON, 1400, old_recipe=DIGITS),
    "photos": UpdateCase("grocery_store", 400, 600, "lite0", None, 3, 2, PHOTOS, 1200),
}
"""None of these images is in the updates that the choice is judged on, which have CIFAR-10 and another pair of models."""


def run_image_pair(name: str, case: UpdateCase, seed: int) -> None:
    """Train the pair, unless its answers are there, and keep what it gets right along alpha."""
    cell = f"{name}-{seed}"
    if (cell, "old") in read_answers(PAIRS_FILE):
        return
    curve = measure_pair(case, seed, cell)
    rows = np.arange(curve.total)
    lines = {(cell, "old"): curve.old_correct} | {
        (cell, f"alpha-{alpha:g}"): right for alpha, right in zip(curve.alphas, curve.correct, strict=True) if alpha < 1
    }
    write_answers(
        PAIRS_FILE,
        {
            **read_answers(PAIRS_FILE),
            **{
                key: Answers(rows, np.ones_like(rows), right.astype(int), np.arange(2), 0.0)
                for key, right in lines.items()
            },
        },
    )
    print(f"{cell}: old {curve.old_correct.mean():.4f}, new {curve.accuracy[0]:.4f}", flush=True)


def measure_pair(case: UpdateCase, seed: int, cell: str) -> AlphaCurve:
    """One plain training from the old model, merged along alpha, on the test rows."""
    from hf_pct.models.load import load_model
    from hf_pct.update import update
    from hf_pct.update.candidates import measure
    from hf_pct.update.inputs.data import read_data

    work = ROOT / "build" / "pairs" / cell
    work.mkdir(parents=True, exist_ok=True)
    parts, columns = image_parts(case, seed), {"label_column": "label"}
    old = train_old(case, parts, work, seed)
    result = update(
        old, parts["new"], parts["dev"], methods=["plain"], training={**case.recipe, "num_train_epochs": case.new_epochs},
        candidates_dir=work / "candidates", allow_missing_classes=True, seed=100 * seed, progress=False, columns=columns,
    )  # fmt: skip
    test = parts["test"]
    rows = read_data(load_model(old), {"train": test, "dev": test, "test": None}, columns, True)[0].train
    if result.workshop is None:
        raise RuntimeError("An update that was run has a workshop.")
    return measure(result.workshop, result.candidates[0].recipes, rows).curve


def image_parts(case: UpdateCase, seed: int) -> dict[str, Any]:
    if case.data != "digits":
        return load_parts(case, seed)
    from hf_pct.demo.digits import digit_splits

    splits = digit_splits(case.old_rows, case.new_rows, case.test_rows + 100, seed)
    test = splits["test"]
    return {
        "old": splits["old_train"], "new": splits["new_train"], "dev": test.select(range(100)),
        "test": test.select(range(100, len(test))),
    }  # fmt: skip
