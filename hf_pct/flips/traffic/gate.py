"""The gate for traffic: the rules that labels of differing rows can answer."""

from ...core.errors import NotComparableError
from ..gate import GateConfig, GateResult, RuleResult
from .report import TrafficReport

ANSWERED = ("max_nfr", "max_nfr_upper", "min_accuracy_gain", "max_accuracy_loss", "min_rows")


def check_traffic_gate(report: TrafficReport, config: GateConfig) -> GateResult:
    """Hold a traffic report against the rules; refuses those that it cannot answer.

    `min_rows` is about the labels: they are what the rates rest on.
    """
    rules = config.rules()
    if not rules and not getattr(config, "tasks", None):
        raise ValueError("The gate has no rule, so it would pass anything. Set at least one, such as max_nfr: 0.01.")
    unanswered = [rule for rule in rules if rule not in ANSWERED]
    unanswered += ["tasks"] if getattr(config, "tasks", None) else []
    if unanswered:
        raise NotComparableError(
            f"{', '.join(unanswered)}: labels of differing rows cannot answer this. A traffic report answers "
            f"{', '.join(ANSWERED)}; the others need a comparison on labelled data (hf-pct compare)."
        )
    if report.left_out and not config.allow_partial:
        raise NotComparableError(
            f"The report leaves out {report.left_out} rows that one side lacks. Answer the same rows with both "
            "models, or set allow_partial (--allow_partial) to judge what there is."
        )
    if report.verdict is not None and report.verdict.verdict == "label on":
        raise NotComparableError(
            f"The labels do not decide yet whether NFR is at most {report.verdict.max_nfr:.4f}. Label on."
        )
    if report.labels is not None and report.differ and not report.labels.decided:
        raise NotComparableError(
            f"All {report.labels.labelled} labels are 'unsure', so nothing says who is right. Label other rows."
        )
    return GateResult(tuple(_check(rule, limit, report) for rule, limit in rules.items()))


def _check(rule: str, limit: float, report: TrafficReport) -> RuleResult:
    if not report.differ and report.labels is None:  # alike everywhere: nothing broke, nothing was fixed
        value, where = (report.rows if rule == "min_rows" else 0.0), "no answer changed"
    else:
        value, where = _measure(rule, report)
    passed = value >= limit if rule.startswith("min_") else value <= limit
    return RuleResult(rule, value, limit, passed, where)


def _measure(rule: str, report: TrafficReport) -> tuple[float, str]:
    if rule == "min_rows":
        return (report.labels.labelled if report.labels else 0), "labels"
    if rule in ("max_nfr", "max_nfr_upper") and report.labels is None and report.verdict is not None:
        return report.churn, "churn, which NFR cannot exceed"
    if rule == "max_nfr":
        return report.nfr.value, ""
    if rule == "max_nfr_upper":
        return report.nfr.upper, ""
    gain = report.gain
    return (gain.value, "") if rule == "min_accuracy_gain" else (max(0.0, -gain.lower), "")
