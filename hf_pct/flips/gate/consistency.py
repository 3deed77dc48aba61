"""Does a report agree with itself? A gate refuses a number that others in the report contradict.

A report says the same thing several times: the counts, the same counts by class and by every slice, the flipped rows,
the rates. A change of one of them, by accident or on purpose, contradicts the others.
"""

from collections.abc import Iterable, Sequence

from ...core.errors import NotComparableError
from ..grouping import GroupFlips
from ..report import FlipReport

_CLOSE = 1e-6


def check_consistency(report: FlipReport) -> None:
    """Raise every contradiction in a report at once."""
    if report.edited:
        raise NotComparableError(report.edited)
    problems = [*_count_problems(report), *_group_problems(report), *_row_problems(report), *_level_problems(report)]
    problems += _rate_problems(report)
    if problems:
        more = [f"... and {len(problems) - 10} more"] if len(problems) > 10 else []
        raise NotComparableError(
            "The report contradicts itself, so nothing can be judged by it. It was changed after it was written, or "
            "damaged; make it again with hf-pct compare.\n  " + "\n  ".join([*problems[:10], *more])
        )


def _count_problems(report: FlipReport) -> Iterable[str]:
    counts, coverage, labels = report.counts, report.coverage, report.labels
    cells = (
        counts.both_right,
        counts.negative_flips,
        counts.positive_flips,
        counts.both_wrong_same,
        counts.both_wrong_different,
    )
    if any(cell != int(cell) for cell in cells):
        yield f"rows are counted in whole numbers, got {', '.join(map(str, cells))}"
    if counts.total <= 0:
        yield "no row was compared: all counts are 0"
    if min(coverage.compared, coverage.only_old, coverage.only_new, labels.added_rows, labels.removed_rows) < 0:
        yield "a number of rows is negative"
    if coverage.compared != counts.total + labels.added_rows:
        yield (
            f"coverage says {coverage.compared} rows were compared, the counts add up to {counts.total} and "
            f"{labels.added_rows} rows of added classes"
        )
    if not 0 < report.confidence < 1:
        yield f"confidence is {report.confidence}, expected a fraction between 0 and 1"


def _group_problems(report: FlipReport) -> Iterable[str]:
    yield from _partition_problems("the classes", report.classes, report)
    for name, groups in report.slices.items():
        yield from _partition_problems(f"the slices by {name!r}", groups, report)


def _partition_problems(what: str, groups: Sequence[GroupFlips], report: FlipReport) -> Iterable[str]:
    """Every row is in exactly one class, and in one slice of every column."""
    counts = report.counts
    for group in groups:
        yield from (f"{what}, {group.name!r}: {problem}" for problem in _one_group(group))
    sums = {
        "rows": (sum(group.rows for group in groups), counts.total),
        "negative_flips": (sum(group.negative_flips for group in groups), counts.negative_flips),
        "positive_flips": (sum(group.positive_flips for group in groups), counts.positive_flips),
        "right answers of the old model": (
            sum(round(group.old_accuracy * group.rows) for group in groups),
            counts.both_right + counts.negative_flips,
        ),
        "right answers of the new model": (
            sum(round(group.new_accuracy * group.rows) for group in groups),
            counts.both_right + counts.positive_flips,
        ),
    }
    for name, (total, expected) in sums.items():
        if total != expected:
            yield f"{what} add up to {total} {name}, the report counts {expected}"


def _one_group(group: GroupFlips) -> Iterable[str]:
    if group.rows < 1 or min(group.negative_flips, group.positive_flips) < 0:
        yield f"{group.negative_flips} broken and {group.positive_flips} fixed of {group.rows} rows"
        return
    rates = {
        "nfr": (group.nfr, group.negative_flips / group.rows),
        "accuracy gained": (
            group.new_accuracy - group.old_accuracy,
            (group.positive_flips - group.negative_flips) / group.rows,
        ),
    }
    yield from (
        f"{name} is {value:.6g}, its counts say {expected:.6g}"
        for name, (value, expected) in rates.items()
        if abs(value - expected) > _CLOSE
    )
    if group.negative_flips > round(group.old_accuracy * group.rows):
        yield "more rows are broken than were right"
    if group.positive_flips > round(group.new_accuracy * group.rows):
        yield "more rows are fixed than are right"
    if not group.nfr_low - _CLOSE <= group.nfr <= min(group.nfr_high, 1.0) + _CLOSE:
        yield f"its nfr {group.nfr:.6g} is outside its own interval"


def _row_problems(report: FlipReport) -> Iterable[str]:
    """The rows that are listed are those that were counted; only a report that was cut may list fewer."""
    counts = report.counts
    expected = {"negative": counts.negative_flips, "positive": counts.positive_flips}
    listed = dict.fromkeys(expected, 0)
    if "kind" in report.flips.column_names:
        kinds = report.flips.column("kind").to_pylist()
        listed = {kind: kinds.count(kind) for kind in expected}
        if sum(listed.values()) != len(kinds):
            yield "a flipped row is neither negative nor positive"
    for kind, number in expected.items():
        if listed[kind] > number or (listed[kind] < number and not report.flips_cut):
            yield f"{listed[kind]} {kind} rows are listed, {number} are counted"
    mistaken = sum(confusion.count for confusion in report.confusions)
    if mistaken > counts.negative_flips or any(confusion.count < 1 for confusion in report.confusions):
        yield f"the confusions add up to {mistaken} rows, {counts.negative_flips} are broken"


def _level_problems(report: FlipReport) -> Iterable[str]:
    """Every interval is at the report's confidence."""
    levels = {f"intervals.{name}": interval.confidence for name, interval in report.intervals.items()}
    levels["non_inferiority"] = report.non_inferiority.confidence
    if report.noise_floor:
        levels["noise_floor.interval"] = report.noise_floor.interval.confidence
    if report.weighted:
        levels["weighted.nfr_interval"] = report.weighted.nfr_interval.confidence
    for name, level in levels.items():
        if abs(level - report.confidence) > _CLOSE:
            yield f"{name} is at confidence {level}, the report at {report.confidence}"


def _rate_problems(report: FlipReport) -> Iterable[str]:
    counts, floor, weighted, inferior = report.counts, report.noise_floor, report.weighted, report.non_inferiority
    for name, interval in report.intervals.items():
        value = getattr(counts, name, None)
        if value is not None and not interval.low - _CLOSE <= value <= interval.high + _CLOSE:
            yield f"{name} is {value:.6g}, outside its interval {interval.low:.6g} to {interval.high:.6g}"
    if not counts.nfr - _CLOSE <= report.nfr_upper <= 1:
        yield f"nfr_upper is {report.nfr_upper:.6g}, expected a bound from the NFR {counts.nfr:.6g} to 1"
    if (
        abs(inferior.difference - counts.accuracy_gain) > _CLOSE
        or inferior.lower_bound > counts.accuracy_gain + _CLOSE
    ):
        yield f"non_inferiority says {inferior.difference:.6g}, the counts {counts.accuracy_gain:.6g}"
    if floor:
        if not (0 <= floor.nfr <= 1 and floor.interval.low - _CLOSE <= floor.nfr <= floor.interval.high + _CLOSE):
            yield f"the noise floor {floor.nfr:.6g} is outside its own interval"
        if abs(floor.excess_nfr - (counts.nfr - floor.nfr)) > _CLOSE:
            yield f"excess_nfr is {floor.excess_nfr:.6g}, the NFR less the noise floor is {counts.nfr - floor.nfr:.6g}"
    if weighted:
        same_sign = bool(weighted.counts.negative_flips) <= bool(counts.negative_flips)
        if not weighted.counts.total > 0 or not same_sign:
            yield "the weighted counts do not go with the counted rows"
        inside = weighted.nfr_interval.low - _CLOSE <= weighted.counts.nfr <= weighted.nfr_interval.high + _CLOSE
        if not inside:
            yield f"the weighted NFR {weighted.counts.nfr:.6g} is outside its own interval"
