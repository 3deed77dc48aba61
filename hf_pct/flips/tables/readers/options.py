"""What a person may say about a file: which columns mean what, and which filter or provider of a log is meant."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

ROLES = ("id", "label", "prediction", "text", "task", "repeat", "score")


@dataclass(frozen=True)
class ReadOptions:
    """How to read a file or a log.

    Attributes:
        columns: which column of a plain table plays which role (`id`, `label`, `prediction`, `text`, `task`,
            `repeat`), or its new name. Columns that are scores are in `scores`.
        scores: the columns that are scores, by the name of their metric.
        filters: lm-eval filters in order of preference; each task is read with the first of them that it has.
        provider: the provider of a promptfoo file that holds several.
        metrics: the metrics that will be compared: a plain table with such a column is one of scores, and the answer
            to a choice is the one that this metric judges (acc_norm: per character).
        label_names: class names of a plain table of answers that holds indices.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    scores: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    provider: str | None = None
    metrics: tuple[str, ...] = ()
    label_names: Sequence[str] | None = None


def parse_columns(text: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """`id=qid,label=gold,score=f1` as columns by role, and the columns that are scores.

    Example:
        >>> parse_columns("id=qid,score=f1,score=em")
        ({'id': 'qid'}, ('f1', 'em'))
    """
    columns: dict[str, str] = {}
    scores: list[str] = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        role, equals, column = (part.strip() for part in entry.partition("="))
        if not equals or not role or not column:
            raise ValueError(f"{entry!r} is no mapping, expected ROLE=COLUMN such as id=qid or score=f1.")
        if role == "score":
            scores.append(column)
        elif role in columns:
            raise ValueError(f"{role} is given twice ({columns[role]} and {column}), expected one column.")
        else:
            columns[role] = column
    return columns, tuple(scores)
