"""`hf-pct demo`: two updates, one of a text model and one of an image model, and what they break.

Each is told in the same way: train the old model, train the new one on more data, run both over the same test set,
count the flips, and hold them against a gate.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from datasets import DatasetDict

from ..compare_files import REPORT_JSON, REPORT_MARKDOWN, write_comparison
from ..flips.compare import compare
from ..flips.gate import GateConfig, check_gate
from ..flips.gate_output import gate_text
from ..flips.markdown import percent
from ..flips.report import FlipReport
from ..predict import predict
from .digits import digit_splits, new_digit_model
from .intents import intent_splits, new_intent_model
from .packages import intents_path, minilm_path
from .quiet import quiet
from .train import fine_tune

MARKER = ".hf_pct_demo"
GATE = GateConfig(max_nfr=0.01, max_nfr_upper=0.02, min_accuracy_gain=0.0)


@dataclass(frozen=True)
class Update:
    """One update to show: the data, the model that is trained on it twice, and how."""

    name: str
    title: str
    splits: DatasetDict
    new_model: Callable[[int], tuple[Any, Any]]
    epochs: int
    learning_rate: float
    keep_columns: tuple[str, ...] = ()


def run_demo(output_dir: str | Path = "hf_pct_demo", seed: int = 0, quick: bool = False) -> int:
    """Train, compare and explain. `quick` hardly trains at all: it shows that everything runs, not what flips.

    Writes only into `output_dir`, and refuses a folder that holds anything else than an earlier demo.
    """
    started = time.perf_counter()
    for find in (intents_path, minilm_path):
        find()  # say that a package is missing before the work, not in the middle of it
    folder = _claim(Path(output_dir))
    updates = [_intents(seed), _digits(seed)]
    if quick:
        updates = [_shorten(update) for update in updates]
        _say("Quick: the models are hardly trained, so the numbers below mean nothing.\n")
    _say(
        "What does an update break? Two models are updated here, each in the usual way: more data, trained again.\n"
        "Accuracy says how much better they get. The flips say what worked before and does not any more."
    )
    with _one_thread():
        reports = [_tell(number, update, folder / update.name, seed) for number, update in enumerate(updates, start=1)]
    _say("\n--- 3. The gate: would a release with these limits go out?\n")
    for report in reports:
        _say(gate_text(check_gate(report, GATE), report) + "\n")
    _say(_what_next(folder, time.perf_counter() - started))
    return 0


def _intents(seed: int) -> Update:
    splits = intent_splits(seed=seed)
    names = splits["test"].features["label"].names
    title = (
        "A voice assistant: {classes} intents of a real grammar, MiniLM fine-tuned on {old} sentences, then on {new}"
    )
    return Update("intents", title, splits, lambda s: new_intent_model(names, s), 4, 6e-4, ("text", "domain"))


def _digits(seed: int) -> Update:
    title = "Handwritten digits: a small timm ResNet trained on {old} images, then on {new}"
    return Update("digits", title, digit_splits(seed=seed), new_digit_model, 10, 3e-3)


def _shorten(update: Update) -> Update:
    rows = {"old_train": 64, "new_train": 96, "test": 200}
    splits = DatasetDict({part: update.splits[part].select(range(most)) for part, most in rows.items()})
    return replace(update, splits=splits, epochs=1)


def _tell(number: int, update: Update, folder: Path, seed: int) -> FlipReport:
    """One update from training to report. The new model is trained from the start again, with a seed of its own."""
    sizes = {side: len(update.splits[f"{side}_train"]) for side in ("old", "new")}
    classes = update.splits["test"].features["label"].num_classes
    _say(f"\n--- {number}. {update.title.format(classes=classes, **sizes)}\n")
    folder.mkdir(exist_ok=True)
    test = update.splits["test"]
    predictions = {}
    for offset, side in enumerate(("old", "new")):
        name = f"{update.name} {side}"
        model, processor = update.new_model(seed + offset)
        fine_tune(
            model,
            processor,
            update.splits[f"{side}_train"],
            folder / side,
            seed=seed + offset,
            epochs=update.epochs,
            learning_rate=update.learning_rate,
            description=f"train {name}",
        )
        with quiet():
            predictions[side] = predict(
                folder / side,
                test,
                keep_columns=update.keep_columns,
                name=name,
                dataset_name=f"{update.name} test",
                use_cache=False,
            )
    report = compare(predictions["old"], predictions["new"])
    write_comparison(folder, report, predictions["old"], predictions["new"], overwrite=True)
    with quiet():
        test.to_parquet(folder / "test.parquet")
    _say("\n" + report.to_text())
    _show_broken(report)
    return report


def _show_broken(report: FlipReport, most: int = 5) -> None:
    """The rows that a user of the old model would complain about first: those that it was surest of."""
    broken = [row for row in report.flips.to_pylist() if row["kind"] == "negative" and row.get("text")]
    if not broken:
        return
    broken.sort(key=lambda row: -row["old_confidence"])
    _say("\nright yesterday, wrong today (the old model was surest of these):")
    for row in broken[:most]:
        sure = percent(row["old_confidence"], 0)
        _say(f"  {row['text']!r}: {row['label']} ({sure} sure) -> {row['new_answer']}")


def _what_next(folder: Path, seconds: float) -> str:
    text, image = folder / "intents", folder / "digits"
    return f"""--- Done in {seconds:.0f} s. What to look at next

Read    {text / REPORT_MARKDOWN}: flips by intent and by domain, and what is mistaken for what
        {image / REPORT_MARKDOWN}
Gate    hf-pct gate {text / REPORT_JSON} --max_nfr 0.05 --max_class_nfr 0.2; echo exit code $?
Repeat  hf-pct compare {text / "old"} {text / "new"} --dataset {text / "test.parquet"}
Files   hf-pct compare --old_predictions {image / "old_predictions.parquet"} \\
            --new_predictions {image / "new_predictions.parquet"}
Yours   hf-pct compare OLD_MODEL NEW_MODEL --dataset YOUR_TEST_SET --output_dir out"""


@contextmanager
def _one_thread() -> Iterator[None]:
    """Models this small gain little from a second thread, and beside a busy neighbour two are far slower than one."""
    threads = torch.get_num_threads()
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _claim(folder: Path) -> Path:
    """The folder, made and marked as the demo's; refuses one that holds a person's own files."""
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"{folder} is a file, expected a folder for the demo. Choose another: --output_dir.")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARKER).exists():
        raise FileExistsError(
            f"{folder} is not empty and was not made by hf-pct demo, so it is left as it is. Choose another folder "
            "with --output_dir."
        )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARKER).write_text("Made by hf-pct demo, which may overwrite what it wrote here.\n", encoding="utf-8")
    return folder


def _say(text: str) -> None:
    print(text, flush=True)
    sys.stderr.flush()
