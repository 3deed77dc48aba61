"""Drawing ensembles of m members from two sets of models, or two ensembles that share no member from one set.

Figures over ensemble size use this: the same seed draws the same ensembles.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from ...core.errors import first_five
from ..tables.predictions import Predictions
from .member_tables import MemberTables, align_members, check_tables

Draw = tuple[tuple[int, ...], tuple[int, ...]]  # the members of the old ensemble and of the new one


@dataclass(frozen=True)
class Sides:
    """The old and the new members, rows in one order. With one pool of models both sides are that pool."""

    old: MemberTables
    new: MemberTables
    one_pool: bool

    @property
    def most(self) -> int:
        """The largest ensemble that both sides can have at once."""
        return len(self.old) // 2 if self.one_pool else min(len(self.old), len(self.new))


def two_sides(old_members: Sequence[Predictions], new_members: Sequence[Predictions], at_least: int = 1) -> Sides:
    """Both sides aligned. The same tables on both sides are one pool, from which the two ensembles are drawn apart.

    Models may have other classes on the new side than on the old one, but all of one side have the same.
    """
    check_tables(old_members, "old member")
    check_tables(new_members, "new member")
    old_tables, new_tables = ({id(table) for table in side} for side in (old_members, new_members))
    both = old_tables & new_tables
    if both and old_tables != new_tables:
        raise ValueError(
            f"{len(both)} tables are among the {len(old_members)} old and the {len(new_members)} new members, so that "
            "an ensemble could be compared with itself. Pass two lists without a common table, or the same list twice "
            "to draw both sides from one pool."
        )
    doubled = [len(side) - len(tables) for side, tables in ((old_members, old_tables), (new_members, new_tables))]
    if any(doubled):
        raise ValueError(f"{max(doubled)} tables stand more than once on a side, expected each member once.")
    if both:
        pool = align_members(old_members, at_least=2)
        return Sides(pool, pool, one_pool=True)
    old = align_members(old_members, "old member", at_least=at_least)
    return Sides(old, align_members(new_members, "new member", like=old_members[0], at_least=at_least), one_pool=False)


def draw_ensembles(sides: Sides, sizes: Sequence[int] | None, draws: int, seed: int) -> dict[int, list[Draw]]:
    """For each size, pairs of ensembles: all that there are when they are at most `draws`, else so many of them.

    Without `sizes`: 1, 2, 4, ... and the largest possible. What is drawn for one size does not depend on the others.
    """
    most = sides.most
    wanted = _default_sizes(most) if sizes is None else list(sizes)
    problems = []
    wrong = [size for size in wanted if not (_whole(size) and 1 <= size <= most)]
    if wrong or not wanted:
        limit = f"half of the pool of {len(sides.old)}" if sides.one_pool else "the members of the smaller side"
        shown = first_five(wrong) if wanted else "an empty list"
        problems.append(f"sizes holds {shown}, expected whole numbers from 1 to {most}, {limit}")
    if len(set(wanted)) < len(wanted):
        problems.append("sizes names a size twice")
    if not (_whole(draws) and draws >= 1):
        problems.append(f"draws is {draws!r}, expected a whole number from 1")
    if not (_whole(seed) and seed >= 0):
        problems.append(f"seed is {seed!r}, expected a whole number from 0")
    if problems:
        raise ValueError("; ".join(problems) + ".")
    return {int(size): _draw(sides, int(size), draws, seed) for size in sorted(wanted)}


def _default_sizes(most: int) -> list[int]:
    doubling = [1 << power for power in range(most.bit_length()) if 1 << power <= most]
    return doubling if doubling[-1] == most else [*doubling, most]


def _whole(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _draw(sides: Sides, size: int, draws: int, seed: int) -> list[Draw]:
    old_count, new_count = len(sides.old), len(sides.new)
    left = old_count - size if sides.one_pool else new_count
    if comb(old_count, size) * comb(left, size) <= draws:
        return list(_all_pairs(sides, size))
    rng = np.random.default_rng([seed, size])
    one: Callable[[], Draw] = (
        (lambda: _apart(rng, old_count, size))
        if sides.one_pool
        else (lambda: (_some(rng, old_count, size), _some(rng, new_count, size)))
    )
    distinct: dict[Draw, None] = {}  # in order, and none twice: a pair that came again would count double
    while len(distinct) < draws:
        distinct[one()] = None
    return list(distinct)


def _all_pairs(sides: Sides, size: int) -> Iterator[Draw]:
    for old in combinations(range(len(sides.old)), size):
        others = [at for at in range(len(sides.new)) if not (sides.one_pool and at in old)]
        for new in combinations(others, size):
            yield old, new


def _some(rng: np.random.Generator, count: int, size: int) -> tuple[int, ...]:
    return tuple(sorted(rng.choice(count, size, replace=False).tolist()))


def _apart(rng: np.random.Generator, count: int, size: int) -> Draw:
    """Two ensembles without a common member."""
    order = rng.permutation(count)[: 2 * size].tolist()
    return tuple(sorted(order[:size])), tuple(sorted(order[size:]))
