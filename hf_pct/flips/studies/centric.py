"""The member closest to all others: the one to ship when an ensemble costs too much to serve (Xie et al. 2021).

Independent runs of one recipe differ in which rows they get right. The run in their middle, the medoid, is on average
the least far from the others, and costs no more to serve than any of them.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from ...core.decode import JsonObject
from ...core.errors import NotComparableError
from ..counts import count_flips
from ..pairing import Pair, pair_predictions
from ..render.report import escape, percent, table
from ..tables.predictions import Predictions
from .member_tables import align_members, pair_members, table_names

DISTANCES = {
    "nfr": "NFR, the mean of both directions",
    "disagreement": "share of rows with different answers",
    "logits": "mean L2 distance of the centred logits",
}


@dataclass(frozen=True)
class CentricReport:
    """How far every member is from every other, and which is closest to all.

    `distances[i][j]` is symmetric; `mean_distances[i]` is over the other members. `index` and `name` are those of the
    most central member, the first of them where several are equally central: with two members both always are.
    """

    by: str
    rows: int
    names: tuple[str, ...]
    distances: tuple[tuple[float, ...], ...]
    mean_distances: tuple[float, ...]
    index: int
    name: str

    def to_dict(self) -> JsonObject:
        return {"format": "hf_pct.centric", "format_version": 1, **asdict(self)}

    def to_markdown(self) -> str:
        """The matrix for people."""
        show = "{:.4f}".format if self.by == "logits" else percent
        names = [escape(name) for name in self.names]
        rows = [
            (f"**{name}**", *("" if i == j else show(value) for j, value in enumerate(row)), show(mean))
            for i, (name, row, mean) in enumerate(zip(names, self.distances, self.mean_distances, strict=True))
        ]
        parts = [
            f"# The most central of {len(names)} members on {self.rows:,} rows: {names[self.index]}",
            f"Distance: {DISTANCES[self.by]}.",
            table(["", *names, "mean to the others"], rows),
        ]
        return "\n\n".join(parts) + "\n"


def most_centric(members: Sequence[Predictions], by: str = "nfr") -> CentricReport:
    """The member with the smallest mean distance to the others.

    Args:
        members: tables of at least two models on the same rows; logits are needed only for `by="logits"`.
        by: what distance is. `"nfr"`: NFR has a direction, and which of two runs would replace the other is not known,
            so it is the mean of both, half of the rows whose correctness differs, on the rows whose label the members
            know. `"disagreement"`: the share of rows with different answers, also where both are wrong; needs no right
            labels. `"logits"`: the mean over rows of the L2 norm of the difference of the logits. Each row's logits
            are centred by their mean first, because adding a constant to all of them changes no probability.

    Example:
        >>> from hf_pct import Predictions, most_centric
        >>> ids, labels = [1, 2, 3], ["yes", "no", "yes"]
        >>> answers = [["yes", "no", "no"], ["yes", "no", "yes"], ["yes", "yes", "yes"]]
        >>> most_centric([Predictions(ids, labels, run) for run in answers]).index
        1
    """
    if by not in DISTANCES:
        raise ValueError(f"by is {by!r}, expected one of {', '.join(map(repr, DISTANCES))}.")
    tables = [pair.new for pair in pair_members(members, at_least=2, logits=by == "logits")]
    measured = _logit_distances(tables) if by == "logits" else _answer_distances(tables, by)
    means = measured.sum(1) / (len(tables) - 1)
    # equal distances, summed in another order, differ in the last bit: that is a tie and goes to the first
    index = int(np.flatnonzero(np.isclose(means, means.min(), rtol=1e-9, atol=0))[0])
    names = table_names(tables)
    return CentricReport(
        by=by,
        rows=len(tables[0]),
        names=names,
        distances=tuple(tuple(row) for row in measured.tolist()),
        mean_distances=tuple(means.tolist()),
        index=index,
        name=names[index],
    )


def _answer_distances(tables: Sequence[Predictions], by: str) -> np.ndarray:
    measured = np.zeros((len(tables), len(tables)))
    for i, first in enumerate(tables):
        for j, second in enumerate(tables[:i]):
            pair = pair_predictions(first, second, known=first.vocabulary)
            measured[i, j] = measured[j, i] = _between(pair, by)
    return measured


def _between(pair: Pair, by: str) -> float:
    counted = pair.old_classes_mask() if by == "nfr" else np.ones(len(pair.labels), dtype=bool)
    if not counted.any():
        raise NotComparableError(
            f"None of the {len(counted)} rows has a label that the members know, so nothing can flip. Take "
            'by="disagreement", which needs no labels, or map the labels to the names of the members\' classes.'
        )
    counts = count_flips(pair.old_answers[counted], pair.new_answers[counted], pair.labels[counted])
    return counts.flip_rate / 2 if by == "nfr" else counts.churn


def _logit_distances(tables: Sequence[Predictions]) -> np.ndarray:
    members = align_members(tables)
    members.check_finite("distances are between logits")
    centred = [logits - logits.mean(-1, keepdims=True, dtype=np.float64) for logits in members.logits]
    measured = np.zeros((len(centred), len(centred)))
    for i, first in enumerate(centred):
        for j, second in enumerate(centred[:i]):
            measured[i, j] = measured[j, i] = np.linalg.norm(first - second, axis=-1).mean()
    return measured
