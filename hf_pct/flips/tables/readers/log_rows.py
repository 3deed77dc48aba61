"""The rows of a log while it is read: one per item and run, with the scores it has."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

from ..metric import Metric
from ..predictions import Provenance
from ..scores import Scores


@dataclass
class LogRows:
    """Columns that grow row by row; metrics that a row does not have are left empty there."""

    ids: list[str] = field(default_factory=list)
    tasks: list[str] = field(default_factory=list)
    labels: list[str | None] = field(default_factory=list)
    predictions: list[str | None] = field(default_factory=list)
    texts: list[str | None] = field(default_factory=list)
    repeats: list[int] = field(default_factory=list)
    scores: list[Mapping[str, float | None]] = field(default_factory=list)

    def add(
        self,
        task: str,
        identity: str,
        scores: Mapping[str, float | None],
        *,
        label: str | None = None,
        prediction: str | None = None,
        text: str | None = None,
        repeat: int = 1,
    ) -> None:
        self.tasks.append(task)
        self.ids.append(identity)
        self.scores.append(scores)
        self.labels.append(label)
        self.predictions.append(prediction)
        self.texts.append(text)
        self.repeats.append(repeat)

    def extend(self, other: "LogRows") -> None:
        """Take the rows of another task behind these."""
        for part in fields(self):
            getattr(self, part.name).extend(getattr(other, part.name))

    def metric_names(self) -> list[str]:
        """Every metric of any row, in the order in which they appear."""
        return list(dict.fromkeys(name for names in dict.fromkeys(map(tuple, self.scores)) for name in names))

    def table(
        self,
        metrics: Sequence[Metric] = (),
        provenance: Provenance | None = None,
        notes: Sequence[str] = (),
    ) -> Scores:
        """The rows as a table of scores; the run numbers only when something was run more than once."""
        if not self.ids:
            raise ValueError("; ".join(["no row of it has a score", *notes]) + ". Run the tool again, with scores.")
        return Scores(
            self.ids,
            {name: [scores.get(name) for scores in self.scores] for name in self.metric_names()},
            labels=self.labels,
            predictions=self.predictions,
            texts=self.texts,
            tasks=self.tasks,
            repeats=self.repeats if max(self.repeats, default=1) > 1 else None,
            metrics=metrics,
            provenance=provenance,
            notes=notes,
        )
