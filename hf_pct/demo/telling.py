"""One update, shown step by step: each step trains, measures on the same test rows and says what it found."""

from __future__ import annotations

import sys
from pathlib import Path

from ..flips.compare import compare
from ..flips.comparison_files import write_comparison
from ..flips.gate import GateConfig
from ..flips.gate.reports import check_gate
from ..flips.render.report import percent
from ..flips.report import FlipReport
from ..flips.several.candidates import CandidatesReport, compare_several
from ..flips.studies.ensemble import mean_predictions
from ..flips.tables.predictions import Predictions
from ..models.load import load_model
from ..models.predict import predict
from ..models.quiet import quiet
from ..update.write import sentence
from ..viz.page.write import write_page
from .train import fine_tune, train_elodi, update_by_contract
from .updates import DemoUpdate
from .words import WHAT_ELODI_IS, recommendation

GATE = GateConfig(max_nfr=0.02, max_nfr_upper=0.025, min_accuracy_gain=0.0)
MARGIN = 0.005
PAGE, CANDIDATES_PAGE = "update.html", "candidates.html"
ANEW, FROM_OLD, UPDATED, ELODI = "trained anew", "fine-tuned from old", "hf-pct update", "ELODI to ELODI"
PLAIN = (ANEW, FROM_OLD)


class Telling:
    """One update, shown step by step; what the steps write is in its folder."""

    def __init__(self, update: DemoUpdate, folder: Path, seed: int) -> None:
        self.update, self.folder, self.seed = update, folder, seed
        self.test = update.splits["test"]
        self.reports: dict[str, FlipReport] = {}
        self.predictions: dict[str, Predictions] = {}
        folder.mkdir(exist_ok=True)

    def update_as_usual(self) -> None:
        """Old and new model, trained from the start each, and the report of what the new one broke."""
        self._fine_tune("old", self.seed)
        self._fine_tune("new", self.seed + 1)
        report = self._compare(ANEW, "new", self.folder)
        with quiet():
            self.test.to_parquet(self.folder / "test.parquet")
        self._write_page(self.folder, report)

    def show_what_broke(self) -> None:
        report = self.reports[ANEW]
        say("\n" + report.to_text())
        _show_broken(report)

    def update_from_old(self) -> None:
        """The same data and the same training, but starting from the old model."""
        self._fine_tune("tuned", self.seed, start=self.folder / "old")
        self._compare(FROM_OLD, "tuned", self.folder / "tuned_flips")

    def update_by_contract(self) -> None:
        """What `hf-pct update` chooses on the development rows, beside the best plain model."""
        rows, budget = len(self.update.splits["development"]), self.update.budget
        training = "one training" if budget == 1 else f"{budget:g} trainings"
        say(f"\nThe same with hf-pct update: {training}, and {rows} development rows to choose on:")
        result = update_by_contract(
            self.update, self.folder, margin=MARGIN, seed=self.seed, announce=lambda line: say(f"  {line}")
        )
        say(f"  {sentence(result)}")
        self._predict("v2", self.folder / "v2")
        report = self._compare(UPDATED, "v2", self.folder / "updated_flips")
        self._write_page(self.folder / "updated_flips", report)
        say("\n" + self.side_by_side(*(name for name in PLAIN if name in self.reports), UPDATED))
        say("\n" + recommendation(self.best_plain(), report, MARGIN))

    def best_plain(self) -> FlipReport:
        """The most accurate of the models that nobody treated."""
        plain = [self.reports[name] for name in PLAIN if name in self.reports]
        return max(plain, key=lambda report: report.counts.new_accuracy)

    def hold_near_members(self) -> None:
        """Both versions with ELODI, each near the mean of members of its own, beside the two ensembles themselves."""
        update, folder, members = self.update, self.folder / "elodi", self.update.members
        say(WHAT_ELODI_IS.format(members=members))
        for number, side in enumerate(("old", "new")):
            train_elodi(
                update.new_model,
                update.splits[f"{side}_train"],
                folder / side,
                seed=self.seed + number,
                members=members,
                epochs=update.epochs,
                learning_rate=update.learning_rate,
                description=f"train {update.name} ELODI {side}",
            )
            self._predict(f"ELODI {side}", folder / side)
            answers = [
                self._ask(folder / side / "members" / str(number), f"{side} member {number + 1}")
                for number in range(members)
            ]
            ensemble = f"ensemble {side}"
            self.predictions[ensemble] = mean_predictions(answers, name=f"{update.name} {ensemble} of {members}")
        ensembles = f"ensembles of {members}"
        self._compare(ensembles, "ensemble new", folder / "ensembles", old="ensemble old")
        report = self._compare(ELODI, "ELODI new", folder, old="ELODI old")
        self._write_page(folder, report)
        say("\n" + self.side_by_side(*PLAIN, ensembles, ELODI))
        say(f"\nThe ensembles are what the students are held near; each of their answers takes {members} models.")
        say(recommendation(self.best_plain(), report, 0.0))

    def candidates(self) -> CandidatesReport:
        """Every new model of this update against its one old model, as a page with the gate's verdict."""
        sides = {ANEW: "new", FROM_OLD: "tuned", UPDATED: "v2"}
        names = [name for name in sides if name in self.reports]
        tables = [self.predictions[sides[name]] for name in names]
        report = compare_several(self.predictions["old"], tables, names)
        write_page(self.folder / CANDIDATES_PAGE, report, gate=check_gate(report, GATE), overwrite=True)
        return report

    def side_by_side(self, *methods: str) -> str:
        """Treatments on the same test rows; ELODI treats the old model too."""
        titles = (f"{self.update.name} test, {len(self.test)} rows", "old accuracy", "accuracy", "NFR", "relative NFR")
        rows = [titles]
        for method in methods:
            counts = self.reports[method].counts
            old, new, nfr = percent(counts.old_accuracy), percent(counts.new_accuracy), percent(counts.nfr)
            rows.append((method, old, new, nfr, percent(counts.relative_nfr, 1)))
        return "\n".join(
            f"{name:<26}{old:>13}{new:>10}{nfr:>10}{relative:>15}" for name, old, new, nfr, relative in rows
        )

    def _fine_tune(self, side: str, seed: int, start: Path | None = None) -> None:
        """Train one model from its initial weights, or from those of `start`."""
        update = self.update
        if start is None:
            make = update.newer if update.newer is not None and side == "new" else update.new_model
            model, processor = make(seed)
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
            epochs=update.epochs,
            learning_rate=update.learning_rate,
            description=f"train {update.name} {side}",
        )
        self._predict(side, self.folder / side)

    def _predict(self, side: str, folder: Path) -> None:
        self.predictions[side] = self._ask(folder, side)

    def _ask(self, folder: Path, title: str) -> Predictions:
        with quiet():
            return predict(
                folder,
                self.test,
                keep_columns=self.update.keep_columns,
                name=f"{self.update.name} {title}",
                dataset_name=f"{self.update.name} test",
                use_cache=False,
            )

    def _write_page(self, folder: Path, report: FlipReport) -> None:
        images = self.test if "image" in self.test.column_names else None
        write_page(folder / PAGE, report, gate=check_gate(report, GATE), images=images, overwrite=True)

    def _compare(self, method: str, side: str, folder: Path, old: str = "old") -> FlipReport:
        before, after = self.predictions[old], self.predictions[side]
        report = self.reports[method] = compare(before, after)
        write_comparison(folder, report, before, after, overwrite=True)
        return report


def _show_broken(report: FlipReport, most: int = 5) -> None:
    """The rows that a user of the old model would complain about first: those that it was surest of."""
    broken = [row for row in report.flips.to_pylist() if row["kind"] == "negative" and row.get("text")]
    if not broken:
        return
    broken.sort(key=lambda row: -row["old_confidence"])
    say("\nright yesterday, wrong today (the old model was surest of these):")
    for row in broken[:most]:
        sure = percent(row["old_confidence"], 0)
        say(f"  {row['text']!r}: {row['label']} ({sure} sure) -> {row['new_answer']}")


def say(text: str) -> None:
    print(text, flush=True)
    sys.stderr.flush()
