"""What an update writes: the model, the record that makes it again, the flip report, the page and the card."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..core.decode import JsonObject
from ..core.files import whole_folder, write_text
from ..flips.choice.certify import split_rows
from ..flips.compare import compare
from ..flips.comparison_files import write_comparison
from ..flips.tables.predictions import Predictions
from ..hub.card.text import make_card
from ..hub.public_report import public_report
from ..merging.checkpoints.record import versions
from ..merging.checkpoints.stream import merge_checkpoints
from ..models.ensembles.fused import save_fused
from ..policies.fusion import at_strength
from .candidates import Measured, make_merger
from .policy_candidates import FUSION, decided_answers, ratio_at
from .processes import is_main, wait
from .run import Update
from .training import RECORD as CANDIDATE_RECORD
from .training import Workshop

PROCESSES = int(os.environ.get("WORLD_SIZE", "1"))
RECORD, PAGE, CARD, POLICY, DECIDED = (
    "pct_update.json",
    "update.html",
    "README.md",
    "pct_policy.json",
    "decided.parquet",
)
NEW_PART = "new"
"""Where the new model of a fused pair lies in the written folder."""


def write_update(result: Update, workshop: Workshop, folder: Path) -> Update:
    """Write everything; the folder appears whole."""
    point, chosen = result.shipped, result.chosen
    if point is None:
        raise ValueError("There is nothing to write: no candidate was measured.")
    shipped = workshop.folder / f".shipped-{os.getppid() if PROCESSES > 1 else os.getpid()}"
    if is_main():
        shutil.rmtree(shipped, ignore_errors=True)
        shipped.mkdir(parents=True)
        _write_model(chosen, point.alpha, workshop, shipped)
    wait()
    judged = workshop.data.test or workshop.data.dev
    old = workshop.old_answers(judged)
    new = _shipped_answers(result, workshop, shipped)
    place = f"./{folder}" if folder.parts and folder.parts[0] not in ("/", ".", "..") else str(folder)
    new.provenance = replace(new.provenance, model=place)  # where it will be, not where it was put together
    result = replace(result, report=compare(old, new), folder=folder)
    if is_main():
        with whole_folder(folder) as partial:
            for path in shipped.iterdir():
                shutil.move(path, partial / path.name)
            if chosen.policy and workshop.tables:
                _write_policy(result, new, partial)
            _write_files(result, workshop, partial)
            write_comparison(partial, compare(old, new), old, new, overwrite=True)
        shutil.rmtree(shipped)
    wait()
    return result


def _shipped_answers(result: Update, workshop: Workshop, folder: Path) -> Predictions:
    """What the written model answers to the rows that are judged."""
    judged = workshop.data.test or workshop.data.dev
    new = workshop.answers(str(folder), judged)
    if not (result.chosen.policy and workshop.tables) or result.shipped is None:
        return new
    contract, total = result.plan.contract, len(workshop.data.dev)
    search = split_rows(total, contract)[0] if contract.certify else np.arange(total)
    return decided_answers(result.chosen, result.shipped.alpha, workshop, new, judged, search)


def _write_policy(result: Update, decided: Predictions, folder: Path) -> None:
    """How answers are decided where the old model is a table, and the answers to the judged rows."""
    chosen, point = result.chosen, result.shipped
    if point is None:
        return
    numbers: JsonObject = {"policy": chosen.policy, "candidate": chosen.name}
    if chosen.fusion is not None:
        numbers["fusion"] = at_strength(chosen.fusion, point.alpha).to_dict()
    elif point.alpha > 0:
        numbers["cost_ratio"] = ratio_at(point.alpha)
    write_text(folder / POLICY, json.dumps(numbers, indent=2) + "\n")
    decided.save(folder / DECIDED)


def _write_files(result: Update, workshop: Workshop, folder: Path) -> None:
    """The record, the page and the card, beside the model."""
    from ..viz.page.candidates import candidates_page

    made = json.dumps(record(result, workshop), indent=2, default=str)
    write_text(folder / RECORD, made + "\n", overwrite=True)
    if result.choice is not None:
        write_text(folder / PAGE, candidates_page(result.choice, result.shipped, sentence(result)), overwrite=True)
    if result.report is not None and result.folder is not None:
        place = f"./{result.folder.name}"
        card = make_card(public_report(result.report, place), place, folder=folder)
        write_text(folder / CARD, str(card), overwrite=True)


def _write_model(chosen: Measured, alpha: float, workshop: Workshop, folder: Path) -> None:
    """The chosen weights with the new model's own files beside them, loadable by plain transformers or timm."""
    if chosen.policy == FUSION and chosen.fusion is not None and not workshop.tables and alpha > 0:
        (folder / NEW_PART).mkdir()
        _copy(chosen.folders[0], folder / NEW_PART)
        save_fused(folder, workshop.old_folder, folder / NEW_PART, at_strength(chosen.fusion, alpha))
        return
    if chosen.policy or (alpha == 0 and len(chosen.folders) == 1):
        _copy(chosen.folders[0], folder)
        return
    with tempfile.TemporaryDirectory() as scratch:
        rows = workshop.prepared(workshop.loaded(chosen.recipes[0]), workshop.data.dev)
        merger = make_merger(workshop, chosen.recipes, rows, scratch)
        if merger.recalibrates:
            merger.set_alpha(alpha)
            merger.save_merged(folder)
            workshop.loaded(chosen.recipes[0]).processor.save_pretrained(folder)
            return
        merged = Path(scratch) / "merged"
        method = "soup" if len(chosen.folders) > 1 else "linear"
        anchor = workshop.old_folder if chosen.mergeable else chosen.folders[0]  # at alpha 0 it has no say
        merge_checkpoints(anchor, list(chosen.folders), merged, alpha=alpha, method=method)
        _copy(merged, folder)


def _copy(source: Path, target: Path) -> None:
    """The files of a model, without the answers and the record of a candidate."""
    for path in source.iterdir():
        if path.is_file() and path.suffix != ".parquet" and path.name != CANDIDATE_RECORD:
            shutil.copy2(path, target / path.name)


def sentence(result: Update) -> str:
    """Why this model, in one sentence."""
    choice, point = result.choice, result.shipped
    if choice is None or point is None:
        return ""
    what = f"{point.candidate} at alpha {point.alpha:g}"
    if choice.best is not None:
        return f"{what}: {choice.reason}."
    nearest = choice.nearest
    return (
        f"{choice.reason}. The plain model {what} is written; nearest to the contract was {nearest.candidate} at "
        f"alpha {nearest.alpha:g}: expected NFR {100 * nearest.expected_nfr:.2f} %, expected loss "
        f"{100 * nearest.expected_loss:.2f} points, chance of a broken promise {nearest.risk:.0%}."
    )


def yardstick_sentence(result: Update) -> str:
    """What accuracy was held against, and whether that is a plain model."""
    choice, contract = result.choice, result.plan.contract
    if choice is None:
        return ""
    if contract.target_accuracy is not None:
        return f"a target accuracy of {contract.target_accuracy:.4f}"
    name = f"{choice.yardstick} without merging"
    plain = [candidate.name for candidate in result.candidates if candidate.plain]
    if contract.yardstick is not None:
        return f"{name}, as the contract says"
    if not plain:
        return f"{name}; no plain model was trained at budget {result.plan.budget:g}"
    return f"{name}, the plain model" if len(plain) == 1 else f"{name}, the most accurate of {len(plain)} plain models"


def record(result: Update, workshop: Workshop) -> JsonObject:
    """Everything that was tried, and what makes it again."""
    choice, point, plan = result.choice, result.shipped, result.plan
    return {
        "kept": result.kept,
        "sentence": sentence(result),
        "yardstick": yardstick_sentence(result),
        "chosen": point.to_dict() if point else None,
        "certificate": result.certificate.to_dict() if result.certificate else None,
        "contract": plan.contract.to_dict(),
        "promise": plan.contract.describe(choice.yardstick if choice else "the yardstick"),
        "case": plan.case.describe(),
        "budget": plan.budget,
        "old_model": "answers in tables" if workshop.tables else workshop.old_folder,
        "training": dict(workshop.options),
        "plan": [recipe.to_dict() for recipe in plan.recipes],
        "sweeps": [sweep.to_dict() for sweep in plan.sweeps],
        "candidates": [_costs(candidate) for candidate in result.candidates],
        "ranked": {name: list(order) for name, order in result.ranked.items()},
        "dropped": dict(result.dropped or {}),
        "points": [entry.to_dict() for entry in choice.points] if choice else [],
        "data": {"training": workshop.data.train.fingerprint, "development": workshop.data.dev.fingerprint},
        "versions": versions(),
    }


def _costs(candidate: Measured) -> JsonObject:
    """A candidate's recipes with what each cost, in seconds, and its seed."""
    trained = []
    for recipe, folder in zip(candidate.recipes, candidate.folders, strict=True):
        path = folder / CANDIDATE_RECORD
        kept = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        trained.append(
            {"recipe": recipe.name, "seed": recipe.seed, "folder": folder.name, "seconds": kept.get("seconds")}
        )
    return {"name": candidate.name, "policy": candidate.policy or None, "trained": trained}
