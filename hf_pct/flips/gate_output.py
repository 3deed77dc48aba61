"""A gate's verdict for a terminal, for a pull request, and as JUnit XML for a CI server."""

from xml.etree import ElementTree

from .gate import GateResult, RuleResult
from .markdown import escape, percent, table, verdict
from .report import FlipReport


def gate_text(result: GateResult, report: FlipReport) -> str:
    """One screen: the verdict, then each rule with what was found and by how much it holds or fails."""
    lines = [verdict(report), ""]
    width = max(len(each.rule) for each in result.results)
    for each in result.results:
        where = f"  ({each.where})" if each.where else ""
        lines.append(f"{'pass' if each.passed else 'FAIL'}  {each.rule:<{width}}  {_finding(each)}{where}")
    failed = [each.rule for each in result.results if not each.passed]
    lines += ["", f"REGRESSED: {', '.join(failed)}" if failed else "PASSED: every rule holds"]
    return "\n".join(lines)


def gate_markdown(result: GateResult, report: FlipReport) -> str:
    """The verdict as a Markdown section."""
    rows = [
        (
            "✅" if each.passed else "❌",
            f"`{each.rule}`",
            _amount(each, each.value),
            _amount(each, each.limit),
            escape(each.where),
        )
        for each in result.results
    ]
    headline = "passed" if result.passed else "REGRESSED"
    return f"## Flip gate: {headline}\n\n{verdict(report)}\n\n{table(['', 'rule', 'found', 'limit', 'where'], rows)}\n"


def gate_junit(result: GateResult, report: FlipReport) -> str:
    """The verdict as JUnit XML: one test case a rule."""
    failures = sum(not each.passed for each in result.results)
    suite = ElementTree.Element(
        "testsuite",
        name="hf-pct gate",
        tests=str(len(result.results)),
        failures=str(failures),
        errors="0",
        skipped="0",
    )
    for each in result.results:
        case = ElementTree.SubElement(suite, "testcase", classname="hf_pct.gate", name=each.rule, time="0")
        if not each.passed:
            failure = ElementTree.SubElement(case, "failure", type="regression", message=_printable(_finding(each)))
            failure.text = _printable(" ".join(filter(None, (_finding(each), each.where, verdict(report)))))
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _finding(each: RuleResult) -> str:
    side = "inside" if each.passed else "outside"
    found, limit, by = (_amount(each, value) for value in (each.value, each.limit, abs(each.margin)))
    relation = f"at least {limit} asked" if each.rule.startswith("min_") else f"at most {limit} allowed"
    return f"{found}, {relation}: {by} {side}"


def _amount(each: RuleResult, value: float) -> str:
    return f"{int(value):,} rows" if each.rule == "min_rows" else percent(value)


def _printable(text: str) -> str:
    """XML 1.0 has no place for control characters, not even escaped."""
    return "".join(char if char.isprintable() else " " for char in text)
