"""A gate's verdict for a terminal, for a pull request, and as JUnit XML for a CI server."""

from xml.etree import ElementTree

from ...core.text import log_safe, visible
from ...core.text import markdown as escape
from ..gate import GateResult, RuleResult
from ..report import FlipReport
from ..scored.report import ScoreReport
from .report import Shown, percent, remarks, table, verdict
from .wording import points

_SCORE_UNITS = ("min_score_gain", "max_score_loss", "min_mean_gain")
_DIFFERENCES = ("min_accuracy_gain", "max_accuracy_loss", "max_excess_nfr")
"""Rules about a difference of two rates, which is in points."""


def gate_text(result: GateResult, report: Shown) -> str:
    """One screen: the verdict, then each rule with what was found and by how much it holds or fails."""
    lines = [visible(verdict(report)), ""]
    width = max(len(rule.rule) for rule in result.results)
    for rule in result.results:
        where = f"  ({visible(rule.where)})" if rule.where else ""
        lines.append(f"{'pass' if rule.passed else 'FAIL'}  {rule.rule:<{width}}  {_finding(rule)}{where}")
    lines += [f"note: {visible(note)}" for note in remarks(report)]
    lines += ["", visible(result.headline())]
    return log_safe("\n".join(lines))


def gate_markdown(result: GateResult, report: Shown) -> str:
    """The verdict as a Markdown section."""
    rows = [
        (
            "✅" if rule.passed else "❌",
            f"`{rule.rule}`",
            rule_amount(rule.rule, rule.value),
            rule_amount(rule.rule, rule.limit),
            escape(rule.where),
        )
        for rule in result.results
    ]
    headline = "passed" if result.passed else "REGRESSED"
    said = verdict(report) if isinstance(report, FlipReport | ScoreReport) else escape(verdict(report))
    listing = table(["", "rule", "found", "limit", "where"], rows)
    notes = "".join(f"\n- {escape(note)}" for note in [*result.remarks(), *remarks(report)])
    return f"## Flip gate: {headline}\n\n{said}\n\n{listing}\n" + (f"{notes}\n" if notes else "")


def gate_junit(result: GateResult, report: Shown) -> str:
    """The verdict as JUnit XML: one test case per rule."""
    failures = sum(not rule.passed for rule in result.deciding)
    suite = ElementTree.Element(
        "testsuite",
        name="hf-pct gate",
        tests=str(len(result.deciding)),
        failures=str(failures),
        errors="0",
        skipped="0",
    )
    for rule in result.deciding:
        case = ElementTree.SubElement(suite, "testcase", classname="hf_pct.gate", name=rule.rule, time="0")
        if not rule.passed:  # XML 1.0 has no place for control characters, not even escaped
            failure = ElementTree.SubElement(case, "failure", type="regression", message=visible(_finding(rule)))
            failure.text = visible(" ".join(filter(None, (_finding(rule), rule.where, verdict(report)))))
    if remarks(report):
        ElementTree.SubElement(suite, "system-out").text = "\n".join(f"note: {visible(n)}" for n in remarks(report))
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _finding(rule: RuleResult) -> str:
    side = "inside" if rule.passed else "outside"
    value, limit = (rule_amount(rule.rule, number) for number in (rule.value, rule.limit))
    by = rule_margin(rule)
    relation = f"at least {limit} asked" if rule.rule.startswith("min_") else f"at most {limit} allowed"
    return f"{value}, {relation}: {by} {side}"


def rule_amount(rule: str, value: float) -> str:
    """A number in the unit of its rule: rows, tasks, a score, points of accuracy, or percent."""
    if rule == "min_rows":
        return f"{int(value):,} rows"
    if rule == "max_regressed_tasks":
        return f"{int(value):,} tasks"
    if rule in _SCORE_UNITS:
        return f"{value:.4g}"
    return points(value) if rule in _DIFFERENCES else percent(value)


def rule_margin(rule: RuleResult) -> str:
    """How far a rule holds or fails: between two percents lie points."""
    amount = rule_amount(rule.rule, abs(rule.margin))
    return points(abs(rule.margin)) if amount.endswith("%") else amount
