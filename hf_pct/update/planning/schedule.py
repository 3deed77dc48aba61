"""The schedule: which of the recipes a budget buys, and how strengths are ranked by short trainings when not all fit.

Successive halving: every strength is trained for a quarter of the length, the better half for half of it, the best
quarter of them in full. A short training costs its length, and is never shipped: it only says which strengths are
worth a whole one, by the development rows that the search may see.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from .recipes import SHORT, Case, Recipe, wishes

FIRST_LENGTH, SECOND_LENGTH = 0.25, 0.5


@dataclass(frozen=True)
class Rung:
    """So many strengths are trained for this share of the whole length."""

    length: float
    count: int


@dataclass(frozen=True)
class StrengthSweep:
    """Strengths of one method, of which short trainings choose those that are trained in full."""

    method: str
    recipes: tuple[Recipe, ...]
    rungs: tuple[Rung, ...]

    @property
    def cost(self) -> float:
        return sum(rung.length * rung.count for rung in self.rungs)

    def to_dict(self) -> dict[str, object]:
        rungs = [{"length": rung.length, "count": rung.count} for rung in self.rungs]
        return {"method": self.method, "strengths": [recipe.to_dict() for recipe in self.recipes], "rungs": rungs}

    def describe(self) -> str:
        steps = [f"{rung.count} for {rung.length:.0%} of the length" for rung in self.rungs[:-1]]
        return f"{self.method} at {len(self.recipes)} strengths: {', '.join(steps)}, then the best {self.finalists}"

    @property
    def finalists(self) -> str:
        count = self.rungs[-1].count
        return f"{count} in full" if count > 1 else "one in full"


def short(recipe: Recipe, length: float) -> Recipe:
    """The same recipe, shorter, to rank its strength."""
    name = f"{recipe.name}, {length:.0%} of the length"
    return replace(recipe, name=name, family=name, length=length, role=SHORT)


def make_rungs(count: int, budget: float) -> tuple[Rung, ...]:
    """The most thorough halving of so many strengths that the budget buys; empty when it buys none.

    Example:
        >>> from hf_pct.update.planning.schedule import make_rungs
        >>> [(rung.length, rung.count) for rung in make_rungs(7, 4)]
        [(0.25, 7), (1.0, 2)]
    """
    half, quarter = -(-count // 2), -(-count // 4)
    options: list[tuple[Rung, ...]] = [(Rung(1.0, count),)] if count else []
    if count > 3:
        options.append((Rung(FIRST_LENGTH, count), Rung(SECOND_LENGTH, half), Rung(1.0, quarter)))
    options += [(Rung(FIRST_LENGTH, count), Rung(1.0, kept)) for kept in range(half, 0, -1) if count > 1]
    affordable = (rungs for rungs in options if sum(rung.length * rung.count for rung in rungs) <= budget + 1e-9)
    return next(affordable, ())


def make_schedule(
    case: Case, budget: float, methods: Sequence[str] | None = None, start: str = "auto", seed: int = 0
) -> tuple[tuple[Recipe, ...], tuple[StrengthSweep, ...]]:
    """What the budget buys, in order of promise: trainings in full, and sweeps that are ranked by short ones first.

    A budget that is a little too small for one thing may still buy a later, cheaper one, but nothing is trained
    before what it uses.
    """
    left = budget
    chosen: list[Recipe] = []
    sweeps: list[StrengthSweep] = []
    for method, block in groupby(wishes(case, methods, start, seed), key=lambda group: _swept_by(group[0])):
        groups = list(block)
        strengths = tuple(recipe for group in groups for recipe in group)
        needed = _not_yet(strengths, chosen)
        rungs = make_rungs(len(strengths), left - sum(recipe.length for recipe in needed)) if method else ()
        if len(rungs) > 1:
            sweeps.append(StrengthSweep(method, strengths, rungs))
            chosen += needed
            left -= sweeps[-1].cost + sum(recipe.length for recipe in needed)
            continue
        for group in groups:
            bought = [*_not_yet(group, chosen), *group]
            cost = sum(recipe.length for recipe in bought)
            if cost > left + 1e-9:
                break
            chosen += bought
            left -= cost
    return tuple(chosen), tuple(sweeps)


def _not_yet(recipes: Sequence[Recipe], chosen: Sequence[Recipe]) -> list[Recipe]:
    """What these use and what is neither trained before nor among them."""
    used = dict.fromkeys(used.name for recipe in recipes for used in recipe.uses)
    by_name = {used.name: used for recipe in recipes for used in recipe.uses}
    there = {recipe.name for recipe in (*chosen, *recipes)}
    return [by_name[name] for name in used if name not in there]


def make_recipes(
    case: Case, budget: float, methods: Sequence[str] | None = None, start: str = "auto", seed: int = 0
) -> tuple[Recipe, ...]:
    """The trainings in full that the budget buys, without those that short trainings must choose."""
    return make_schedule(case, budget, methods, start, seed)[0]


def _swept_by(recipe: Recipe) -> str:
    """The method whose strengths are ranked together; distillation is trained light first, from its own list."""
    return recipe.sweep if recipe.sweep != "fd-lm" else ""
