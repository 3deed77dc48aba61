"""The updates of `cases.py`, seed by seed: plain, the paper's strength, `update` at budgets 1, 2 and 5, the oracle.

    python -m benchmarks.updates                          # or make bench-update; goes on where it stopped (hours)
    python -m benchmarks.updates --only massive --seeds 1
    python -m benchmarks.updates --report_only            # the table from the answers that are there
    python -m benchmarks.updates --resample 20            # chosen again on random development rows
    python -m benchmarks.updates --time_again             # what lies beside the trainings, measured again
    python -m benchmarks.updates --margins                # how much more margins tell than counted rows
    python -m benchmarks.updates --along_alpha massive    # every candidate of one update along alpha, on the test rows

Weights lie in build/updates, answers on development and test rows in benchmarks/results/updates.parquet: one line per
candidate and alpha. What each budget could choose from is in benchmarks/results/updates.json. The report chooses among
these again, on the development rows alone, as `update` does: a change of the rule needs no training to be judged.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import ROOT
from benchmarks.tables.store import Answers, read_answers, write_answers
from benchmarks.updates.cases import CASES, UpdateCase, class_names, load_parts, save_fresh
from benchmarks.updates.kept import kept
from benchmarks.updates.reports import (
    ANSWERS,
    BUDGETS,
    CHOICES,
    DEV,
    MARGIN,
    PAPER,
    RESULTS,
    along_alpha,
    choose_again,
    margins_told,
    read_choices,
    report,
    resampled,
)
from hf_pct.core.files import held, write_text
from hf_pct.flips.choice.contract import Contract
from hf_pct.flips.choice.curve import AlphaCurve
from hf_pct.update.planning.recipes import Recipe
from hf_pct.update.training import RECORD

TABLE = RESULTS / "updates.md"
WORK = ROOT / "build" / "updates"


def run_case(name: str, case: UpdateCase, seed: int) -> None:
    """Train the old model, then `update` at the largest budget; smaller budgets use the same candidates."""
    key = f"{name}-{seed}"
    work = WORK / key
    work.mkdir(parents=True, exist_ok=True)
    with held(work / ".lock"):  # another process has this seed, or had it: its result is there then
        if key in read_choices():
            return
        began = time.process_time()
        parts = load_parts(case, seed)
        old = train_old(case, parts, work, seed)
        offered, costs, every = {}, {}, {}
        for budget in reversed(BUDGETS):
            result, spent = timed_update(case, parts, old, work, seed, budget)
            offered[str(budget)] = [candidate.name for candidate in result.candidates]
            every |= {candidate.name: candidate.recipes for candidate in result.candidates}
            keep_development_answers(key, result)
            chosen = choose_again(key, offered[str(budget)])
            shipped = (result.shipped.candidate, result.shipped.alpha)
            if chosen != shipped:  # kept margins are rounded, so that a near tie may fall the other way
                print(f"{key}, budget {budget}: shipped {shipped}, chosen again {chosen}", flush=True)
            if budget == max(BUDGETS):
                costs, largest = spent, result
        keep_test_answers(key, largest, every, old, parts["test"])
        keep_choice(key, {"offered": offered, "costs": costs, "seconds": round(time.process_time() - began)})
    print(f"{key}: {time.process_time() - began:.0f} s", flush=True)


def keep_choice(key: str, entry: dict[str, Any]) -> None:
    with held(WORK / ".results.lock"):
        choices = {**read_choices(), key: entry}
        write_text(CHOICES, json.dumps(choices, indent=1, sort_keys=True) + "\n", overwrite=True)


def timed_update(
    case: UpdateCase, parts: dict[str, Any], old: str, work: Path, seed: int, budget: int
) -> tuple[Any, dict[str, float]]:
    """One update, with the seconds of its trainings, whenever they were run, and of everything beside them."""
    from hf_pct.update import update

    base = save_fresh(case.new_model or case.model, class_names(parts["new"]), work / "base-new", seed)
    began, started = time.time(), time.monotonic()
    result = update(
        old, parts["new"], parts["dev"], contract=Contract(margin=MARGIN), budget=budget, base_model=base,
        training={**case.recipe, "num_train_epochs": case.new_epochs}, candidates_dir=work / "candidates",
        allow_missing_classes=True, seed=100 * seed, progress=False, announce=print,
        columns={"label_column": "label"},
    )  # fmt: skip
    beside = time.monotonic() - started - training_seconds(result, began)
    return result, {"beside": round(beside, 1), "trainings": round(training_seconds(result), 1)}


def training_seconds(result: Any, since: float = 0.0) -> float:
    """How long the trainings of an update that ended since then took, from the records of its candidates."""
    folders = {result.workshop.place(recipe) for candidate in result.candidates for recipe in candidate.recipes}
    records = [folder / RECORD for folder in folders]
    return sum(json.loads(path.read_text())["seconds"] for path in records if path.stat().st_mtime >= since)


def time_again(name: str, case: UpdateCase, seed: int) -> None:
    """What lies beside the trainings of one update, measured again with their folders there and no answers."""
    key, work = f"{name}-{seed}", WORK / f"{name}-{seed}"
    if key not in read_choices() or not (work / "candidates").is_dir():
        return
    for path in (work / "candidates").glob("*/margins-*.parquet"):
        path.unlink()
    parts = load_parts(case, seed)
    costs = timed_update(case, parts, train_old(case, parts, work, seed), work, seed, max(BUDGETS))[1]
    keep_choice(key, {**read_choices()[key], "costs": costs})


def train_old(case: UpdateCase, parts: dict[str, Any], work: Path, seed: int) -> str:
    """The old model, trained once on the old rows."""
    from hf_pct.models.load import load_model
    from hf_pct.update.inputs.data import UpdateData, read_data
    from hf_pct.update.training import Workshop

    names = [label for label in class_names(parts["new"]) if label not in case.added]
    base = load_model(save_fresh(case.model, names, work / "base", seed))
    columns = {"label_column": "label"}
    whole, _ = read_data(base, {"train": parts["old"], "dev": parts["old"], "test": None}, columns, True)
    data = UpdateData(whole.train, whole.dev, None, tuple(names), ())
    options = {**(case.old_recipe or case.recipe), "num_train_epochs": case.old_epochs}
    shop = Workshop(str(work / "base"), base, base, data, work / "old", options)
    return str(shop.train(Recipe("old", "none", "the model in service", "old", {}, "anew", seed, plain=True)))


def keep_development_answers(key: str, result: Any) -> None:
    """How right every candidate is at every alpha that was measured on the development rows."""
    lines = {}
    for candidate in result.candidates:
        lines |= curve_lines(key, f"{DEV}{candidate.name}", candidate.curve, f"{DEV}old")
    keep(lines)


def curve_lines(key: str, name: str, curve: AlphaCurve, old: str) -> dict[tuple[str, str], Answers]:
    """One line per alpha and one of the old model: how right each row is, see `kept.py`."""
    rows = {old: (1.0, curve.old_correct.astype(int))}
    rows |= {f"{name}@{alpha:g}": (alpha, kept(curve, i)) for i, alpha in enumerate(curve.alphas)}
    count = curve.total
    return {
        (key, part): Answers(np.arange(count), np.ones(count, int), values, np.arange(2), 0.0, float(alpha))
        for part, (alpha, values) in rows.items()
    }


def keep(lines: dict[tuple[str, str], Answers]) -> None:
    with held(WORK / ".results.lock"):
        write_answers(ANSWERS, {**read_answers(ANSWERS), **lines})


def keep_test_answers(
    key: str, result: Any, candidates: Mapping[str, tuple[Recipe, ...]], old: str, test: Any
) -> None:
    """How right every candidate of every budget is at every alpha on the test rows."""
    from hf_pct.models.load import load_model
    from hf_pct.update.candidates import measure
    from hf_pct.update.inputs.data import read_data

    loaded = load_model(old)
    rows = read_data(loaded, {"train": test, "dev": test, "test": None}, {"label_column": "label"}, True)[0].train
    lines: dict[tuple[str, str], Answers] = {}
    shop, paper = result.workshop, paper_strength(result)  # beside the budget: what people try first
    shop.train(paper)
    for name, recipes in {paper.family: (paper,), **candidates}.items():
        lines |= curve_lines(key, name, measure(shop, recipes, rows).curve, "old")
    keep(lines)


def paper_strength(result: Any) -> Any:
    """Focal distillation with the paper's own weights, from where the plan starts."""
    from hf_pct.update.planning.recipes import wishes

    seed = result.candidates[0].recipes[0].seed
    recipes = (recipe for group in wishes(result.plan.case, None, "auto", seed) for recipe in group)
    return next(recipe for recipe in recipes if recipe.name == PAPER)


def main(arguments: list[str] | None = None) -> None:
    import torch
    from transformers.utils import logging

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=tuple(CASES), help="updates by name")
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--report_only", action="store_true")
    parser.add_argument("--resample", type=int, metavar="DRAWS", help="choose again on random development rows")
    parser.add_argument(
        "--rows", type=int, nargs="+", default=[], help="how many of them; each update's own by default"
    )
    parser.add_argument(
        "--time_again", action="store_true", help="what lies beside the trainings, which must be there"
    )
    parser.add_argument("--margins", action="store_true", help="show how much more margins tell than counted rows")
    parser.add_argument("--along_alpha", choices=tuple(CASES), help="show the candidates of this update along alpha")
    options = parser.parse_args(arguments)
    if options.along_alpha or options.resample or options.margins:
        if options.along_alpha:
            print(along_alpha(options.along_alpha))
        if options.resample:
            print(resampled(options.resample, options.rows))
        if options.margins:
            print(margins_told())
        return
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    if not options.report_only:
        for seed in range(1, options.seeds + 1):
            for name in options.only or CASES:
                (time_again if options.time_again else run_case)(name, CASES[name], seed)
    text = report()
    write_text(TABLE, text, overwrite=True)
    print(text)


if __name__ == "__main__":
    main()
