"""From a request to a plan: everything is checked here, and every problem reported at once, before any training."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from ..core.files import output_problems
from ..flips.choice.certify import find_unprovable
from ..flips.choice.contract import Contract
from ..flips.tables.predictions import Predictions
from ..models.load import LoadedModel, load_model
from ..models.revisions import resolve_folder
from .costs import estimate_sizes, one_row_problems
from .inputs.data import UpdateData, read_data
from .inputs.models import load_base, same_architecture
from .inputs.old_tables import OldTables
from .planning.plan import POLICIES, Plan, check_request
from .planning.recipes import Case, mixture
from .planning.schedule import make_schedule
from .training import Workshop

Loaded = TypeVar("Loaded")


@dataclass(frozen=True)
class Request:
    """What was asked for; see `update` for what each means."""

    old_model: str | None
    parts: Mapping[str, object]
    contract: Contract
    budget: float = 1
    base_model: str | None = None
    old_predictions: Sequence[str | os.PathLike | Predictions] = ()
    start: str = "auto"
    methods: Sequence[str] | None = None
    training: Mapping[str, object] = field(default_factory=dict)
    columns: Mapping[str, object] = field(default_factory=dict)
    output_dir: str | os.PathLike | None = None
    candidates_dir: str | os.PathLike | None = None
    allow_missing_classes: bool = False
    allow_two_forwards: bool = False
    seed: int = 0

    @property
    def candidates_folder(self) -> Path:
        if self.candidates_dir:
            return Path(self.candidates_dir)
        output = Path(self.output_dir or "update")
        return output.with_name(output.name + "-candidates")


@dataclass(frozen=True)
class _Models:
    """The old model, its tables where it is not available, and the base model."""

    folder: str
    old: LoadedModel
    base: LoadedModel | None
    tables: OldTables | None


def prepare(request: Request) -> tuple[Workshop, Plan]:
    """The plan and what it is run with, or one error that names every problem."""
    problems = _source_problems(request)
    if problems:
        _refuse(problems)
    models = _load(request)
    names = models.tables.label_names if models.tables else None
    data, problems = read_data(models.old, request.parts, request.columns, request.allow_missing_classes, names)
    case = _find_case(request, models, data)
    if models.tables:
        problems += models.tables.problems(data.dev, "development")
        problems += models.tables.problems(data.test, "test") if data.test is not None else []
    problems += check_request(request.budget, request.start, request.methods, case)
    problems += option_problems(request.training) + find_unprovable(request.contract, len(data.dev))
    plan = Plan(case, (), request.budget, request.contract, rows={
        "training": len(data.train), "development": len(data.dev), "test": len(data.test or ())
    })  # fmt: skip
    workshop = Workshop(
        models.folder, models.old, models.base, data, request.candidates_folder, dict(request.training), models.tables
    )
    if not problems:
        plan, problems = _with_recipes(plan, request, workshop)
    problems += _place_problems(request, plan.costs.disk)
    if problems:
        _refuse(problems)
    return workshop, plan


def _refuse(problems: Sequence[str]) -> None:
    raise ValueError("This update cannot be planned:\n  " + "\n  ".join(problems))


def _source_problems(request: Request) -> list[str]:
    """What is missing before anything can be loaded."""
    problems = []
    if bool(request.old_model) == bool(request.old_predictions):
        passed = "both" if request.old_model else "neither"
        problems.append(
            f"old_model and old_predictions: got {passed}, expected one of them: the model in service, or its answers"
        )
    if request.old_predictions and not request.base_model:
        problems.append("old_predictions need base_model (--base_model): the model that training starts from")
    for name in ("train", "dev"):
        if request.parts.get(name) is None:
            problems.append(f"there are no {'training' if name == 'train' else 'development'} rows")
    return problems


def _load(request: Request) -> _Models:
    """The models; what cannot be loaded is named, all of it at once."""
    problems: list[str] = []
    loaded: dict[str, Any] = {}
    folder = ""
    if request.old_model:
        folder = request.old_model
        loaded["old"] = _attempt("old_model", problems, lambda: load_model(resolve_folder(str(request.old_model))))
        if not problems:
            folder = resolve_folder(str(request.old_model))
    if request.base_model:
        loaded["base"] = _attempt("base_model", problems, lambda: load_base(str(request.base_model)))
    if request.old_predictions:
        loaded["tables"] = _attempt("old_predictions", problems, lambda: OldTables.load(request.old_predictions))
    old, base = loaded.get("old"), loaded.get("base")
    if old and base and old.task.kind != base.task.kind:
        problems.append(
            f"base_model reads rows of kind {base.task.kind} and the old model rows of kind {old.task.kind}; expected "
            "one that reads what the old one reads"
        )
    if problems:
        _refuse(problems)
    return _Models(folder, loaded.get("old") or loaded["base"], loaded.get("base"), loaded.get("tables"))


def _attempt(name: str, problems: list[str], load: Callable[[], Loaded]) -> Loaded | None:
    try:
        return load()
    except (ValueError, OSError) as error:
        problems.append(f"{name}: {error}")
        return None


def _find_case(request: Request, models: _Models, data: UpdateData) -> Case:
    tables = models.tables
    return Case(
        tables is None and same_architecture(models.old, models.base),
        len(data.added),
        models.base is not None,
        predictions_only=tables is not None,
        old_logits=tables is None or (tables.has_logits and tables.covers(data.train)),
        two_forwards=request.allow_two_forwards,
        images=models.old.task.kind == "image",
    )


def _with_recipes(plan: Plan, request: Request, workshop: Workshop) -> tuple[Plan, list[str]]:
    """The plan with what the budget buys, and what is wrong with that."""
    trained = None if request.methods is None else [name for name in request.methods if name not in POLICIES]
    if request.methods and not trained:
        trained = ["plain"]  # a policy needs a new model beside the old one
    recipes, sweeps = make_schedule(plan.case, request.budget, trained, request.start, request.seed)
    plan = replace(plan, recipes=recipes, sweeps=sweeps, mixed=mixture(recipes, trained))
    problems = []
    if not recipes and not sweeps:
        asked = ", ".join(request.methods or ()) or "the methods of this case"
        problems.append(f"{asked}: nothing can be trained at budget {request.budget:g}")
    yardstick = request.contract.yardstick
    names = [recipe.family for recipe in recipes]
    if yardstick is not None and yardstick not in names:
        problems.append(
            f"the contract's yardstick is {yardstick!r}, and the plan trains {', '.join(names) or 'nothing'}; name "
            "one of these, or give a larger budget"
        )
    try:
        plan = replace(plan, costs=estimate_sizes(plan, workshop))
        problems += one_row_problems(plan, workshop) if recipes or sweeps else []
    except (ValueError, TypeError) as error:
        problems.append(f"training options: {error}")
    return plan, problems


def option_problems(training: Mapping[str, object]) -> list[str]:
    """Training options that no run can start with."""
    problems = []
    for name, least in (("num_train_epochs", 0), ("learning_rate", 0), ("per_device_train_batch_size", 0)):
        value = training.get(name)
        if value is not None and not (isinstance(value, int | float) and math.isfinite(value) and value > least):
            problems.append(f"{name} is {value}, expected a finite number above {least}")
    return problems


def _place_problems(request: Request, needed: int) -> list[str]:
    """Why nothing can be written: a folder that is taken, read-only, or on a full disk."""
    problems = []
    if request.output_dir is not None:
        problems += output_problems(Path(request.output_dir), max(needed, 1))
    folder = request.candidates_folder
    if folder.exists() and not folder.is_dir():
        problems.append(f"{folder}: is a file, expected the folder of the candidates")
    elif request.output_dir is None or folder.parent != Path(request.output_dir).parent:
        place = folder / "candidate"  # inside: a folder with candidates of an earlier run is where this one goes on
        problems += output_problems(place, max(needed, 1))
    return problems
