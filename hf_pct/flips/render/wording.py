"""How a test's result is said, the same in a terminal, in Markdown and on the page."""

from ..power import DEFAULT_POWER, detectable_drop
from ..report import FlipReport


def points(difference: float, sign: bool = False) -> str:
    """A difference of two rates: the unit between 3 % and 4 % is a point, not a percent."""
    return f"{100 * difference:{'+' if sign else ''}.2f} points"


def p_text(p_value: float) -> str:
    """A p-value as people read it: values below 0.001 are not distinguished."""
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"


def balance(report: FlipReport) -> str:
    """Whether the new model breaks more than it fixes: what was found, with the test that found it."""
    broken, fixed = report.counts.negative_flips, report.counts.positive_flips
    if not broken and not fixed:
        return "no row changed between right and wrong"
    p_value = report.mcnemar.exact
    if p_value >= 1 - report.confidence:
        outcome = "these rows cannot tell whether it breaks more than it fixes or the other way round"
    else:
        outcome = "fixes more than it breaks" if fixed > broken else "breaks more than it fixes"
    return f"{outcome}, {p_text(p_value)} ({paired_test(report)})"


def detectable(report: FlipReport) -> str:
    """The smallest loss of accuracy that the report's rows could have shown."""
    counts = report.counts
    rows = report.effective_rows.get("non_inferiority", counts.total)
    drop = detectable_drop(rows, min(counts.flip_rate / 2, 0.499), confidence=report.confidence)
    if drop is None:
        return "no loss of accuracy could be shown reliably: too few rows"
    return f"the smallest loss of accuracy shown in {DEFAULT_POWER:.0%} of cases is {100 * drop:.2f} points"


def paired_test(report: FlipReport) -> str:
    """The paired test behind a report's p-values."""
    return f"sign flips by {report.cluster}" if report.cluster else "exact McNemar"


def p_column(worse: float | None, corrected: float) -> str:
    """The cell of a group's p-value; reports of earlier versions have only the two-sided one."""
    return p_text(corrected if worse is None else worse).removeprefix("p ").removeprefix("= ")
