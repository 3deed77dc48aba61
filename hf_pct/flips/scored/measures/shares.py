"""Outcomes per item over all pairs of an old and a new run: plain counts when everything was run once."""

from collections.abc import Iterable

import numpy as np

from .outcomes import OUTCOMES, Rule, RunPair, Shares, Shift, moved, outcome_codes, run_pairs, shifts


def item_shares(
    old: np.ndarray,
    new: np.ndarray,
    rule: Rule,
    old_answers: np.ndarray | None = None,
    new_answers: np.ndarray | None = None,
) -> Shares:
    """The outcomes between two versions. Arrays have one row per item and one column per run (NaN: not run)."""
    pairs = run_pairs(old, new, old_answers, new_answers)
    return _once(next(pairs)[0], rule) if old.shape[1] == new.shape[1] == 1 else _add_up(pairs, len(old), rule)


def _once(pair: RunPair, rule: Rule) -> Shares:
    """Everything was run once: no share has to be added up."""
    dropped, risen = moved(pair, rule.tolerance)
    right = [np.zeros(len(side)) if rule.right_at is None else side >= rule.right_at for side in (pair.old, pair.new)]
    down, up = shifts(pair, rule.tolerance)
    return Shares(
        outcomes=outcome_codes(pair, rule),
        old_right=right[0].astype(np.float64),
        new_right=right[1].astype(np.float64),
        dropped=dropped.astype(np.float64),
        risen=risen.astype(np.float64),
        changed_answers=None if pair.changed is None else pair.changed.astype(np.float64),
        regressions=down,
        gains=up,
    )


def again_shares(old: np.ndarray, rule: Rule, answers: np.ndarray | None = None) -> Shares:
    """The outcomes between one run of the old version and another run of it: the noise that no update made."""
    runs = range(old.shape[1])
    pairs = (
        entry
        for first in runs
        for second in runs
        if first != second
        for entry in run_pairs(
            old[:, [first]],
            old[:, [second]],
            None if answers is None else answers[:, [first]],
            None if answers is None else answers[:, [second]],
        )
    )
    return _add_up(pairs, len(old), rule)


def _add_up(pairs: Iterable[tuple[RunPair, np.ndarray]], items: int, rule: Rule) -> Shares:
    total = np.zeros(items)
    outcomes = np.zeros((len(OUTCOMES), items))
    right, movement, changed = np.zeros((2, items)), np.zeros((2, items)), np.zeros(items)
    with_answers = False
    sizes: list[tuple[Shift, Shift]] = []
    for pair, made in pairs:
        codes = outcome_codes(pair, rule)
        for code in range(len(OUTCOMES)):
            outcomes[code] += (codes == code) & made
        if rule.right_at is not None:
            right[0] += (pair.old >= rule.right_at) & made
            right[1] += (pair.new >= rule.right_at) & made
        dropped, risen = moved(pair, rule.tolerance)
        movement[0] += dropped & made
        movement[1] += risen & made
        if pair.changed is not None:
            with_answers = True
            changed += pair.changed & made
        total += made
        sizes.append(shifts(RunPair(pair.old[made], pair.new[made]), rule.tolerance))
    with np.errstate(invalid="ignore"):  # an item that was run once has no second run: its share is not known
        outcomes, right, movement, changed = outcomes / total, right / total, movement / total, changed / total
    return Shares(
        outcomes=outcomes,
        old_right=right[0],
        new_right=right[1],
        dropped=movement[0],
        risen=movement[1],
        changed_answers=changed if with_answers else None,
        regressions=_mean_shift([down for down, _ in sizes]),
        gains=_mean_shift([up for _, up in sizes]),
    )


def _mean_shift(parts: list[Shift]) -> Shift:
    rows = sum(part.rows for part in parts)
    return Shift(rows / len(parts), sum(part.rows * part.mean for part in parts) / rows if rows else 0.0)
