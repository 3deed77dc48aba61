"""A FlipReport for people: Markdown for a pull request, a dozen lines for a terminal."""

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeAlias

from ...core.text import log_safe, visible
from ...core.text import markdown as escape
from ..grouping import GroupFlips
from ..report import FlipReport
from ..scored.report import ScoreReport
from ..stats import Interval
from .wording import balance, detectable, p_column, p_text, points


def percent(rate: float, digits: int = 2) -> str:
    """A fraction as people read it."""
    return f"{100 * rate:.{digits}f} %"


def spread(interval: Interval) -> str:
    """An interval in percent, without repeating the sign."""
    return f"{100 * interval.low:.2f} to {100 * interval.high:.2f}"


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; cells must be safe already."""
    lines = [f"| {' | '.join(header)} |", f"|{'|'.join(' --- ' for _ in header)}|"]
    lines += [f"| {' | '.join(str(cell) for cell in row)} |" for row in rows]
    return "\n".join(lines)


class SaysItself(Protocol):
    """A report that has its own sentence: of traffic, of candidates, of a chain."""

    def sentence(self) -> str: ...

    def remarks(self) -> list[str]: ...


Shown: TypeAlias = FlipReport | ScoreReport | SaysItself


def verdict(report: Shown) -> str:
    """The update in one sentence, in plain text."""
    if not isinstance(report, FlipReport | ScoreReport):
        return report.sentence()
    if not isinstance(report, FlipReport):
        from .scores import scores_verdict

        return scores_verdict(report)
    counts = report.counts
    broken, fixed = f"{int(counts.negative_flips):,}", f"{int(counts.positive_flips):,}"
    gain = 100 * counts.accuracy_gain
    return (
        f"The new model breaks {broken} and fixes {fixed} of {int(counts.total):,} rows: NFR {percent(counts.nfr)} "
        f"({spread(report.intervals['nfr'])} at {report.confidence:.0%} confidence), accuracy "
        f"{percent(counts.old_accuracy)} -> {percent(counts.new_accuracy)} ({gain:+.2f} points)."
    )


def names_of(report: FlipReport) -> tuple[str, str]:
    """What to call the two models."""
    return report.old.model or "old model", report.new.model or "new model"


def report_text(report: FlipReport) -> str:
    """A dozen lines for a terminal."""
    counts, old_new = report.counts, "  ->  ".join(map(visible, names_of(report)))
    width = max(len(f"{int(counts.total):,}"), 10)
    lines = [
        old_new,
        verdict(report),
        "",
        f"{'':>12}  {'new right':>{width}}  {'new wrong':>{width}}",
        f"{'old right':>12}  {int(counts.both_right):>{width},}  {int(counts.negative_flips):>{width},}  <- broken",
        f"{'old wrong':>12}  {int(counts.positive_flips):>{width},}  {int(counts.both_wrong):>{width},}",
        f"{'':>12}  {'^ fixed':>{width}}",
        "",
        f"relative NFR {percent(counts.relative_nfr, 1)} of what independent models would show; with "
        f"{report.confidence:.0%} confidence the NFR is below {percent(report.nfr_upper)}",
        balance(report),
        detectable(report),
    ]
    if report.noise_floor:
        floor = report.noise_floor
        lines.append(
            f"a second run of the old recipe flips {percent(floor.nfr)}; beyond it {points(floor.excess_nfr)} "
            f"({spread(floor.excess_interval)})"
        )
    if report.weighted:
        weighted = report.weighted
        lines.append(
            f"by {visible(weighted.column)}: NFR {percent(weighted.counts.nfr)} ({spread(weighted.nfr_interval)})"
        )
    worst = [group for group in report.classes if group.negative_flips][:5]
    if worst:
        broken = ", ".join(f"{visible(group.name)} {group.negative_flips}/{group.rows}" for group in worst)
        lines.append(f"most broken classes: {broken}")
    if report.confusions:
        taken = ", ".join(
            f"{visible(confusion.label)} as {visible(confusion.new_answer)} ({confusion.count})"
            for confusion in report.confusions[:3]
        )
        lines.append(f"most often mistaken: {taken}")
    return log_safe("\n".join([*lines, *map(visible, remarks(report))]))


def report_markdown(report: FlipReport, max_rows: int = 20) -> str:
    """The whole report; long tables show their first `max_rows` rows and say how many there are."""
    old, new = names_of(report)
    parts = [
        f"# Flips: {escape(old)} → {escape(new)}",
        f"**{verdict(report)}**",
        flip_square(report),
        _rates(report),
    ]
    level = 1 - report.confidence
    to_know = [f"- {escape(line)}" for line in remarks(report)]
    if to_know:
        parts.append("\n".join(to_know))
    parts += _section("By class", _groups("class", report.classes, max_rows, level), len(report.classes), max_rows)
    for name, groups in report.slices.items():
        parts += _section(f"By {escape(name)}", _groups(escape(name), groups, max_rows, level), len(groups), max_rows)
    confusions = [
        (escape(confusion.label), escape(confusion.new_answer), confusion.count)
        for confusion in report.confusions[:max_rows]
    ]
    if confusions:
        listing = table(["was right", "is now taken for", "rows"], confusions)
        parts += _section("What the new model mistakes", listing, len(report.confusions), max_rows)
    parts += ["## How it was made", _provenance(report)]
    return "\n\n".join(parts) + "\n"


def flip_square(report: FlipReport) -> str:
    counts = report.counts

    def cell(count: float) -> str:
        return f"{int(count):,} ({percent(count / counts.total)})"

    rows = [
        ("**old right**", cell(counts.both_right), f"**{cell(counts.negative_flips)} broken**"),
        ("**old wrong**", f"{cell(counts.positive_flips)} fixed", cell(counts.both_wrong)),
    ]
    return table(["", "new right", "new wrong"], rows)


def _rates(report: FlipReport) -> str:
    counts = report.counts
    described = {
        "nfr": "negative flip rate (NFR)",
        "pfr": "positive flip rate (PFR)",
        "old_accuracy": "old accuracy",
        "new_accuracy": "new accuracy",
        "accuracy_gain": "accuracy gain (points)",
    }
    rows = [(text, percent(getattr(counts, name)), spread(report.intervals[name])) for name, text in described.items()]
    rows += [
        ("NFR, one-sided upper bound", percent(report.nfr_upper), ""),
        ("relative NFR (100 % = independent errors)", percent(counts.relative_nfr, 1), ""),
        ("of the new errors, newly made (NFI)", percent(counts.nfi, 1), ""),
        ("of what was right, kept (BTC)", percent(counts.btc, 1), ""),
        ("answers that changed (churn)", percent(counts.churn), ""),
    ]
    floor, weighted, inferior = report.noise_floor, report.weighted, report.non_inferiority
    if floor:
        rows.append(("noise floor: NFR of a second old run", percent(floor.nfr), spread(floor.interval)))
        rows.append(("excess NFR over the noise floor", points(floor.excess_nfr), spread(floor.excess_interval)))
    if weighted:
        name = f"NFR weighted by {escape(weighted.column)}"
        rows.append((name, percent(weighted.counts.nfr), spread(weighted.nfr_interval)))
    tests = (
        f"The new model: {escape(balance(report))}. Accuracy not inferior by more than {percent(inferior.margin)}: "
        f"{'yes' if inferior.holds else 'not shown'}, {p_text(inferior.p_value)}. "
        f"With so many rows, {detectable(report)}."
    )
    return table(["rate", "value", f"{report.confidence:.0%} interval, %"], rows) + "\n\n" + tests


def _groups(kind: str, groups: Sequence[GroupFlips], max_rows: int, level: float) -> str:
    rows = [
        (
            escape(group.name),
            group.rows,
            group.negative_flips,
            group.positive_flips,
            percent(group.nfr),
            f"{100 * group.nfr_low:.2f} to {100 * group.nfr_high:.2f}",
            f"{percent(group.old_accuracy, 1)} → {percent(group.new_accuracy, 1)}",
            p_column(group.p_worse, group.p_corrected) + (" **worse**" if group.regressed(level) else ""),
        )
        for group in groups[:max_rows]
    ]
    return table([kind, "rows", "broken", "fixed", "NFR", "interval, %", "accuracy", "p that it breaks more"], rows)


def _section(title: str, body: str, entries: int, max_rows: int) -> list[str]:
    more = [f"({entries - max_rows} more in the JSON report)"] if entries > max_rows else []
    return [f"## {title}", body, *more]


def remarks(report: Shown) -> list[str]:
    """What a reader must know before trusting the numbers."""
    if not isinstance(report, FlipReport | ScoreReport):
        return report.remarks()
    if not isinstance(report, FlipReport):
        from .scores import score_remarks

        return score_remarks(report)
    sentences = [report.edited] if report.edited else []
    coverage, labels = report.coverage, report.labels
    if coverage.partial:
        sentences.append(
            f"PARTIAL: {coverage.compared:,} rows compared; left out {coverage.only_old:,} that only the old side has "
            f"and {coverage.only_new:,} that only the new side has."
        )
    if labels.added:
        sentences.append(
            f"{len(labels.added)} added classes with {labels.added_rows:,} rows are reported apart: new accuracy "
            f"there {percent(labels.added_accuracy)}; {labels.flips_into_added:,} negative flips went into an added "
            "class."
        )
    if report.cluster:
        sentences.append(
            f"Every interval, bound and test is drawn by {report.cluster}, because its rows belong together: the "
            f"bound on NFR rests on {report.effective_rows.get('nfr_upper', report.counts.total):,.0f} effective rows."
        )
    return sentences + report.notes


def _provenance(report: FlipReport) -> str:
    def short(value: object) -> str:
        return escape(value) if value else "not recorded"

    fields = ("model", "revision", "weights", "dataset", "split", "fingerprint", "created")
    rows = [(name, short(getattr(report.old, name)), short(getattr(report.new, name))) for name in fields]
    made_with = {**report.new.versions, "hf_pct": report.version}
    rows.append(("versions", short(_versions(report.old.versions)), short(_versions(made_with))))
    return table(["", "old", "new"], rows)


def _versions(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())
