"""A ScoreReport for people: a screen for a terminal, Markdown for a pull request."""

from collections.abc import Iterable, Sequence

from ...core.text import markdown, one_line
from ..power import DEFAULT_POWER, detectable_mean_drop
from ..scored.measures.outcomes import MEANINGS
from ..scored.report import ScoreReport
from ..scored.task_report import ScoreFloor, ScoreGroup, TaskReport
from ..stats import Interval
from .report import percent, spread, table
from .wording import points


def number(value: float) -> str:
    """A score or a difference of scores, as short as it can be read."""
    return f"{value:.4g}"


def signed(value: float) -> str:
    return f"{value:+.4g}"


def between(interval: Interval) -> str:
    """An interval of scores."""
    return f"{interval.low:+.3g} to {interval.high:+.3g}"


def rows_text(count: float) -> str:
    """A number of rows; fractions appear when items were run several times."""
    return f"{count:,.0f}" if abs(count - round(count)) < 1e-9 else f"{count:,.1f}"


def task_sentence(report: TaskReport) -> str:
    """One task in one sentence."""
    gain = report.gain
    moved = f"mean {report.metric} {number(gain.old_mean)} -> {number(gain.new_mean)}"
    if report.right_at is None:
        return (
            f"of {report.rows:,} rows {rows_text(report.regressions.rows)} dropped and {rows_text(report.gains.rows)} "
            f"rose, {moved}"
        )
    return (
        f"breaks {rows_text(report.outcomes['broken'])} and fixes {rows_text(report.outcomes['fixed'])} of "
        f"{report.rows:,} rows, NFR {percent(report.rates['nfr'])} ({spread(report.intervals['nfr'])}), {moved}"
    )


def scores_verdict(report: ScoreReport) -> str:
    """The update in one sentence, in plain text."""
    if len(report.tasks) == 1:
        task = report.tasks[0]
        state = "REGRESSED" if task.regressed else "no regression shown"
        return f"{state} (one-sided p = {task.gain.p_worse:.3g}): the new version {task_sentence(task)}."
    regressed = report.pooled.regressed
    names = ", ".join(map(one_line, regressed))
    state = (
        f"REGRESSED in {len(regressed)} of {len(report.tasks)} tasks: {names}"
        if regressed
        else (f"No regression shown in any of {len(report.tasks)} tasks")
    )
    return f"{state} (one-sided tests, Holm, level {report.pooled.level:.2g})."


def pooled_sentence(report: ScoreReport) -> str:
    """The weighted mean over tasks; empty when there is none."""
    mean = report.pooled.mean
    if mean is None:
        return "" if len(report.tasks) == 1 else "No mean over tasks: their scores are on different scales."
    weights = {round(weight, 9) for weight in mean.weights.values()}
    how = "unweighted" if len(weights) == 1 else "weighted"
    return (
        f"{how} mean over tasks, of {mean.of}: {signed(mean.estimate)} ({between(mean.interval)}), p = "
        f"{mean.p_value:.3g}, one-sided {mean.p_worse:.3g}"
    )


def names_of_sides(report: ScoreReport) -> tuple[str, str]:
    return report.old.model or "old version", report.new.model or "new version"


def scores_text(report: ScoreReport) -> str:
    """A screen for a terminal."""
    lines = ["  ->  ".join(map(one_line, names_of_sides(report))), scores_verdict(report)]
    pooled = pooled_sentence(report)
    lines += [pooled, ""] if pooled else [""]
    for task in report.tasks:
        lines += _task_lines(task, len(report.tasks) > 1)
    return "\n".join([*lines, *(one_line(line) for line in score_remarks(report))])


def _task_lines(task: TaskReport, named: bool) -> list[str]:
    gain = task.gain
    lines = [f"{one_line(task.task)} [{one_line(task.metric)}]: {task_sentence(task)}"] if named else []
    lines.append("  " + ", ".join(f"{name} {rows_text(count)}" for name, count in task.outcomes.items()))
    lines.append(
        f"  gain {signed(gain.estimate)} ({between(gain.interval)}), p = {gain.p_value:.3g} ({gain.method}); "
        f"one-sided {gain.p_worse:.3g}" + (f", corrected {task.p_corrected:.3g}" if named else "")
    )
    lines.append("  " + _smallest_drop(task))
    if task.regressions.rows or task.gains.rows:
        lines.append(
            f"  drops beyond {number(task.tolerance)}: {rows_text(task.regressions.rows)} by "
            f"{number(task.regressions.mean)} on average; rises: {rows_text(task.gains.rows)} by "
            f"{number(task.gains.mean)}"
        )
    if task.repeats and task.repeats.regressed is not None:
        floor = "" if task.repeats.floor_items is None else f" (old against itself: {task.repeats.floor_items})"
        lines.append(f"  items that regressed beyond chance: {len(task.repeats.regressed)}{floor}")
    if task.noise_floor:
        lines.append("  " + floor_sentence(task.noise_floor))
    worst = [
        f"{one_line(name)} = {one_line(group.name)} ({signed(group.gain)}, corrected p {group.p_corrected:.2g})"
        for name, groups in task.slices.items()
        for group in groups
        if group.p_corrected < 0.05 and group.gain < 0
    ]
    return [*lines, f"  worse in: {', '.join(worst[:5])}"] if worst else lines


def _smallest_drop(task: TaskReport) -> str:
    smallest = detectable_mean_drop(task.gain.interval)
    return f"the smallest drop of the mean shown in {DEFAULT_POWER:.0%} of cases is {number(smallest)}"


def floor_sentence(floor: ScoreFloor) -> str:
    """What changes without an update."""
    return (
        f"noise floor ({floor.source}): NFR {percent(floor.rates['broken'])}, mean moves by {number(floor.gain)}; NFR "
        f"beyond it {points(floor.excess_nfr)} ({spread(floor.excess_interval)})"
    )


def score_remarks(report: ScoreReport) -> list[str]:
    """What a reader must know before trusting the numbers."""
    remarks = []
    for task in report.tasks:
        coverage = task.coverage
        if coverage.partial:
            remarks.append(
                f"PARTIAL: {task.task}: {coverage.compared:,} rows compared; left out {coverage.only_old:,} that only "
                f"the old side has and {coverage.only_new:,} that only the new side has."
            )
        if task.changed_prompts:
            remarks.append(
                f"{task.task}: the prompt changed in {task.changed_prompts:,} of {task.rows:,} rows, so the change of "
                "the scores is that of model and prompt together."
            )
    if report.cluster:
        remarks.append(f"Intervals and tests are by {report.cluster}: rows that belong together stay together.")
    return remarks + report.notes


def scores_markdown(report: ScoreReport, max_rows: int = 20) -> str:
    """The whole report; long tables show their first `max_rows` rows and say how many there are."""
    old, new = names_of_sides(report)
    parts = [f"# Scores: {markdown(old)} → {markdown(new)}", f"**{markdown(scores_verdict(report))}**"]
    if len(report.tasks) > 1:
        parts += [_task_table(report), markdown(pooled_sentence(report)) + "."]
    remarks = [f"- {markdown(line)}" for line in score_remarks(report)]
    parts += ["\n".join(remarks)] if remarks else []
    for task in report.tasks:
        parts += _task_section(task, report.confidence, max_rows)
    return "\n\n".join(parts) + "\n"


def _task_table(report: ScoreReport) -> str:
    rows = [
        (
            markdown(task.task),
            markdown(task.metric),
            f"{task.rows:,}",
            *(rows_text(task.outcomes[name]) for name in ("broken", "fixed", "changed")),
            f"{number(task.gain.old_mean)} → {number(task.gain.new_mean)}",
            f"{signed(task.gain.estimate)} ({between(task.gain.interval)})",
            f"{task.p_corrected:.3g}",
            "**regressed**" if task.regressed else "",
        )
        for task in report.tasks
    ]
    header = ["task", "metric", "rows", "broken", "fixed", "changed, right", "mean", "gain", "corrected p", ""]
    return table(header, rows)


def _task_section(task: TaskReport, confidence: float, max_rows: int) -> Iterable[str]:
    direction = "higher" if task.higher_is_better else "lower"
    side = "at least" if task.higher_is_better else "at most"
    right = "no right and wrong" if task.right_at is None else f"right is {side} {number(task.right_at)}"
    yield f"## {markdown(task.task)}: {markdown(task.metric)}"
    yield f"{direction} is better, {right}, tolerance {number(task.tolerance)}. {markdown(task_sentence(task))}."
    yield table(
        ["outcome", "rows", "share", *(["noise floor"] if task.noise_floor else []), "meaning"],
        [
            (
                name,
                rows_text(count),
                percent(count / task.rows),
                *([percent(task.noise_floor.rates[name])] if task.noise_floor else []),
                MEANINGS[name],
            )
            for name, count in task.outcomes.items()
        ],
    )
    yield _rate_table(task, confidence)
    if task.noise_floor:
        yield markdown(floor_sentence(task.noise_floor)) + "."
    if task.repeats and task.repeats.regressed:
        items = task.repeats.regressed[:max_rows]
        yield f"{len(task.repeats.regressed)} items regressed beyond chance (Fisher's exact test, Benjamini-Hochberg):"
        yield table(
            ["item", "right runs before", "now", "corrected p"],
            [(markdown(i.id), percent(i.old_rate, 0), percent(i.new_rate, 0), f"{i.p_corrected:.2g}") for i in items],
        )
    for name, groups in task.slices.items():
        yield f"### By {markdown(name)}"
        yield _group_table(name, groups[:max_rows])
        if len(groups) > max_rows:
            yield f"({len(groups) - max_rows} more in the JSON report)"


_RATES = {
    "nfr": "broken (NFR)",
    "pfr": "fixed (PFR)",
    "changed": "another answer, still right",
    "dropped": "dropped beyond the tolerance",
    "risen": "rose beyond the tolerance",
    "old_accuracy": "right before",
    "new_accuracy": "right now",
}


def _rate_table(task: TaskReport, confidence: float) -> str:
    floor = task.noise_floor
    names = {"nfr": "broken", "pfr": "fixed"}
    rows = []
    for name, text in _RATES.items():
        if name not in task.rates:
            continue
        noise = [percent(floor.rates[key]) if (key := names.get(name, name)) in floor.rates else ""] if floor else []
        rows.append((text, percent(task.rates[name]), f"{spread(task.intervals[name])} %", *noise))
    if task.nfr_upper is not None:
        rows.append(("NFR, one-sided upper bound", percent(task.nfr_upper), "", *([""] if floor else [])))
    gain = task.gain
    rows.append(
        ("gain of the mean", signed(gain.estimate), between(gain.interval), *([number(floor.gain)] if floor else []))
    )
    for text, shift in (("mean size of drops", task.regressions), ("mean size of rises", task.gains)):
        rows.append((text, number(shift.mean), f"{rows_text(shift.rows)} rows", *([""] if floor else [])))
    heading = ["", "value", f"{confidence:.0%} interval", *(["noise floor"] if floor else [])]
    tests = f"Old and new are alike: p = {gain.p_value:.3g}; new is worse: p = {gain.p_worse:.3g} ({gain.method})."
    return f"{table(heading, rows)}\n\n{tests} With so many rows, {_smallest_drop(task)}."


def _group_table(name: str, groups: Sequence[ScoreGroup]) -> str:
    rows = [
        (
            markdown(group.name),
            f"{group.rows:,}",
            rows_text(group.negative_flips),
            rows_text(group.positive_flips),
            percent(group.nfr),
            f"{number(group.old_mean)} → {number(group.new_mean)}",
            signed(group.gain),
            f"{group.p_corrected:.3g}",
        )
        for group in groups
    ]
    return table([markdown(name), "rows", "broken", "fixed", "NFR", "mean", "gain", "corrected p"], rows)
