"""`hf-pct demo`: two updates, one of a text model and one of an image model: what they break, and what helps.

Each is told in the same way: train the old model, train the new one on more data, count the flips. Then the same data
again, starting from the old model: plain, and with focal distillation. The text model is also merged back toward the
old one. Last, the gate.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from ..compare_files import REPORT_JSON, REPORT_MARKDOWN, write_comparison
from ..files import write_text
from ..flips.compare import compare
from ..flips.gate import GateConfig, check_gate
from ..flips.gate_output import gate_text
from ..flips.markdown import percent
from ..flips.predictions import Predictions
from ..flips.report import FlipReport
from ..predict import predict
from ..tasks import load_model
from ..viz.page import write_page
from .packages import intents_path, minilm_path
from .quiet import quiet
from .train import fine_tune, merge_by_contract
from .updates import Update, digits_update, intents_update

MARKER = ".hf_pct_demo"
GATE = GateConfig(max_nfr=0.01, max_nfr_upper=0.02, min_accuracy_gain=0.0)
MARGIN = 0.005
PAGE = "update.html"


def run_demo(output_dir: str | Path = "hf_pct_demo", seed: int = 0, quick: bool = False) -> int:
    """Train, compare and explain. `quick` hardly trains at all: it shows that everything runs, not what flips.

    Writes only into `output_dir`, and refuses a folder that holds anything else than an earlier demo.
    """
    started = time.perf_counter()
    for find in (intents_path, minilm_path):
        find()  # say that a package is missing before the work, not in the middle of it
    folder = _claim(Path(output_dir))
    updates = [intents_update(seed), digits_update(seed)]
    if quick:
        updates = [update.shortened() for update in updates]
        _say("Quick: the models are hardly trained, so the numbers below mean nothing.\n")
    _say(
        "What does an update break? Two models are updated here, each in the usual way: more data, trained again.\n"
        "Accuracy says how much better they get. The flips say what worked before and does not any more."
    )
    with _one_thread():
        intents = Telling(updates[0], folder / updates[0].name, seed)
        digits = Telling(updates[1], folder / updates[1].name, seed)
        for number, telling in enumerate((intents, digits), start=1):
            _say(f"\n--- {number}. {telling.update.headline()}\n")
            telling.update_as_usual()
            telling.update_from_old()
        _say("\n--- 3. The intents again: the model that was fine-tuned from the old one, merged back toward it\n")
        intents.merge_back()
    _say("\n--- 4. The gate: which of them would go out with these limits?\n")
    for telling in (intents, digits):
        for method, report in telling.reports.items():
            _say(f"{telling.update.name + ', ' + method:<30} {_judgement(report)}")
    usual = intents.reports["trained anew"]
    _say(f"\nThe first of them in full:\n\n{gate_text(check_gate(usual, GATE), usual)}\n")
    _say(_what_next(folder, time.perf_counter() - started))
    return 0


class Telling:
    """One update, told step by step; what the steps leave is in its folder."""

    def __init__(self, update: Update, folder: Path, seed: int) -> None:
        self.update, self.folder, self.seed = update, folder, seed
        self.test = update.splits["test"]
        self.reports: dict[str, FlipReport] = {}
        self.predictions: dict[str, Predictions] = {}
        folder.mkdir(exist_ok=True)

    def update_as_usual(self) -> None:
        """Old and new model, trained from the start each, and the report of what the new one broke."""
        self._fine_tune("old", self.seed)
        self._fine_tune("new", self.seed + 1)
        report = self._compare("trained anew", "new", self.folder)
        with quiet():
            self.test.to_parquet(self.folder / "test.parquet")
        self._write_page(self.folder, report)
        _say("\n" + report.to_text())
        _show_broken(report)

    def update_from_old(self) -> None:
        """The same data, starting from the old model: with `Trainer`, and with `FocalDistillTrainer` in its place."""
        _say("\nThe same data, but starting from the old model: plain, and held near it by focal distillation.\n")
        self._fine_tune("tuned", self.seed + 2, start=self.folder / "old")
        self._compare("fine-tuned from old", "tuned", self.folder / "tuned_flips")
        self._fine_tune("focal", self.seed + 2, start=self.folder / "old", old_model=self.folder / "old")
        self._compare("+ focal distillation", "focal", self.folder / "focal_flips")
        _say("\n" + self.side_by_side())

    def merge_back(self) -> None:
        """Sweep alpha on development rows, and keep the merged model that the contract chooses."""
        development, folder = self.update.splits["development"], self.folder / "merged"
        merger = merge_by_contract(self.folder / "old", self.folder / "tuned", development, folder, MARGIN)
        sweep, chosen = merger.last_sweep, merger.selection
        if sweep is None or chosen is None:
            raise RuntimeError("The merger has no sweep; merge() makes one.")
        write_text(self.folder / "alpha_curve.md", sweep.to_markdown() + "\n", overwrite=True)
        _say(f"{'alpha':>7}  {'accuracy':>9}  {'NFR':>7}   (alpha is the share of the old model)")
        for row in sweep.curve.table():
            mark = "  <- chosen" if row["alpha"] == chosen.alpha else ""
            _say(f"{row['alpha']:>7.1f}  {percent(row['accuracy']):>9}  {percent(row['nfr']):>7}{mark}")
        _say(f"on {len(development)} development rows; {chosen.reason}\n")
        self._predict("merged", folder)
        report = self._compare("+ merged back", "merged", self.folder / "merged_flips")
        self._write_page(self.folder / "merged_flips", report, curve=str(folder / "pct_merge.json"))
        _say(self.side_by_side())

    def side_by_side(self) -> str:
        """Every treatment so far, on the same test rows against the same old model."""
        rows = [(f"{self.update.name} test, {len(self.test)} rows", "accuracy", "NFR", "relative NFR")]
        for method, report in self.reports.items():
            counts = report.counts
            relative = percent(counts.relative_nfr, 1)
            rows.append((method, percent(counts.new_accuracy), percent(counts.nfr), relative))
        return "\n".join(f"{name:<26}{accuracy:>10}{nfr:>10}{relative:>15}" for name, accuracy, nfr, relative in rows)

    def _fine_tune(self, side: str, seed: int, start: Path | None = None, old_model: Path | None = None) -> None:
        """Train one model from its initial weights, or for half as long and half as fast from those of `start`."""
        update = self.update
        if start is None:
            model, processor = update.new_model(seed)
        else:
            with quiet():
                loaded = load_model(start)
            model, processor = loaded.model, loaded.processor
        fine_tune(
            model,
            processor,
            update.splits["old_train" if side == "old" else "new_train"],
            self.folder / side,
            seed=seed,
            epochs=update.epochs if start is None else max(update.epochs // 2, 1),
            learning_rate=update.learning_rate if start is None else update.learning_rate / 2,
            old_model=old_model,
            focal_weight=update.focal_weight,
            description=f"train {update.name} {side}",
        )
        self._predict(side, self.folder / side)

    def _predict(self, side: str, folder: Path) -> None:
        with quiet():
            self.predictions[side] = predict(
                folder,
                self.test,
                keep_columns=self.update.keep_columns,
                name=f"{self.update.name} {side}",
                dataset_name=f"{self.update.name} test",
                use_cache=False,
            )

    def _write_page(self, folder: Path, report: FlipReport, curve: str | None = None) -> None:
        images = self.test if "image" in self.test.column_names else None
        gate = check_gate(report, GATE)
        write_page(folder / PAGE, report, gate=gate, curve=curve, images=images, overwrite=True)

    def _compare(self, method: str, side: str, folder: Path) -> FlipReport:
        old, new = self.predictions["old"], self.predictions[side]
        report = self.reports[method] = compare(old, new)
        write_comparison(folder, report, old, new, overwrite=True)
        return report


def _judgement(report: FlipReport) -> str:
    failed = [each.rule for each in check_gate(report, GATE).results if not each.passed]
    return f"REGRESSED: {', '.join(failed)}" if failed else "PASSED"


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
    # after `make demo` the command is in .venv, not on the path
    program = "hf-pct" if shutil.which("hf-pct") else sys.argv[0]
    return f"""--- Done in {seconds:.0f} s. What to look at next

Open    {text / PAGE} in a browser: every flipped sentence, by intent, with search and filters
        {text / "merged_flips" / PAGE}: the merged model, with its alpha curve
        {image / PAGE}: the digits, with their images
Read    {text / REPORT_MARKDOWN}: flips by intent and by domain, and what is mistaken for what
        {text / "alpha_curve.md"}: accuracy and flips along alpha
        {image / REPORT_MARKDOWN}
Gate    {program} gate {text / REPORT_JSON} --max_nfr 0.05 --max_class_nfr 0.2; echo exit code $?
Repeat  {program} compare {text / "old"} {text / "new"} --dataset {text / "test.parquet"}
Files   {program} compare --old_predictions {image / "old_predictions.parquet"} \\
            --new_predictions {image / "new_predictions.parquet"}
Merge   {program} merge {text / "old"} {text / "merged"} --alpha 0.5 --output_dir half_way
Yours   {program} compare OLD_MODEL NEW_MODEL --dataset YOUR_TEST_SET --output_dir out"""


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
