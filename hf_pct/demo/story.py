"""`hf-pct demo`: two updates, one of a text model and one of an image model: what they break, and what helps.

Each is shown in the same way: train the old model, train the new one on more data, count the flips. Then the same data
again, starting from the old model: plain, and with focal distillation. The text model is also merged back toward the
old one, and both versions of the image model are trained with ELODI. Last, the gate.
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

from ..flips.comparison_files import REPORT_JSON, REPORT_MARKDOWN
from ..flips.gate import check_gate
from ..flips.render.gate import gate_text
from ..flips.report import FlipReport
from .packages import intents_path, minilm_path
from .telling import GATE, PAGE, Telling, say
from .updates import digits_update, intents_update

MARKER = ".hf_pct_demo"


def run_demo(output_dir: str | Path = "hf_pct_demo", seed: int = 0, quick: bool = False) -> int:
    """Train, compare and explain. `quick` trains very little: it shows that everything runs, not what flips.

    Writes only into `output_dir`, and refuses a folder that holds anything else than an earlier demo.
    """
    started = time.perf_counter()
    for find in (intents_path, minilm_path):
        find()  # say that a package is missing before the work, not in the middle of it
    folder = _claim(Path(output_dir))
    updates = [intents_update(seed), digits_update(seed)]
    if quick:
        updates = [update.shortened() for update in updates]
        say("Quick: the models are hardly trained, so the numbers below mean nothing.\n")
    say(
        "What does an update break? Two models are updated here, each in the usual way: more data, trained again.\n"
        "Accuracy says how much better they get. The flips say what worked before and does not any more."
    )
    with _one_thread():
        intents = Telling(updates[0], folder / updates[0].name, seed)
        digits = Telling(updates[1], folder / updates[1].name, seed)
        for number, telling in enumerate((intents, digits), start=1):
            say(f"\n--- {number}. {telling.update.headline()}\n")
            telling.update_as_usual()
            telling.update_from_old()
        say("\n--- 3. The intents again: the model that was fine-tuned from the old one, merged back toward it\n")
        intents.merge_back()
        say("\n--- 4. The digits again: both versions with ELODI, ready for an update that nobody knows yet\n")
        digits.hold_near_members()
    say("\n--- 5. The gate: which of them would go out with these limits?\n")
    for telling in (intents, digits):
        for method, report in telling.reports.items():
            say(f"{telling.update.name + ', ' + method:<30} {_judgement(report)}")
    usual = intents.reports["trained anew"]
    say(f"\nThe first of them in full:\n\n{gate_text(check_gate(usual, GATE), usual)}\n")
    say(_what_next(folder, time.perf_counter() - started))
    return 0


def _judgement(report: FlipReport) -> str:
    failed = [result.rule for result in check_gate(report, GATE).results if not result.passed]
    return f"REGRESSED: {', '.join(failed)}" if failed else "PASSED"


def _what_next(folder: Path, seconds: float) -> str:
    text, image = folder / "intents", folder / "digits"
    elodi = image / "elodi"
    # after `make demo` the command is in .venv, not on the path
    program = "hf-pct" if shutil.which("hf-pct") else sys.argv[0]
    return f"""--- Done in {seconds:.0f} s. What to look at next

Open    {text / PAGE} in a browser: every flipped sentence, by intent, with search and filters
        {text / "merged_flips" / PAGE}: the merged model, with its alpha curve
        {image / PAGE}: the digits, with their images
        {elodi / PAGE}: the two ELODI students
Read    {text / REPORT_MARKDOWN}: flips by intent and by domain, and what is mistaken for what
        {text / "alpha_curve.md"}: accuracy and flips along alpha
        {image / REPORT_MARKDOWN}
Gate    {program} gate {text / REPORT_JSON} --max_nfr 0.05 --max_class_nfr 0.2; echo exit code $?
Repeat  {program} compare {text / "old"} {text / "new"} --dataset {text / "test.parquet"}
Files   {program} compare --old_predictions {image / "old_predictions.parquet"} \\
            --new_predictions {image / "new_predictions.parquet"}
Members {program} compare {elodi / "old" / "members"} {elodi / "new" / "members"} \\
            --dataset {image / "test.parquet"}
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
