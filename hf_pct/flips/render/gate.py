"""A gate's verdict for a terminal, for a pull request, and as JUnit XML for a CI server."""

from xml.etree import ElementTree

from ...core.text import log_safe, visible
from ...core.text import markdown as escape
from ..gate import GateResult, RuleResult
from ..report import FlipReport
from ..scored.report import ScoreReport
from ..traffic.report import TrafficReport
from .report import percent, remarks, table, verdict

_SCORE_UNITS = ("min_score_gain", "max_score_loss", "min_mean_gain")


def gate_text(result: GateResult, report: FlipReport | ScoreReport | TrafficReport) -> str:
    """One screen: the verdict, then each rule with what was found and by how much it holds or fails."""
    lines = [verdict(report), ""]
    width = max(len(rule.rule) for rule in result.results)
    for rule in result.results:
        where = f"  ({visible(rule.where)})" if rule.where else ""
        lines.append(f"{'pass' if rule.passed else 'FAIL'}  {rule.rule:<{width}}  {_finding(rule)}{where}")
    lines += [f"note: {visible(note)}" for note in remarks(report)]
    failed = [rule.rule for rule in result.results if not rule.passed]
    lines += ["", f"REGRESSED: {', '.join(failed)}" if failed else "PASSED: every rule holds"]
    return log_safe("\n".join(lines))


def gate_markdown(result: GateResult, report: FlipReport | ScoreReport | TrafficReport) -> str:
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
    listing = table(["", "rule", "found", "limit", "where"], rows)
    notes = "".join(f"\n- {escape(note)}" for note in remarks(report))
    return f"## Flip gate: {headline}\n\n{verdict(report)}\n\n{listing}\n" + (f"{notes}\n" if notes else "")


def gate_junit(result: GateResult, report: FlipReport | ScoreReport | TrafficReport) -> str:
    """The verdict as JUnit XML: one test case per rule."""
    failures = sum(not rule.passed for rule in result.results)
    suite = ElementTree.Element(
        "testsuite",
        name="hf-pct gate",
        tests=str(len(result.results)),
        failures=str(failures),
        errors="0",
        skipped="0",
    )
    for rule in result.results:
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
    value, limit, by = (rule_amount(rule.rule, number) for number in (rule.value, rule.limit, abs(rule.margin)))
    relation = f"at least {limit} asked" if rule.rule.startswith("min_") else f"at most {limit} allowed"
    return f"{value}, {relation}: {by} {side}"


def rule_amount(rule: str, value: float) -> str:
    """A number in the unit of its rule: rows, tasks, points of a score, or percent."""
    if rule == "min_rows":
        return f"{int(value):,} rows"
    if rule == "max_regressed_tasks":
        return f"{int(value):,} tasks"
    return f"{value:.4g}" if rule in _SCORE_UNITS else percent(value)
