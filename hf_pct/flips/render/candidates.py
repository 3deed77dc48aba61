"""Several candidates for people: a table of them, and how far each two differ on the same rows."""

from collections.abc import Iterable

from ...core.text import log_safe, visible
from ...core.text import markdown as escape
from ..several.candidates import CandidateDifference, CandidatesReport
from ..stats import Difference, Interval
from .report import percent, remarks, spread, table
from .wording import p_text, points

_HEADER = ("candidate", "accuracy", "gain", "NFR", "interval, %", "below, %", "broken", "fixed", "relative NFR")


def candidates_sentence(report: CandidatesReport) -> str:
    """The candidates in one sentence, in plain text."""
    fewest, most_accurate = report.front[0], report.front[-1]
    by_name = dict(report.items())
    counts = by_name[fewest].counts
    said = (
        f"{len(report.names)} candidates against {report.old_name} on {int(counts.total):,} rows. Fewest flips: "
        f"{fewest}, NFR {percent(counts.nfr)} and accuracy {percent(counts.new_accuracy)}"
    )
    if most_accurate == fewest:
        return said + "; it is the most accurate one too."
    other = by_name[most_accurate].counts
    return said + (f". Most accurate: {most_accurate}, {percent(other.new_accuracy)} with NFR {percent(other.nfr)}.")


def candidates_remarks(report: CandidatesReport) -> list[str]:
    """What a reader must know before trusting the numbers."""
    said = [report.edited] if report.edited else []
    if len(report.names) > 1:
        said.append(
            f"Bounds and intervals hold for all {len(report.names)} candidates together with "
            f"{report.confidence:.0%} confidence, because the best of several is chosen."
        )
    about: dict[str, list[str]] = {}
    for name, entry in report.items():
        for line in remarks(entry):
            about.setdefault(line, []).append(name)
    return said + [
        line if len(names) == len(report.names) else f"{', '.join(names)}: {line}" for line, names in about.items()
    ]


def candidate_cells(name: str, report: CandidatesReport) -> tuple[str, ...]:
    """One candidate as a row of text; the header is `candidate_header`."""
    entry = dict(report.items())[name]
    counts = entry.counts
    return (
        name,
        percent(counts.new_accuracy),
        points(counts.accuracy_gain, sign=True),
        percent(counts.nfr),
        spread(entry.intervals["nfr"]),
        f"{100 * entry.nfr_upper:.2f}",
        f"{int(counts.negative_flips):,}",
        f"{int(counts.positive_flips):,}",
        percent(counts.relative_nfr, 1),
    )


def candidate_header() -> tuple[str, ...]:
    return _HEADER


def difference_cells(entry: CandidateDifference) -> tuple[str, ...]:
    """One pair of candidates as a row of text."""
    return (
        f"{entry.first} − {entry.second}",
        *_difference(entry.nfr, entry.nfr_p),
        *_difference(entry.accuracy, entry.accuracy_p),
    )


def difference_header() -> tuple[str, ...]:
    return ("difference", "NFR, points", "interval", "p", "accuracy, points", "interval", "p")


def _difference(difference: Difference, corrected: float) -> tuple[str, str, str]:
    return (
        f"{100 * difference.estimate:+.2f}",
        _signed(difference.interval),
        p_text(corrected).removeprefix("p ").lstrip("= "),
    )


def _signed(interval: Interval) -> str:
    return f"{100 * interval.low:+.2f} to {100 * interval.high:+.2f}"


def candidates_markdown(report: CandidatesReport) -> str:
    """The whole report for people."""
    front = set(report.front)
    rows = [candidate_cells(name, report) for name in report.names]
    listed = [(f"**{escape(row[0])}**" if row[0] in front else escape(row[0]), *map(escape, row[1:])) for row in rows]
    old = report.reports[0].counts.old_accuracy
    parts = [
        f"# {len(report.names)} candidates for {escape(report.old_name)}",
        f"**{escape(candidates_sentence(report))}**",
        f"Accuracy of {escape(report.old_name)}: {percent(old)}. Bold: no other is better in both NFR and accuracy.",
        table(candidate_header(), listed),
        f"{report.broken_by_any:,} rows are broken by at least one candidate, {report.broken_by_all:,} by all.",
    ]
    if report.differences:
        differences = [tuple(map(escape, difference_cells(entry))) for entry in report.differences]
        parts += [
            "## Between the candidates",
            "Row by row on the same rows; p-values are corrected for all pairs (Holm).",
            table(difference_header(), differences),
        ]
    notes = [f"- {escape(line)}" for line in candidates_remarks(report)]
    return "\n\n".join([*parts, *(["\n".join(notes)] if notes else [])]) + "\n"


def candidates_text(report: CandidatesReport) -> str:
    """The table for a terminal."""
    rows = [_HEADER, *(tuple(map(visible, candidate_cells(name, report))) for name in report.names)]
    lines = [visible(candidates_sentence(report)), "", *_columns(rows)]
    if report.differences:
        lines += [
            "",
            *_columns([difference_header(), *(map(visible, difference_cells(d)) for d in report.differences)]),
        ]
    lines += ["", f"rows broken by at least one: {report.broken_by_any:,}, by all: {report.broken_by_all:,}"]
    return log_safe("\n".join([*lines, *(f"note: {visible(line)}" for line in candidates_remarks(report))]))


def _columns(rows: Iterable[Iterable[str]]) -> list[str]:
    listed = [tuple(row) for row in rows]
    widths = [max(len(row[at]) for row in listed) for at in range(len(listed[0]))]
    return [
        "  ".join(cell.ljust(width) if at == 0 else cell.rjust(width) for at, (cell, width) in
                  enumerate(zip(row, widths, strict=True))).rstrip()
        for row in listed
    ]  # fmt: skip
