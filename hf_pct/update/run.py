"""`update`: plan, train candidates as far as the budget goes, choose by contract, certify, write."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ..flips.choice.certify import Certificate, certify
from ..flips.choice.choose import Choice, Point, choose
from ..flips.choice.contract import Contract
from ..flips.report import FlipReport
from ..flips.tables.predictions import Predictions
from ..models.load import load_model
from ..models.quiet import quiet
from ..models.types import RowSource
from .candidates import Measured
from .costs import time_plan
from .planning.plan import Plan
from .policy_candidates import policy_candidates
from .prepare import Request, prepare
from .search import Search
from .training import Workshop

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Update:
    """The result of an update. `kept` is False when nothing keeps the contract; the plain model is written then.

    Example:
        >>> from hf_pct.update import update
        >>> result = update("v1", "train.jsonl", "dev.jsonl", dry_run=True, progress=False)
        >>> result.plan.budget, result.shipped  # a dry run only plans
        (1, None)
    """

    plan: Plan
    candidates: tuple[Measured, ...] = ()
    choice: Choice | None = None
    shipped: Point | None = None
    certificate: Certificate | None = None
    dropped: Mapping[str, str] | None = None
    report: FlipReport | None = None
    folder: Path | None = None
    workshop: Workshop | None = None
    ranked: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def kept(self) -> bool:
        return self.choice is not None and self.choice.best is not None

    @property
    def model(self) -> nn.Module:
        """The model that was written, loaded."""
        if self.folder is None:
            raise ValueError("No model was written: give output_dir, and no dry_run.")
        return load_model(str(self.folder)).model

    @property
    def chosen(self) -> Measured:
        """The candidate that was written."""
        if self.shipped is None:
            raise ValueError("Nothing was chosen: this was a dry run.")
        return next(candidate for candidate in self.candidates if candidate.name == self.shipped.candidate)

    def _repr_html_(self) -> str:
        from ..viz.page.candidates import candidates_svg

        return candidates_svg(self.choice, self.shipped) if self.choice else f"<pre>{self.plan.to_text()}</pre>"


def update(
    old_model: str | os.PathLike | None,
    train_dataset: RowSource,
    eval_dataset: RowSource,
    *,
    contract: Contract | None = None,
    budget: float = 1,
    test_dataset: RowSource | None = None,
    base_model: str | None = None,
    old_predictions: Sequence[str | os.PathLike | Predictions] = (),
    start: str = "auto",
    methods: Sequence[str] | None = None,
    training: Mapping[str, object] | None = None,
    columns: Mapping[str, object] | None = None,
    output_dir: str | os.PathLike | None = None,
    candidates_dir: str | os.PathLike | None = None,
    allow_missing_classes: bool = False,
    allow_two_forwards: bool = False,
    seed: int = 0,
    dry_run: bool = False,
    progress: bool = True,
    announce: Callable[[str], None] | None = None,
) -> Update:
    """From an old model and more data to the model to ship, by contract.

    Args:
        old_model: the folder or Hub id of the model in service; None with `old_predictions`.
        train_dataset: rows to train on, old and new ones together: a file or a dataset.
        eval_dataset: development rows, which the choice is made on. None of them may be a training row.
        contract: what may not be lost; by default nothing, against the best plain model.
        budget: how many plain trainings the search may cost, at least 1.
        test_dataset: rows for the flip report; the development rows by default.
        base_model: what a model trained anew starts from; another architecture makes this an update of architecture.
        old_predictions: tables of the old model's answers, by the ids of rows, where the model itself is missing.
            They must cover development and test rows; with logits of the training rows, these are distilled.
        start: `old`, `anew`, or `auto`: from the old model where that is possible.
        methods: narrows the plan: plain, fd-lm, soup, anew, fusion, or any method with members or with strengths.
        training: `TrainingArguments` for every training: epochs, learning rate, batch size, report_to.
        columns: names of columns: id_column, input_column, label_column.
        output_dir: where the model, the record, the report and the page go.
        candidates_dir: where trained candidates are kept, beside `output_dir` by default. A stopped run goes on there.
        allow_missing_classes: allow classes of the old model without training rows.
        allow_two_forwards: allow a model that asks both the old and the new one for every row.
        seed: of the first training; soups count on from it.
        dry_run: only make the plan.
        progress: one bar over the whole plan.
        announce: called with one line for every step, such as `print`.

    Example:
        >>> from hf_pct.update import Contract, update
        >>> options = {"training": {"max_steps": 2}, "output_dir": "next", "progress": False}
        >>> result = update("v1", "train.jsonl", "dev.jsonl", contract=Contract(margin=0.01), **options)
        >>> result.kept, result.shipped.candidate, (result.folder / "update.html").is_file()
        (True, 'fd-lm light', True)
    """
    contract = contract or Contract()
    request = Request(
        None if old_model is None else str(old_model),
        {"train": train_dataset, "dev": eval_dataset, "test": test_dataset},
        contract, budget, base_model, tuple(old_predictions), start, methods, dict(training or {}),
        dict(columns or {}), output_dir, candidates_dir, allow_missing_classes, allow_two_forwards, seed,
    )  # fmt: skip
    with quiet():  # one bar over the whole plan, and none of every training and loading
        workshop, plan = prepare(request)
        if dry_run:
            return Update(time_plan(plan, workshop))
        if announce:
            announce(plan.to_text())
        search = Search(workshop, plan, announce, progress)
        candidates = search.run()
        candidates += policy_candidates(workshop, plan, candidates, methods, search.search_rows)
        result = _choose(plan, candidates, search, workshop)
        if output_dir is None:
            return result
        from .write import write_update

        return write_update(result, workshop, Path(output_dir))


def _choose(plan: Plan, candidates: Sequence[Measured], search: Search, workshop: Workshop) -> Update:
    """The choice on all development rows, or on the search part with the proof on the other."""
    listed = [measured.candidate() for measured in candidates]
    certificate = None
    if plan.contract.certify:
        choice, certificate = certify(listed, plan.contract)
    else:
        choice = choose(listed, plan.contract)
    shipped = choice.best or next(
        point for point in choice.points if point.candidate == choice.yardstick and point.alpha == 0
    )
    return Update(
        plan, tuple(candidates), choice, shipped, certificate, search.dropped, workshop=workshop, ranked=search.ranked
    )
