"""Candidates: trained folders with their answers along alpha on the development rows, measured once and kept."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from ..core.files import write_whole
from ..flips.choice.choose import LATE_ALPHA, Candidate, choose
from ..flips.choice.contract import Contract
from ..flips.choice.curve import AlphaCurve
from ..flips.choice.margins import row_margins
from ..flips.choice.prior import APART, LINEAR, WARPED, Prior, linear_prior
from ..flips.tables.predictions import Predictions
from ..merging.arguments import BCWIArguments
from ..merging.merger import BCWIMerger
from ..models.batchnorm import batchnorm_layers
from ..models.data import Rows
from ..models.fingerprints import Digest
from ..models.load.inputs import Collator
from ..policies.fusion import Fusion
from .planning.recipes import Recipe, soup_name
from .processes import agreed, is_main, wait
from .training import Workshop

ALPHAS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
"""Where a candidate may be measured. Few updates can afford more than 0.6."""
COARSE = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Where it is measured at first: every further alpha is a forward of all development rows, and between these the curve
is smooth. Beside the alpha that is then chosen the finer ones are measured too."""
RECALIBRATION_ROWS = 1024
"""Training rows from which BatchNorm layers take their statistics at every alpha: a forward of each, every time."""
SPARE_LOSS = 0.01
"""By how much a candidate may be better than the yardstick before it is merged; see `_lost_for_sure`."""


@dataclass(frozen=True)
class Measured:
    """One candidate: its recipes and folders (several are a soup), and its rows along alpha.

    With a `policy`, answers are decided between the old model's and those of the first folder, and alpha is how much
    the old model counts: `fusion` holds the fitted numbers, `bayes` the ratio of costs at every alpha. `law` is what
    is known of a merge before rows are looked at.
    """

    name: str
    recipes: tuple[Recipe, ...]
    folders: tuple[Path, ...]
    curve: AlphaCurve
    mergeable: bool
    policy: str = ""
    fusion: Fusion | None = None
    law: Prior = LINEAR

    @property
    def plain(self) -> bool:
        return all(recipe.plain for recipe in self.recipes) and not self.policy

    def candidate(self, rows: np.ndarray | None = None) -> Candidate:
        curve = self.curve if rows is None else self.curve.rows(rows)
        return Candidate(self.name, curve, self.plain, self.prior, self.recipes[0].start)

    @property
    def prior(self) -> Prior:
        """What is known of its curve before rows are looked at."""
        if self.policy:
            return WARPED
        return self.law if self.mergeable else APART


def measure(
    workshop: Workshop,
    recipes: Sequence[Recipe],
    rows: Rows,
    allowed_loss: float | None = None,
    alphas: Sequence[float] = ALPHAS,
) -> Measured:
    """Answers of a candidate at some alphas on these rows, from its folder when they are there.

    With `allowed_loss`, larger alphas are left out once one of them cannot be chosen any more.
    """
    folders = tuple(workshop.place(recipe) for recipe in recipes)
    mergeable = recipes[0].start == "old"
    members = "" if len(folders) == 1 else "-" + Digest().add([folder.name for folder in folders]).hex()[:8]
    part = "" if allowed_loss is None else f"-{allowed_loss:g}"
    part += "" if tuple(alphas) == ALPHAS else "-at-" + "-".join(f"{alpha:g}" for alpha in alphas)
    path = folders[0] / f"margins-{rows.fingerprint[:12]}-{len(recipes)}{members}{part}.parquet"
    if not agreed(path.is_file()):
        merged = mergeable or len(recipes) > 1
        if merged:
            curve = _sweep(workshop, recipes, rows, allowed_loss, alphas)
        else:
            curve = _unmerged(workshop, folders[0], rows)
        if is_main():
            _save(path, curve)
        wait()
    added = bool(set(workshop.data.names) - set(workshop.old_names))
    law = linear_prior(added, bool(batchnorm_layers(workshop.loaded(recipes[0]).model)))
    return Measured(soup_name(recipes), tuple(recipes), folders, _load(path), mergeable, law=law)


def finer_alphas(alpha: float) -> tuple[float, ...]:
    """The alphas on both sides of this one, as far as there are any."""
    place = min(range(len(ALPHAS)), key=lambda i: abs(ALPHAS[i] - alpha))
    return tuple(ALPHAS[i] for i in (place - 1, place + 1) if 0 <= i < len(ALPHAS))


def look_closer(workshop: Workshop, measured: Measured, alpha: float, rows: Rows) -> Measured:
    """The same candidate with the alphas on both sides of this one."""
    missing = [other for other in finer_alphas(alpha) if not np.isclose(measured.curve.alphas, other).any()]
    if not (measured.mergeable and missing) or measured.policy:
        return measured
    finer = measure(workshop, measured.recipes, rows, alphas=(0.0, *missing))
    return replace(measured, curve=measured.curve.with_alphas(finer.curve))


def make_merger(
    workshop: Workshop, recipes: Sequence[Recipe], rows: Sequence[Mapping[str, object]], scratch: str
) -> BCWIMerger:
    """The merge of a candidate with the old model, over prepared rows; several folders are averaged first.

    Where the old model is another architecture only alpha 0 is of use, the mean itself.
    """
    loaded, folders = workshop.loaded(recipes[0]), [str(workshop.place(recipe)) for recipe in recipes]
    return BCWIMerger(
        workshop.old_folder if recipes[0].start == "old" else folders[0],
        folders,
        BCWIArguments(
            output_dir=scratch, method="soup" if len(recipes) > 1 else "linear", remove_unused_columns=False,
            use_cpu=not torch.cuda.is_available(), disable_tqdm=True, report_to="none",
            per_device_eval_batch_size=64, alphas=list(ALPHAS), recalibration_samples=RECALIBRATION_ROWS,
        ),
        train_dataset=workshop.prepared(loaded, workshop.data.train),
        eval_dataset=rows,
        data_collator=Collator(loaded),
    )  # fmt: skip


def _sweep(
    workshop: Workshop, recipes: Sequence[Recipe], rows: Rows, allowed_loss: float | None, alphas: Sequence[float]
) -> AlphaCurve:
    """Alpha 1 is the old model, whose answers are there; all other alphas are forwards, smallest first.

    A soup that was not trained from the old model is measured at alpha 0 alone.
    """
    prepared = workshop.prepared(workshop.loaded(recipes[0]), rows)
    order = np.argsort([_length(row) for row in prepared], kind="stable")  # rows of like length need little padding
    right: dict[float, np.ndarray] = {1.0: right_rows(workshop.old_answers(rows), rows)}
    margins: dict[float, np.ndarray] = {}
    back = np.argsort(order)
    with tempfile.TemporaryDirectory() as scratch:
        merger = make_merger(workshop, recipes, [prepared[i] for i in order], scratch)
        for alpha in [alpha for alpha in alphas if alpha < 1] if recipes[0].start == "old" else alphas[:1]:
            logits, labels = merger.logits_at(alpha)
            right[alpha], margins[alpha] = (logits.argmax(-1) == labels)[back], row_margins(logits, labels)[back]
            if allowed_loss is not None and _is_last(alpha, right, allowed_loss):
                break
    old = right[1.0] if recipes[0].start == "old" else right.pop(1.0)
    return AlphaCurve.of(old, right, margins)


def _is_last(alpha: float, right: Mapping[float, np.ndarray], allowed_loss: float) -> bool:
    """Whether larger alphas are not worth a forward: this one loses far too much, or is late and loses anything."""
    late = alpha >= LATE_ALPHA and right[alpha].mean() < right[0.0].mean()
    return bool(late or _lost_for_sure(right[alpha], right[0.0], allowed_loss))


def _lost_for_sure(merged: np.ndarray, unmerged: np.ndarray, allowed_loss: float) -> bool:
    """Whether a merged model is three standard errors and `SPARE_LOSS` beyond the loss that is allowed.

    The unmerged model may be better than the yardstick, so it is given something to lose.
    """
    lost = unmerged.astype(float) - merged
    return bool(lost.mean() - 3 * lost.std() / np.sqrt(len(lost)) > allowed_loss + SPARE_LOSS)


def _length(row: Mapping[str, object]) -> int:
    """How many tokens a row has; images have none, and are all of one size."""
    tokens = row.get("input_ids")
    return len(tokens) if isinstance(tokens, Sized) else 0


def _unmerged(workshop: Workshop, folder: Path, rows: Rows) -> AlphaCurve:
    """A candidate of another architecture: alpha 0 alone."""
    old, new = workshop.old_answers(rows), workshop.answers(str(folder), rows)
    return AlphaCurve.of(right_rows(old, rows), {0.0: right_rows(new, rows)}, {0.0: _table_margins(new, rows)})


def _table_margins(table: Predictions, rows: Rows) -> np.ndarray:
    """Margins of a model's own answers; unknown when it does not know every class of the rows."""
    place = {name: index for index, name in enumerate(table.label_names or ())}
    if table.logits is None or not set(rows.labels) <= set(place):
        return np.full(len(rows), np.nan)
    return row_margins(np.asarray(table.logits), np.array([place[label] for label in rows.labels]))


def right_rows(table: Predictions, rows: Rows) -> np.ndarray:
    """Which of the rows a table answers as they are labelled."""
    return np.array([str(answer) == label for answer, label in zip(table.predictions, rows.labels, strict=True)])


def _save(path: Path, curve: AlphaCurve) -> None:
    columns = {"old": curve.old_correct}
    columns |= {f"alpha_{alpha:g}": rows for alpha, rows in zip(curve.alphas, curve.correct, strict=True)}
    if curve.margins is not None:
        columns |= {f"margin_{alpha:g}": rows for alpha, rows in zip(curve.alphas, curve.margins, strict=True)}
    with write_whole(path, overwrite=True) as partial:
        pq.write_table(pa.table(columns), partial)


def _load(path: Path) -> AlphaCurve:
    table = pq.read_table(path)
    columns = {name: np.array(table[name].to_pylist()) for name in table.column_names}
    right, margins = (
        {float(name.removeprefix(start)): rows for name, rows in columns.items() if name.startswith(start)}
        for start in ("alpha_", "margin_")
    )
    return AlphaCurve.of(columns["old"], right, margins)


def is_dominated(name: str, candidates: Sequence[Candidate], contract: Contract) -> bool:
    """Whether at every alpha of this one another is expected to have fewer flips, and surely loses less accuracy.

    Half a point between two candidates is noise on a few hundred rows, and the next seed of this one may be the
    better one; what is dropped must be behind by more than its own interval.
    """
    points = choose(candidates, contract).points
    own = [point for point in points if point.candidate == name and point.alpha < 1]
    others = [point for point in points if point.candidate != name and point.alpha < 1]
    return bool(others) and all(
        any(o.expected_nfr < p.expected_nfr and o.expected_loss < p.loss_low for o in others) for p in own
    )
