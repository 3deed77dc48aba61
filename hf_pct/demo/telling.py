"""One update, shown step by step: each step trains, measures on the same test rows and says what it found."""

from __future__ import annotations

import sys
from pathlib import Path

from ..core.files import write_text
from ..flips.compare import compare
from ..flips.comparison_files import write_comparison
from ..flips.gate import GateConfig, check_gate
from ..flips.render.report import percent
from ..flips.report import FlipReport
from ..flips.studies.ensemble import mean_predictions
from ..flips.tables.predictions import Predictions
from ..models.load import load_model
from ..models.predict import predict
from ..viz.page.write import write_page
from .quiet import quiet
from .train import fine_tune, merge_by_contract, train_elodi
from .updates import DemoUpdate

GATE = GateConfig(max_nfr=0.01, max_nfr_upper=0.02, min_accuracy_gain=0.0)
MARGIN = 0.005
PAGE = "update.html"
ELODI = "ELODI to ELODI"
WHAT_ELODI_IS = """\
Each version is trained with ELODI, by itself and without a look at the other: first {members} members, plain
runs from other seeds, then a student whose logits are held near the mean of theirs. Means of runs lie
closer together than runs do, so that any two such students should flip little, whichever comes next.
The price is paid in training: {members} members, and a student that takes as long as two of them. What goes
out is one model, and its answers cost what they did before.
"""


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
        report = self._compare("trained anew", "new", self.folder)
        with quiet():
            self.test.to_parquet(self.folder / "test.parquet")
        self._write_page(self.folder, report)
        say("\n" + report.to_text())
        _show_broken(report)

    def update_from_old(self) -> None:
        """The same data, starting from the old model: with `Trainer`, and with `FocalDistillTrainer` in its place."""
        say("\nThe same data, but starting from the old model: plain, and held near it by focal distillation.\n")
        self._fine_tune("tuned", self.seed + 2, start=self.folder / "old")
        self._compare("fine-tuned from old", "tuned", self.folder / "tuned_flips")
        self._fine_tune("focal", self.seed + 2, start=self.folder / "old", old_model=self.folder / "old")
        self._compare("+ focal distillation", "focal", self.folder / "focal_flips")
        say("\n" + self.side_by_side())

    def merge_back(self) -> None:
        """Sweep alpha on development rows, and keep the merged model that the contract chooses."""
        development, folder = self.update.splits["development"], self.folder / "merged"
        merger = merge_by_contract(self.folder / "old", self.folder / "tuned", development, folder, MARGIN)
        sweep, chosen = merger.last_sweep, merger.selection
        if sweep is None or chosen is None:
            raise RuntimeError("The merger has no sweep; merge() makes one.")
        write_text(self.folder / "alpha_curve.md", sweep.to_markdown() + "\n", overwrite=True)
        say(f"{'alpha':>7}  {'accuracy':>9}  {'NFR':>7}   (alpha is the share of the old model)")
        for row in sweep.curve.table():
            mark = "  <- chosen" if row["alpha"] == chosen.alpha else ""
            say(f"{row['alpha']:>7.1f}  {percent(row['accuracy']):>9}  {percent(row['nfr']):>7}{mark}")
        say(f"on {len(development)} development rows; {chosen.reason}\n")
        self._predict("merged", folder)
        report = self._compare("+ merged back", "merged", self.folder / "merged_flips")
        self._write_page(self.folder / "merged_flips", report, curve=str(folder / "pct_merge.json"))
        say(self.side_by_side())

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
            asked = [
                self._ask(folder / side / "members" / str(number), f"{side} member {number + 1}")
                for number in range(members)
            ]
            ensemble = f"ensemble {side}"
            self.predictions[ensemble] = mean_predictions(asked, name=f"{update.name} {ensemble} of {members}")
        report = self._compare(ELODI, "ELODI new", folder, old="ELODI old")
        self._write_page(folder, report)
        ensembles = f"ensembles of {members}"
        self._compare(ensembles, "ensemble new", folder / "ensembles", old="ensemble old")
        say("\n" + self.side_by_side("trained anew", ELODI, ensembles))
        say(f"\nThe ensembles are what the students are held near; each of their answers takes {members} models.")

    def side_by_side(self, *methods: str) -> str:
        """Treatments on the same test rows, all of them by default; ELODI treats the old model too."""
        titles = (f"{self.update.name} test, {len(self.test)} rows", "old accuracy", "accuracy", "NFR", "relative NFR")
        rows = [titles]
        for method in methods or self.reports:
            counts = self.reports[method].counts
            old, new, nfr = percent(counts.old_accuracy), percent(counts.new_accuracy), percent(counts.nfr)
            rows.append((method, old, new, nfr, percent(counts.relative_nfr, 1)))
        return "\n".join(
            f"{name:<26}{old:>13}{new:>10}{nfr:>10}{relative:>15}" for name, old, new, nfr, relative in rows
        )

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

    def _write_page(self, folder: Path, report: FlipReport, curve: str | None = None) -> None:
        images = self.test if "image" in self.test.column_names else None
        gate = check_gate(report, GATE)
        write_page(folder / PAGE, report, gate=gate, curve=curve, images=images, overwrite=True)

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
