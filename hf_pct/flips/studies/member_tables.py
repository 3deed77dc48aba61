"""The members of an ensemble as tables of predictions: the same rows, labels and classes, brought into one order.

Members are files that anybody may have written, with rows and classes in any order. Here each is joined to the
first by id and by class name, and all that does not fit is said at once; what follows works on plain arrays.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...core.errors import NotComparableError, first_five
from ..pairing import Pair, pair_predictions
from ..tables.predictions import Predictions


@dataclass(frozen=True)
class MemberTables:
    """Models on the same rows. Logits have the columns `label_names`, the first member's order.

    `label_columns` holds for each row the column of its right answer, -1 where the members have no such class.
    """

    tables: tuple[Predictions, ...]
    names: tuple[str, ...]
    label_names: tuple[str, ...]
    logits: tuple[np.ndarray, ...]
    label_columns: np.ndarray

    def __len__(self) -> int:
        return len(self.tables)

    def mean_logits(
        self, chosen: Sequence[int] | None = None, temperatures: Sequence[float] | None = None
    ) -> np.ndarray:
        """The mean of the chosen members' logits (of all, when none are named), each over its temperature."""
        chosen = range(len(self)) if chosen is None else chosen
        total = np.zeros(self.logits[0].shape)
        for at in chosen:
            total += self.logits[at] if temperatures is None else self.logits[at] / float(temperatures[at])
        return total / len(chosen)

    def check_finite(self, purpose: str) -> None:
        """Refuse logits of -inf, which mask a class out: they have no distance to anything."""
        masked = [name for name, logits in zip(self.names, self.logits, strict=True) if np.isneginf(logits).any()]
        if masked:
            raise ValueError(
                f"The logits of {first_five(masked)} hold -inf (classes masked out), expected finite ones: {purpose}. "
                "Predict without the mask, or leave those classes out."
            )


def align_members(
    members: Sequence[Predictions], what: str = "member", *, like: Predictions | None = None, at_least: int = 1
) -> MemberTables:
    """The members' logits in one order of rows and classes.

    Args:
        members: tables with logits, of models with the same set of classes.
        what: what to call one of them in an error.
        like: the table whose order the rows take; by default that of the first member.
        at_least: how many members are needed.
    """
    pairs = pair_members(members, what, like=like, at_least=at_least)
    first = pairs[0].new
    label_names = first.label_names or ()
    position = {name: column for column, name in enumerate(label_names)}
    columns = np.array([position.get(name, -1) for name in pairs[0].names])
    return MemberTables(
        tables=tuple(pair.new for pair in pairs),
        names=table_names([pair.new for pair in pairs], what=what),
        label_names=label_names,
        logits=tuple(_logits(pair, label_names) for pair in pairs),
        label_columns=columns[pairs[0].labels],
    )


def pair_members(
    members: Sequence[Predictions],
    what: str = "member",
    *,
    like: Predictions | None = None,
    at_least: int = 1,
    logits: bool = True,
    same_classes: bool = True,
) -> list[Pair]:
    """Each member paired with the first one (or with `like`); everything that is wrong with them in one error."""
    check_tables(members, what)
    if len(members) < at_least:
        raise ValueError(f"Got {len(members)} {what}s, expected at least {at_least}.")
    names = table_names(members, what=what)
    first = members[0] if like is None else like
    pairs, problems = [], []
    unfit = False
    for number, (name, member) in enumerate(zip(names, members, strict=True), start=1):
        who = f"{what} {number} ({name})"
        if logits and member.logits is None:
            problems.append(f"{who} has no logits; predict it again and keep them, in a .parquet file.")
        problem = _classes(members[0], member, what) if same_classes else []
        try:
            # which labels of the data a model knows is the business of whoever counts flips, not of a mean
            pairs.append(pair_predictions(first, member, known=first.vocabulary))
        except NotComparableError as error:
            against = f"{what} 1" if like is None else "the first table of the other side"
            lines = str(error).replace("\n", "\n    ")
            problem.append(f"against {against} (there called old, this one new): {lines}")
        problems += [f"{who}: {entry}" for entry in problem]
        unfit = unfit or bool(problem)
        if member is first and not pairs:  # its own ids are doubled: nothing can be joined to it
            break
    if problems:
        text = f"The {what}s need the same rows, labels and classes, all of them:\n  " + "\n  ".join(problems)
        raise NotComparableError(text) if unfit else ValueError(text)
    return pairs


def check_tables(members: Sequence[Predictions], what: str = "member") -> None:
    """Refuse what is not a list of tables: one table alone, or the paths of some."""
    alone = isinstance(members, (Predictions, str))
    others = [] if alone else [entry for entry in members if not isinstance(entry, Predictions)]
    if alone or others:
        kind = f"one {type(members).__name__}" if alone else f"a list with {type(others[0]).__name__}"
        raise ValueError(
            f"The {what}s are {kind}, expected a list of Predictions; Predictions.load reads one from a file."
        )


def table_names(
    tables: Sequence[Predictions], names: Sequence[str] | None = None, what: str = "member", short: str = "member "
) -> tuple[str, ...]:
    """What to call each table: the names given, or what their provenance says, numbered where two agree."""
    if names is not None and len(names) != len(tables):
        raise ValueError(f"Got {len(names)} names for {len(tables)} {what}s, expected one for each.")
    known_names = list(names or (table.provenance.model for table in tables))
    chosen = [str(name) if name else f"{short}{number}" for number, name in enumerate(known_names, start=1)]
    if len(set(chosen)) < len(chosen):  # the same folder at two times, say
        chosen = [f"{short}{number} {name}" for number, name in enumerate(chosen, start=1)]
    return tuple(chosen)


def _classes(first: Predictions, member: Predictions, what: str) -> list[str]:
    """Where two members do not answer with the same classes, as far as their tables say which they have."""
    if first.label_names is None or member.label_names is None:
        return []
    lacks = sorted(set(first.label_names) - set(member.label_names))
    extra = sorted(set(member.label_names) - set(first.label_names))
    named = [f"lacks {first_five(lacks)}"] * bool(lacks) + [f"has {first_five(extra)} besides"] * bool(extra)
    if not named:
        return []
    return [f"other classes than {what} 1: it {' and '.join(named)}. A mean needs the same classes of all."]


def _logits(pair: Pair, label_names: tuple[str, ...]) -> np.ndarray:
    """One member's logits in the common order, without a copy where they are in it already."""
    names = pair.new.label_names or ()
    logits = np.asarray(pair.new.logits)[pair.new_rows]
    return logits if names == label_names else logits[:, [names.index(name) for name in label_names]]
