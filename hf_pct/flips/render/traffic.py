"""A traffic report for a terminal."""

from collections.abc import Iterable, Mapping

from ...core.text import visible
from ..traffic.differences import SliceChurn
from ..traffic.estimate import Estimate
from ..traffic.report import TrafficReport
from .report import percent, spread

MOST = 5


def traffic_sentence(report: TrafficReport) -> str:
    """Churn, and NFR where there are labels."""
    churn = f"{report.differ:,} of {report.rows:,} answers changed: churn {percent(report.churn)}"
    if report.labels is None:
        return f"{churn}; no labels say who is right."
    nfr = report.nfr
    return f"{churn}; NFR {percent(nfr.value)} ({spread(nfr.interval)}) from {report.labels.labelled:,} labels."


def traffic_text(report: TrafficReport) -> str:
    """Churn, what changed into what, and what the labels prove."""
    names = visible(report.old_model or "old model"), visible(report.new_model or "new model")
    lines = [
        "  ->  ".join(names),
        f"{report.differ:,} of {report.rows:,} answers changed: churn {percent(report.churn)} (future traffic: "
        f"{spread(report.churn_interval())} at {report.confidence:.0%} confidence). NFR cannot be larger.",
    ]
    if report.pairs:
        changes = ", ".join(f"{visible(old)} -> {visible(new)} ({count:,})" for old, new, count in report.pairs[:MOST])
        more = f", and {len(report.pairs) - MOST:,} more" if len(report.pairs) > MOST else ""
        lines.append(f"what changed into what: {changes}{more}")
    lines += _label_lines(report) if report.labels else []
    if report.verdict:
        lines.append(_verdict_line(report))
    return "\n".join(lines + [visible(remark) for remark in report.remarks()])


def _label_lines(report: TrafficReport) -> list[str]:
    labels = report.labels
    assert labels is not None
    scope = "future traffic" if labels.future else "this traffic"
    when = ", valid after every label" if labels.sequential else ""
    unsure = sum(stratum.unsure for stratum in labels.strata)
    lines = [
        "",
        f"from {labels.labelled:,} labels of differing rows ({unsure:,} unsure), about {scope}{when}:",
        _estimate("NFR", report.nfr),
        _estimate("PFR", report.pfr),
        _estimate("accuracy gain", report.gain),
        f"  with {report.confidence:.0%} confidence the NFR is below {percent(report.nfr.upper)}; an interval as "
        f"narrow would have taken {labels.random_labels():,} labels of random rows",
    ]
    return lines


def _estimate(name: str, estimate: Estimate) -> str:
    return f"  {name:<14} {percent(estimate.value)} ({spread(estimate.interval)})"


def _verdict_line(report: TrafficReport) -> str:
    verdict = report.verdict
    assert verdict is not None
    limit = f"NFR at most {percent(verdict.max_nfr)}"
    if verdict.verdict == "label on":
        return f"LABEL ON: {verdict.labels_used:,} labels do not decide yet whether {limit}."
    if not verdict.labels_used:
        return f"SHIP: churn alone keeps {limit}; no label is needed."
    ahead = verdict.labels_seen - verdict.labels_used
    spare = f" ({ahead:,} more were not needed)" if ahead else ""
    word, claim = (
        ("SHIP", limit) if verdict.verdict == "ship" else ("HOLD BACK", f"NFR above {percent(verdict.max_nfr)}")
    )
    return f"{word}: {claim} is certain after {verdict.labels_used:,} labels{spare}."


def slice_lines(slices: Iterable[SliceChurn]) -> list[str]:
    """The slices in which most answers changed."""
    return [
        f"  {visible(entry.column)} = {visible(entry.value)}: churn {percent(entry.churn)} "
        f"({spread(entry.interval)}), {entry.differ:,} of {entry.rows:,} rows"
        for entry in list(slices)[:MOST]
    ]


def row_lines(rows: Iterable[Mapping[str, object]]) -> list[str]:
    """Single rows, one line each, with the text if there is one."""
    lines = []
    for row in rows:
        text = visible(row.get("text", ""))
        shown = f": {text[:100]}{'...' if len(text) > 100 else ''}" if text else ""
        lines.append(f"  {visible(row['id'])}  {visible(row['old_answer'])} -> {visible(row['new_answer'])}{shown}")
    return lines
