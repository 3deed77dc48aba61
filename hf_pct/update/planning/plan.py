"""The plan: what will be trained and why, what it costs, and what prevents it. Nothing is trained here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...flips.choice.contract import Contract
from .recipes import CANDIDATE, OWN, Case, Recipe, known_methods, soup_name, swept_methods
from .schedule import StrengthSweep, make_recipes, make_schedule

__all__ = [
    "OWN", "Case", "Costs", "Plan", "Recipe", "check_request", "make_recipes", "make_schedule", "swept_methods",
]  # fmt: skip
STARTS = ("auto", "old", "anew")
POLICIES = ("fusion", "bayes")
"""Candidates that decide between two models' answers and cost no training."""


@dataclass(frozen=True)
class Costs:
    """What a plan takes; times are None until a few steps were timed."""

    disk: int = 0
    memory: int = 0
    seconds_per_training: float | None = None
    seconds_per_measurement: float | None = None


@dataclass(frozen=True)
class Plan:
    """Trainings in order, cheap and promising ones first, then sweeps, and what they cost.

    The mean of those that are `mixed` is measured too.

    Example:
        >>> from hf_pct.update import Contract, Plan
        >>> from hf_pct.update.planning.plan import Case, make_recipes
        >>> case = Case(same_architecture=True, added_classes=0, base_model=False)
        >>> plan = Plan(case, make_recipes(case, budget=2), budget=2, contract=Contract(margin=0.005))
        >>> [recipe.name for recipe in plan.recipes], plan.length
        (['fd-lm light', 'plain'], 2.0)
    """

    case: Case
    recipes: tuple[Recipe, ...]
    budget: float
    contract: Contract
    sweeps: tuple[StrengthSweep, ...] = ()
    mixed: tuple[Recipe, ...] = ()
    costs: Costs = field(default_factory=Costs)
    rows: Mapping[str, int] = field(default_factory=dict)

    @property
    def length(self) -> float:
        """How many plain trainings it costs."""
        return sum(recipe.length for recipe in self.recipes) + sum(sweep.cost for sweep in self.sweeps)

    @property
    def first(self) -> Recipe:
        """The first training; a plan may have sweeps alone."""
        return next(iter(self.recipes or self.sweeps[0].recipes))

    @property
    def trainings(self) -> int:
        return len(self.recipes) + sum(rung.count for sweep in self.sweeps for rung in sweep.rungs)

    @property
    def yardstick(self) -> str:
        """What accuracy is held against, in words."""
        if self.contract.yardstick is not None:
            return f"{self.contract.yardstick}, as the contract says"
        plain = [recipe.name for recipe in self.recipes if recipe.plain]
        if plain:
            return plain[0] if len(plain) == 1 else f"the more accurate of {' and '.join(plain)}"
        first = next((recipe.family for recipe in self.recipes if recipe.role == CANDIDATE), "the first candidate")
        return f"{first} without merging, as budget {self.budget:g} trains no plain model"

    def to_text(self) -> str:
        against = "the best plain model" if any(recipe.plain for recipe in self.recipes) else "the yardstick"
        lines = [f"plan: {self.case.describe()}", f"contract: {self.contract.describe(against)}"]
        if self.contract.target_accuracy is None:
            lines.append(f"yardstick: {self.yardstick}")
        if self.rows:
            lines.append("rows: " + ", ".join(f"{name} {count:,}" for name, count in self.rows.items() if count))
        for number, recipe in enumerate(self.recipes, 1):
            lines.append(f"  {number}. {recipe.name}: {recipe.why}")
        lines += [f"  {len(self.recipes) + number}. {sweep.describe()}" for number, sweep in enumerate(self.sweeps, 1)]
        if self.mixed:
            lines.append(f"  and at no training: {soup_name(self.mixed)}")
        lines.append(f"cost: {self.length:g} of {self.budget:g} plain trainings")
        return "\n".join([*lines, *self._costs()])

    def _costs(self) -> list[str]:
        lines, costs = [], self.costs
        if costs.seconds_per_training is not None and costs.seconds_per_measurement is not None:
            total = costs.seconds_per_training * self.length + costs.seconds_per_measurement * self.trainings
            lines.append(
                f"time: about {_minutes(total)} in all; a plain training {_minutes(costs.seconds_per_training)}, "
                f"measuring a candidate {_minutes(costs.seconds_per_measurement)}"
            )
        if costs.disk:
            lines.append(f"disk: about {_megabytes(costs.disk)}")
        if costs.memory:
            lines.append(f"memory: about {_megabytes(costs.memory)} for weights, gradients, optimizer and references")
        return lines


def check_request(budget: float, start: str, methods: Sequence[str] | None, case: Case) -> list[str]:
    """What cannot be asked for, one line each."""
    problems = []
    if not 1 <= budget < float("inf"):
        problems.append(f"budget is {budget}, expected at least 1: it counts plain trainings")
    if start not in STARTS:
        problems.append(f"start is {start!r}, expected one of {', '.join(STARTS)}")
    known = [*known_methods(), *POLICIES]
    unknown = [name for name in methods or () if name not in known]
    if unknown:
        problems.append(f"methods are {', '.join(unknown)}, expected some of {', '.join(known)}")
    return problems + _start_problems(start, methods, case)


def _start_problems(start: str, methods: Sequence[str] | None, case: Case) -> list[str]:
    problems = []
    if start == "old" and case.predictions_only:
        problems.append("start is 'old', but only predictions of the old model are available: leave start out")
    elif start == "old" and not case.same_architecture:
        problems.append(
            "start is 'old', but the base model has another architecture or tokenizer than the old model: its weights "
            "are no start for it. Leave start out, or leave base_model out"
        )
    if start == "anew" and not case.base_model:
        problems.append("start is 'anew', which needs base_model (--base_model): the model to start from")
    if "anew" in (methods or ()) and not case.base_model:
        problems.append("the method anew needs base_model (--base_model): the model to start from")
    if "fusion" in (methods or ()) and not (case.two_forwards or case.predictions_only):
        problems.append("the method fusion runs two models per row: say so with allow_two_forwards")
    if "bayes" in (methods or ()) and not case.predictions_only:
        problems.append("the method bayes is for old_predictions (--old_predictions), answers without a model")
    return problems


def _minutes(seconds: float) -> str:
    if seconds < 1:
        return "less than a second"
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} minutes"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB" if size < 1e10 else f"{size / 1e9:,.0f} GB"
