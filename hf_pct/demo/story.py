"""`hf-pct demo`: three updates, one of a text model and two of image models: what they break, and what helps.

Each chapter trains the old model and the new one in the usual way, counts the flips, then does the same with the kit,
and ends in one table. Strengths are chosen on development rows by the kit, and every treatment is held against the
best plain model. Last, the gate.
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

from ..flips.comparison_files import REPORT_JSON
from ..flips.gate.reports import check_gate
from ..flips.render.gate import gate_text
from ..flips.report import FlipReport
from .packages import intents_path, minilm_path
from .telling import ANEW, CANDIDATES_PAGE, GATE, PAGE, Telling, say
from .updates import digits_update, intents_update, students_update
from .words import INTRODUCTION, WHY_TAUGHT

MARKER = ".hf_pct_demo"


def run_demo(output_dir: str | Path = "hf_pct_demo", seed: int = 0, quick: bool = False) -> int:
    """Train, compare and explain. `quick` hardly trains at all: it shows that everything runs, not what flips.

    Writes only into `output_dir`, and refuses a folder that holds anything else than an earlier demo.
    """
    started = time.perf_counter()
    for find in (intents_path, minilm_path):
        find()  # say that a package is missing before the work, not in the middle of it
    folder = _claim(Path(output_dir))
    updates = [intents_update(seed), digits_update(seed), students_update(seed)]
    if quick:
        updates = [update.shortened() for update in updates]
        say("Quick: the models are hardly trained, so the numbers below mean nothing.\n")
    say(INTRODUCTION)
    with _one_thread(), _own_cache(folder / "cache"):
        intents, digits, students = (Telling(update, folder / update.name, seed) for update in updates)
        say(f"\n--- 1. {intents.update.headline()}\n")
        intents.update_as_usual()
        intents.show_what_broke()
        intents.update_from_old()
        intents.update_by_contract()
        say(f"\n--- 2. {digits.update.headline()}\n")
        say(WHY_TAUGHT)
        digits.update_as_usual()
        digits.update_by_contract()
        say(f"\n--- 3. {students.update.headline()}\n")
        students.update_as_usual()
        students.update_from_old()
        students.hold_near_members()
    say("\n--- 4. The gate: which of them would go out with these limits?\n")
    for telling in (intents, digits, students):
        for method, report in telling.reports.items():
            say(f"{telling.update.name + ', ' + method:<30} {_judgement(report)}")
    usual = intents.reports[ANEW]
    say(f"\nThe first of them in full:\n\n{gate_text(check_gate(usual, GATE), usual)}\n")
    for telling in (intents, digits):
        say(f"{telling.update.name}: {check_gate(telling.candidates(), GATE).headline()}")
    say(_what_next(folder, time.perf_counter() - started))
    return 0


def _judgement(report: FlipReport) -> str:
    failed = [result.rule for result in check_gate(report, GATE).results if not result.passed]
    return f"REGRESSED: {', '.join(failed)}" if failed else "PASSED"


def _what_next(folder: Path, seconds: float) -> str:
    text, image, students = folder / "intents", folder / "digits", folder / "students"
    # after `make demo` the command is in .venv, not on the path
    program = "hf-pct" if shutil.which("hf-pct") else sys.argv[0]
    return f"""
--- Done in {seconds:.0f} s. What to look at next

Open    {text / PAGE} in a browser: every sentence that the usual update flips, by intent, with search
        {text / CANDIDATES_PAGE}: the three new models beside each other
        {image / "updated_flips" / PAGE}: the digits, with their images
Gate    {program} gate {text / REPORT_JSON} --max_nfr 0.05 --max_class_nfr 0.2; echo exit code $?
Repeat  {program} compare {text / "old"} {text / "v2"} --dataset {text / "test.parquet"}
Files   {program} compare --old_predictions {image / "old_predictions.parquet"} \\
            --new_predictions {image / "new_predictions.parquet"}
Members {program} compare {students / "elodi" / "old" / "members"} {students / "elodi" / "new" / "members"} \\
            --dataset {students / "test.parquet"}

With a model of your own, this one command trains, merges and chooses the next version, and shows what it breaks:

Yours   {program} update --old_model YOUR_MODEL --train_file train.jsonl --validation_file dev.jsonl \\
            --margin 0.005 --output_dir v2"""


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


@contextmanager
def _own_cache(folder: Path) -> Iterator[None]:
    """Answers of models are kept in the demo's folder and nowhere else."""
    before = os.environ.get("HF_PCT_CACHE")
    os.environ["HF_PCT_CACHE"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["HF_PCT_CACHE"]
        else:
            os.environ["HF_PCT_CACHE"] = before


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
