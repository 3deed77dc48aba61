"""The updates of `cases.py`, seed by seed: plain, the paper's strength, `update` at budgets 1, 2 and 5, the oracle.

    python -m benchmarks.updates                          # or make bench-update; goes on where it stopped (hours)
    python -m benchmarks.updates --only massive --seeds 1
    python -m benchmarks.updates --report_only            # the table from the answers that are there
    python -m benchmarks.updates --resample 20            # chosen again on random development rows
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
from benchmarks.tables.inputs.models import LITES, RESNETS
from benchmarks.tables.report import mean_interval
from benchmarks.tables.store import Answers, read_answers, write_answers
from benchmarks.updates import margins
from benchmarks.updates.cases import CASES, UpdateCase, class_names, load_parts, save_fresh
from benchmarks.updates.kept import kept, kept_curve
from benchmarks.updates.margins import margins_line
from benchmarks.updates.resample import HEADER, choose_among, pooled_curves, resample_line
from hf_pct.core.files import held, write_text
from hf_pct.flips.choice.contract import Contract
from hf_pct.flips.choice.curve import AlphaCurve
from hf_pct.flips.choice.prior import Prior, linear_prior
from hf_pct.update.planning.recipes import Recipe
from hf_pct.update.training import RECORD

RESULTS = ROOT / "benchmarks" / "results"
ANSWERS, CHOICES, TABLE = RESULTS / "updates.parquet", RESULTS / "updates.json", RESULTS / "updates.md"
WORK = ROOT / "build" / "updates"
BUDGETS, MARGIN = (1, 2, 5), 0.005
PAPER, PLAIN = "fd-lm paper", ("plain", "anew")
DEV = "development: "
"""Before the names of answers to development rows; those without it are to test rows."""


def run_case(name: str, case: UpdateCase, seed: int) -> None:
    """Train the old model, then `update` at the largest budget; smaller budgets use the same candidates."""
    from hf_pct.update import update

    key = f"{name}-{seed}"
    work = WORK / key
    work.mkdir(parents=True, exist_ok=True)
    with held(work / ".lock"):  # another process has this seed, or had it: its result is there then
        if key in read_choices():
            return
        began = time.process_time()
        parts = load_parts(case, seed)
        old = train_old(case, parts, work, seed)
        names = class_names(parts["new"])
        base = save_fresh(case.new_model or case.model, names, work / "base-new", seed)
        options: dict[str, Any] = {**case.recipe, "num_train_epochs": case.new_epochs}
        offered, costs, every = {}, {}, {}
        for budget in reversed(BUDGETS):
            started = time.monotonic()
            result = update(
                old, parts["new"], parts["dev"], contract=Contract(margin=MARGIN), budget=budget, base_model=base,
                training=options, candidates_dir=work / "candidates", allow_missing_classes=True, seed=100 * seed,
                progress=False, announce=print, columns={"label_column": "label"},
            )  # fmt: skip
            offered[str(budget)] = [candidate.name for candidate in result.candidates]
            every |= {candidate.name: candidate.recipes for candidate in result.candidates}
            keep_development_answers(key, result)
            chosen = choose_again(key, offered[str(budget)])
            shipped = (result.shipped.candidate, result.shipped.alpha)
            if chosen != shipped:  # kept margins are rounded, so that a near tie may fall the other way
                print(f"{key}, budget {budget}: shipped {shipped}, chosen again {chosen}", flush=True)
            if budget == max(BUDGETS):
                costs = {"update": time.monotonic() - started, "trainings": training_seconds(result)}
                largest = result
        keep_test_answers(key, largest, every, old, parts["test"])
        costs = {name: round(seconds, 1) for name, seconds in costs.items()}
        entry = {"offered": offered, "costs": costs, "seconds": round(time.process_time() - began)}
        with held(WORK / ".results.lock"):
            write_text(
                CHOICES, json.dumps({**read_choices(), key: entry}, indent=1, sort_keys=True) + "\n", overwrite=True
            )
    print(f"{key}: {time.process_time() - began:.0f} s", flush=True)


def training_seconds(result: Any) -> float:
    """How long all trainings of an update took, from the records of its candidates."""
    folders = {result.workshop.place(recipe) for candidate in result.candidates for recipe in candidate.recipes}
    return sum(json.loads((folder / RECORD).read_text())["seconds"] for folder in folders)


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


def choose_again(key: str, names: list[str]) -> tuple[str, float]:
    """What the rule chooses among these candidates on the kept development rows: a name and an alpha."""
    rows = kept_rows(key)
    curves = {}
    for name in names:
        start = f"{DEV}{name}@"
        along = {float(part.removeprefix(start)): values for part, values in rows.items() if part.startswith(start)}
        curves[name] = kept_curve(rows[f"{DEV}old"], along)
    return choose_among(curves, PLAIN, law_of(key.rsplit("-", 1)[0]), Contract(margin=MARGIN))


def kept_rows(key: str) -> dict[str, np.ndarray]:
    """How right the rows of one seed are, by candidate and alpha, of development and of test rows."""
    return {part: cell.answers for (cell_key, part), cell in read_answers(ANSWERS).items() if cell_key == key}


def rows_to_judge(key: str) -> dict[str, np.ndarray]:
    """Which test rows are right, by candidate and alpha."""
    return {part: values > 0 for part, values in kept_rows(key).items() if not part.startswith(DEV)}


def law_of(name: str) -> Prior:
    """What is known of the merges of an update, as `update` itself knows it."""
    return linear_prior(bool(CASES[name].added), CASES[name].model in (*RESNETS, *LITES))


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


def read_choices() -> dict[str, Any]:
    return json.loads(CHOICES.read_text()) if CHOICES.is_file() else {}


def rows_of(key: str, choice: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """Row name -> (accuracy, NFR) on the test rows of one seed."""
    answers = rows_to_judge(key)
    old = answers.pop("old")

    def score(part: str) -> tuple[float, float]:
        return 100 * float(answers[part].mean()), 100 * float((old & ~answers[part]).mean())

    rows = {"old": (100 * float(old.mean()), 0.0)}
    for label, part in (("plain", "plain@0"), ("plain anew", "anew@0"), ("fd-lm, paper's weights", f"{PAPER}@0")):
        if part in answers:
            rows[label] = score(part)
    for budget, names in choice["offered"].items():
        name, alpha = choose_again(key, names)
        rows[f"update, budget {budget}"] = score(f"{name}@{alpha:g}")
    limit = best_plain(rows) - 100 * MARGIN
    allowed = [part for part in answers if not part.endswith("@1") and score(part)[0] >= limit]
    rows["oracle"] = min((score(part) for part in allowed), key=lambda pair: pair[1])
    return rows


def report() -> str:
    """Accuracy and NFR of every row, and both beside those of plain models."""
    choices = read_choices()
    lines = [
        "| update | row | seeds | accuracy | NFR | NFR / plain's | accuracy - best plain | worst seed |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in CASES:
        seeds = [rows_of(key, choice) for key, choice in choices.items() if key.rsplit("-", 1)[0] == name]
        for row in dict.fromkeys(row for seed in seeds for row in seed):
            shown = [seed for seed in seeds if row in seed]
            ratio = sum(seed[row][1] for seed in shown) / sum(seed["plain"][1] for seed in shown)
            gains = [seed[row][0] - best_plain(seed) for seed in shown]
            cells = [_interval([seed[row][side] for seed in shown]) for side in (0, 1)]
            lines.append(
                f"| {name} | {row} | {len(shown)} | {cells[0]} | {cells[1]} | {ratio:.2f} | {_interval(gains, '+')} | "
                f"{min(gains):+.2f} |"
            )
    return "\n".join([*lines, "", costs_sentence(choices)]) + "\n"


def along_alpha(name: str) -> str:
    """Every candidate of one update at every alpha, on the test rows, beside the plain models."""
    found: dict[tuple[str, float], list[tuple[float, float]]] = {}
    keys = [key for key in read_choices() if key.rsplit("-", 1)[0] == name]
    for key in keys:
        right = rows_to_judge(key)
        old = right.pop("old")
        best = max(right[f"{plain}@0"].mean() for plain in PLAIN if f"{plain}@0" in right)
        flips = (old & ~right["plain@0"]).mean()
        for part, rows in right.items():
            candidate, alpha = part.rsplit("@", 1)
            entry = (100 * float(rows.mean() - best), float((old & ~rows).mean() / flips))
            found.setdefault((candidate, float(alpha)), []).append(entry)
    lines = ["| candidate | alpha | seeds | accuracy - best plain | NFR / plain's |", "|---|---|---|---|---|"]
    for (candidate, alpha), seeds in sorted(found.items()):
        if alpha < 1:
            gain, ratio = np.mean(seeds, axis=0)
            lines.append(f"| {candidate} | {alpha:g} | {len(seeds)} | {gain:+.2f} | {ratio:.2f} |")
    return "\n".join(lines) + "\n"


def resampled(draws: int, counts: list[int]) -> str:
    """Every budget of every update, chosen again on so many random development rows."""
    lines, contract = [HEADER], Contract(margin=MARGIN)
    for name in CASES:
        seeds = pooled_seeds(name)
        for count in counts if seeds else ():
            lines += [resample_line(name, str(b), count, seeds, law_of(name), contract, draws) for b in BUDGETS]
    return "\n".join(lines) + "\n"


def pooled_seeds(name: str) -> list[dict[str, Any]]:
    """The seeds of one update: curves over all rows that were measured, and what each budget was offered."""
    seeds = []
    for key, choice in read_choices().items():
        if key.rsplit("-", 1)[0] == name:
            every = list(dict.fromkeys(["plain", *(part for names in choice["offered"].values() for part in names)]))
            curves = pooled_curves(kept_rows(key), every, DEV)
            seeds.append({"curves": curves, "offered": choice["offered"], "plain": PLAIN})
    return seeds


def margins_told() -> str:
    """How much more margins tell than counted rows, for every update that has them."""
    lines = [margins_line(name, [seed["curves"] for seed in pooled_seeds(name)]) for name in CASES]
    return "\n".join([margins.HEADER, *filter(None, lines)]) + "\n"


def best_plain(seed: dict[str, tuple[float, float]]) -> float:
    return max(seed[name][0] for name in ("plain", "plain anew") if name in seed)


def costs_sentence(choices: dict[str, Any]) -> str:
    """What planning, measuring and choosing cost beside the trainings, by update."""
    shares: dict[str, list[float]] = {}
    for key, choice in choices.items():
        costs = choice["costs"]
        if costs["update"] < costs["trainings"]:  # a run that went on where another had stopped
            continue
        shares.setdefault(key.rsplit("-", 1)[0], []).append(costs["update"] / costs["trainings"] - 1)
    said = [f"{name} {100 * float(np.mean(values)):.0f} %" for name, values in shares.items()]
    return "Time beside the trainings at the largest budget, over theirs: " + ", ".join(said) + "."


def _interval(values: list[float], sign: str = "") -> str:
    mean, half = mean_interval(values) if len(values) > 1 else (values[0], float("nan"))
    return f"{mean:{sign}.2f}" if np.isnan(half) else f"{mean:{sign}.2f} ± {half:.2f}"


def main(arguments: list[str] | None = None) -> None:
    import torch
    from transformers.utils import logging

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=tuple(CASES), help="updates by name")
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--report_only", action="store_true")
    parser.add_argument("--resample", type=int, metavar="DRAWS", help="choose again on random development rows")
    parser.add_argument("--rows", type=int, nargs="+", default=[500], help="how many of them")
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
                run_case(name, CASES[name], seed)
    text = report()
    write_text(TABLE, text, overwrite=True)
    print(text)


if __name__ == "__main__":
    main()
