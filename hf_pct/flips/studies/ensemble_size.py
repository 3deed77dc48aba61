"""NFR against the number of members: what an ensemble of m models on both sides of an update would break.

Errors level off after a few members while NFR goes on falling (Yan et al., Fig. 3; Zhao et al., Fig. 2). Tables of a
dozen single runs are enough to draw the curve for your task, before you train or serve an ensemble.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from ...core.decode import JsonObject
from ...core.errors import NotComparableError, first_five
from ..render.report import percent, table
from ..tables.predictions import Predictions
from .draws import Draw, Sides, draw_ensembles, two_sides
from .member_tables import MemberTables


@dataclass(frozen=True)
class EnsembleSizeReport:
    """Rates over drawn ensembles, one entry per size: the mean of the draws and their standard deviation.

    Draws share members, so the deviation shows how much depends on which of these models are taken; it is no
    standard error of the mean, and 0.0 where there is a single draw. `draws` says how many pairs of ensembles each
    size has. With `one_pool`, both sides come from the same models and have no member in common.
    """

    sizes: tuple[int, ...]
    draws: tuple[int, ...]
    nfr: tuple[float, ...]
    nfr_std: tuple[float, ...]
    old_error_rate: tuple[float, ...]
    old_error_rate_std: tuple[float, ...]
    new_error_rate: tuple[float, ...]
    new_error_rate_std: tuple[float, ...]
    rows: int
    old_members: int
    new_members: int
    one_pool: bool

    def figure(self, name: str | None = None) -> JsonObject:
        """The arguments of `viz.plots.nfr_by_ensemble_size`, for `FlipReport.with_figures` and `save_plots`.

        `name` tells this curve apart from those of other reports of the same sizes, drawn into one picture.
        """
        ends = f", {name}" if name else ""
        return {
            "sizes": list(self.sizes),
            "nfr": {name or "old to new": list(self.nfr)},
            "error_rate": {f"old{ends}": list(self.old_error_rate), f"new{ends}": list(self.new_error_rate)},
        }

    def to_dict(self) -> JsonObject:
        return {"format": "hf_pct.ensemble_size", "format_version": 1, **asdict(self)}

    def to_markdown(self) -> str:
        """The table for people, with the standard deviation over the draws."""
        rates = ("nfr", "old_error_rate", "new_error_rate")
        rows = [
            (size, drawn, *(_with_spread(getattr(self, r)[at], getattr(self, f"{r}_std")[at], drawn) for r in rates))
            for at, (size, drawn) in enumerate(zip(self.sizes, self.draws, strict=True))
        ]
        return "\n\n".join(
            [
                f"# NFR by ensemble size on {self.rows:,} rows",
                f"Ensembles {origin(self.old_members, self.new_members, self.one_pool)}; mean and standard deviation "
                "over the draws.",
                table(["members", "draws", "NFR", "old error rate", "new error rate"], rows),
            ]
        ) + "\n"  # fmt: skip


def nfr_by_ensemble_size(
    old_members: Sequence[Predictions],
    new_members: Sequence[Predictions],
    sizes: Sequence[int] | None = None,
    draws: int = 20,
    seed: int = 0,
) -> EnsembleSizeReport:
    """NFR and error rates when an ensemble of m old members is replaced by one of m new members.

    Args:
        old_members: tables with logits of models of the old recipe, on the same rows.
        new_members: those of the new recipe, on the same rows. The same list as `old_members` is one pool of models:
            both ensembles are then drawn from it without a common member, so that m is at most half of it.
        sizes: how many members; by default 1, 2, 4, ... and as many as there are.
        draws: pairs of ensembles a size; all there are when they are fewer.
        seed: of the draws.

    Rows are those whose label the old members know, as in `compare`.
    """
    sides = two_sides(old_members, new_members)
    plan = draw_ensembles(sides, sizes, draws, seed)
    counted = sides.old.label_columns >= 0
    if not counted.any():
        raise NotComparableError(
            f"None of the {len(counted)} rows has a label that the old members know, so nothing can flip. Their "
            f"classes: {first_five(sides.old.label_names)}."
        )
    measured = {size: _rates(sides, pairs, counted) for size, pairs in plan.items()}

    def over_draws(column: int) -> dict[str, tuple[float, ...]]:
        name = ("nfr", "old_error_rate", "new_error_rate")[column]
        return {
            name: tuple(float(rates[:, column].mean()) for rates in measured.values()),
            f"{name}_std": tuple(
                float(rates[:, column].std(ddof=1)) if len(rates) > 1 else 0.0 for rates in measured.values()
            ),
        }

    return EnsembleSizeReport(
        sizes=tuple(plan),
        draws=tuple(len(pairs) for pairs in plan.values()),
        **over_draws(0),
        **over_draws(1),
        **over_draws(2),
        rows=int(counted.sum()),
        old_members=len(sides.old),
        new_members=len(sides.new),
        one_pool=sides.one_pool,
    )


def origin(old_members: int, new_members: int, one_pool: bool) -> str:
    """Where drawn ensembles come from, in words."""
    if one_pool:
        return f"drawn from one pool of {old_members} models, without a common member"
    return f"drawn from {old_members} old and {new_members} new members"


def _rates(sides: Sides, pairs: Sequence[Draw], counted: np.ndarray) -> np.ndarray:
    """NFR, old and new error rate of each pair; an ensemble is averaged once, however often it is drawn."""
    old_right: dict[tuple[int, ...], np.ndarray] = {}
    new_right: dict[tuple[int, ...], np.ndarray] = {}
    rates = []
    for old, new in pairs:
        for chosen, side, known in ((old, sides.old, old_right), (new, sides.new, new_right)):
            if chosen not in known:
                known[chosen] = _right(side, chosen)[counted]
        was, now = old_right[old], new_right[new]
        rates.append((np.mean(was & ~now), np.mean(~was), np.mean(~now)))
    return np.array(rates)


def _right(members: MemberTables, chosen: tuple[int, ...]) -> np.ndarray:
    # float32, as a table of predictions keeps logits: the answers are those of `mean_predictions`
    return members.mean_logits(chosen).astype(np.float32).argmax(-1) == members.label_columns


def _with_spread(rate: float, deviation: float, draws: int) -> str:
    return f"{percent(rate)} ± {100 * deviation:.2f}" if draws > 1 else percent(rate)
