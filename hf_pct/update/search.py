"""The search: train and measure in the plan's order, drop what is behind, rank strengths by short trainings.

Only the rows that the search may see decide what is dropped or ranked, so that a certificate on the others is honest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..flips.choice.certify import split_rows
from ..flips.choice.choose import Candidate, choose
from ..flips.choice.contract import Contract
from ..training.divergence import DivergenceError
from .candidates import ALPHAS, COARSE, Measured, is_dominated, look_closer, measure
from .planning.plan import Plan
from .planning.recipes import CANDIDATE, Recipe
from .planning.schedule import StrengthSweep, short
from .processes import is_main, process_count
from .progress import Progress
from .training import Workshop

Announce = Callable[[str], None] | None


@dataclass
class Search:
    """One search: `measured` are the candidates by name, `dropped` what was not trained and why, `ranked` the short
    trainings of each sweep, best first."""

    workshop: Workshop
    plan: Plan
    announce: Announce = None
    show_progress: bool = True
    measured: dict[str, Measured] = field(default_factory=dict)
    dropped: dict[str, str] = field(default_factory=dict)
    ranked: dict[str, list[str]] = field(default_factory=dict)

    def run(self) -> list[Measured]:
        """All candidates that were measured."""
        self.left = self.plan.trainings
        self.progress = Progress(self.plan.length, self._steps(), self.show_progress and is_main())
        self._families: dict[str, list[Recipe]] = {}
        self._to_come = Counter(recipe.family for recipe in self.plan.recipes)
        self._lighter: dict[str, str] = {}
        try:
            for recipe in self.plan.recipes:
                self._try(recipe)
            for sweep in self.plan.sweeps:
                for recipe in self._finalists(sweep):
                    self._try(recipe)
            self._measure_mixture()
            self._look_closer()
        finally:
            self.progress.close()
        if not self.measured:
            reasons = "; ".join(f"{name} {reason}" for name, reason in self.dropped.items())
            raise ValueError(f"No candidate is left to choose from: {reasons}. Lower the learning rate.")
        return list(self.measured.values())

    def _steps(self) -> int:
        """Steps of one plain training."""
        return self.workshop.steps(replace(self.plan.first, length=1.0))

    def seen(self) -> list[Candidate]:
        """The candidates so far, on the rows that the search may see."""
        return [candidate.candidate(self.search_rows) for candidate in self.measured.values()]

    @property
    def search_rows(self) -> np.ndarray | None:
        """The development rows that decide what is dropped or ranked: all, unless some must prove."""
        contract = self.plan.contract
        return split_rows(len(self.workshop.data.dev), contract)[0] if contract.certify else None

    # ---- one training

    def _try(self, recipe: Recipe) -> None:
        reason = self._behind(recipe)
        if reason:
            self.dropped[recipe.name] = reason
            self._to_come[recipe.family] -= 1
            self.left -= 1
            self.progress.skip(recipe.length)
            self._say(f"{recipe.name}: not trained, {reason}")
        else:
            trained = self._train(recipe)
            self._to_come[recipe.family] -= 1
            if trained and recipe.role == CANDIDATE:
                self._families.setdefault(recipe.family, []).append(recipe)
        self._measure_family(recipe.family)

    def _measure_family(self, family: str) -> None:
        """Measure a family's first training, and its soup when the last one is there: not every soup between."""
        members = self._families.get(family, [])
        if not members or (len(members) > 1 and self._to_come[family] > 0):
            return
        one = self.measured.get(family)
        candidate = self._measure(members)
        if one is None or candidate.name != one.name:
            if one is not None:  # the first of them stays a candidate beside the soup
                self.measured[f"{family}, one"] = one
            self.measured[family] = candidate
            self._lighter[members[0].sweep] = candidate.name
            self._say_measured(candidate)

    def _measure_mixture(self) -> None:
        """Measure the mean of what the plan mixes, without families that are behind.

        Models that cannot be merged with the old one are measured at alpha 0 alone, so it costs little to ask whether
        the best two are better together, even where one of them is behind: each errs on other rows.
        """
        trained = [recipe for recipe in self.plan.mixed if recipe in self._families.get(recipe.family, ())]
        families = list(dict.fromkeys(recipe.family for recipe in trained))
        mixed = [family for family in families if not self._dominated(self.measured[family].name)]
        if len(mixed) < 2 and trained and trained[0].start != "old":
            mixed = sorted(families, key=self._flips)[:2]
        if len(mixed) > 1:
            candidate = self._measure([recipe for recipe in trained if recipe.family in mixed])
            self.measured[candidate.name] = candidate
            self._say_measured(candidate)

    def _flips(self, family: str) -> float:
        """Unmerged, on the rows that the search may see."""
        return float(self.measured[family].candidate(self.search_rows).curve.nfr[0])

    def _look_closer(self) -> None:
        """Measure finer alphas beside the one that would be chosen; what must prove something has them all."""
        seen, contract = self.seen(), self.plan.contract
        if contract.certify or not seen:
            return
        if contract.yardstick is not None and contract.yardstick not in {candidate.name for candidate in seen}:
            return
        best = choose(seen, contract).best
        if best is not None:
            key = next(key for key, entry in self.measured.items() if entry.name == best.candidate)
            self.measured[key] = look_closer(self.workshop, self.measured[key], best.alpha, self.workshop.data.dev)

    def _measure(self, recipes: Sequence[Recipe]) -> Measured:
        """A candidate on the development rows, in coarse steps and as far along alpha as the contract can allow.

        Rows that must prove something may not say which alphas there are: with `certify` all are measured.
        """
        contract = self.plan.contract
        against_yardstick = contract.max_nfr is None and contract.target_accuracy is None
        loss = contract.allowed_loss if against_yardstick and not contract.certify else None
        steps = ALPHAS if contract.certify else COARSE
        return measure(self.workshop, recipes, self.workshop.data.dev, loss, steps)

    def _behind(self, recipe: Recipe) -> str:
        """Why a training is not worth its cost: what it would be added to, or its lighter strength, is dominated."""
        current = self.measured.get(recipe.family)
        if current and self._dominated(current.name):
            return f"{current.name} is behind others at every alpha on the search rows"
        last = self._lighter.get(recipe.sweep) if recipe.sweep else None
        if last and self._dominated(last):
            return f"{last}, a lighter strength, is behind others at every alpha on the search rows"
        return ""

    def _dominated(self, name: str) -> bool:
        seen, contract = self.seen(), self.plan.contract
        if contract.yardstick not in self.measured:  # not measured yet, or none is named
            contract = replace(contract, yardstick=None)
        return len(seen) > 1 and is_dominated(name, seen, contract)

    def _train(self, recipe: Recipe) -> bool:
        """Train, unless it diverges: a treatment that does is dropped, a plain training says that the recipe is wrong.

        With several processes only one of them may see it, so that none can go on alone.
        """
        self.left -= 1
        self.progress.now(recipe.name, self.left)
        try:
            self.workshop.train(recipe, self.progress.begin(recipe.length))
        except DivergenceError as error:
            if recipe.plain or process_count() > 1:
                raise
            self.dropped[recipe.name] = f"diverged at step {error.step}: the {error.term!r} term {error.detail}"
            self._say(f"{recipe.name}: dropped, it {self.dropped[recipe.name]}")
        self.progress.end()
        return recipe.name not in self.dropped

    # ---- strengths

    def _finalists(self, sweep: StrengthSweep) -> list[Recipe]:
        """Successive halving: the strengths that are worth a whole training, lightest first."""
        strengths = list(sweep.recipes)
        for rung, following in zip(sweep.rungs, sweep.rungs[1:], strict=False):
            strengths = [recipe for recipe in strengths if self._train(short(recipe, rung.length))]
            measured = [self._measure([short(recipe, rung.length)]) for recipe in strengths]
            if not measured:
                return []
            order = rank(measured, self.plan.contract, self.search_rows)
            self.ranked[f"{sweep.method}, {rung.length:.0%} of the length"] = [measured[i].name for i in order]
            strengths = [strengths[i] for i in sorted(order[: following.count])]
            self._say(f"{sweep.method}: {', '.join(recipe.name for recipe in strengths)} of {len(measured)} go on")
        return strengths

    # ---- what is shown

    def _say_measured(self, candidate: Measured) -> None:
        curve = candidate.curve
        self._say(
            f"{candidate.name}: accuracy {100 * curve.accuracy[0]:.2f} %, NFR {100 * curve.nfr[0]:.2f} % on "
            f"{curve.total} development rows"
        )

    def _say(self, line: str) -> None:
        if self.announce:
            self.announce(line)


def rank(measured: Sequence[Measured], contract: Contract, rows: np.ndarray | None = None) -> list[int]:
    """Places of short trainings, best first: fewest flips within the contract against the most accurate of them."""
    listed = [replace(entry.candidate(rows), plain=True) for entry in measured]
    choice = choose(listed, replace(contract, yardstick=None, certify=False))
    worth = []
    for entry in listed:
        points = [point for point in choice.points if point.candidate == entry.name and point.alpha < 1]
        kept = [point for point in points if point.allowed]
        by_flips = [(0, point.expected_nfr, point.expected_loss) for point in kept]
        worth.append(min(by_flips or [(1, point.risk, point.expected_nfr) for point in points]))
    return sorted(range(len(listed)), key=lambda place: worth[place])
