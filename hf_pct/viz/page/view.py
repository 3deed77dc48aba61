"""What the page says, as text: every number of a report turned into the words and cells that the template shows."""

from collections.abc import Sequence

from ...core.decode import JsonObject
from ...flips.gate import GateResult, RuleResult
from ...flips.grouping import GroupFlips
from ...flips.render.gate import rule_amount, rule_margin
from ...flips.render.report import names_of, percent, spread, verdict
from ...flips.render.report import remarks as remarks
from ...flips.render.wording import balance, p_column, paired_test, points
from ...flips.report import FlipReport
from ...flips.scored.report import ScoreReport
from ...flips.stats import Interval, clopper_pearson
from ..extras import Chain

MAX_GROUPS = 1_000
NOT_RECORDED = "not recorded"


def summary(report: FlipReport) -> JsonObject:
    """The head of the page: what was compared, the verdict, the square and the rates."""
    old, new = names_of(report)
    return {
        "old": old,
        "new": new,
        "verdict": verdict(report).replace("->", "→"),
        "balance": _sentence(balance(report)),
        "test": paired_test(report),
        "square": _square(report),
        "rates": _rates(report),
        "confidence": f"{report.confidence:.0%}",
        "correction": {"holm": "Holm", "bh": "Benjamini-Hochberg"}.get(report.correction, report.correction),
    }


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _square(report: FlipReport) -> list[dict[str, str]]:
    counts = report.counts
    cells = (
        ("right", "both right", counts.both_right, "right before, right now", None),
        ("broken", "broken", counts.negative_flips, "right before, wrong now: NFR", "nfr"),
        ("fixed", "fixed", counts.positive_flips, "wrong before, right now: PFR", "pfr"),
        ("wrong", "both wrong", counts.both_wrong, "wrong before, wrong now", None),
    )
    shown = []
    for kind, name, count, meaning, rate in cells:
        if rate:
            interval: Interval | None = report.intervals.get(rate)
        else:  # drawn by cluster, these two have no interval in the report, and an exact one would be too narrow
            interval = None if report.cluster else clopper_pearson(count, counts.total, report.confidence)
        shown.append(
            {
                "kind": kind,
                "name": name,
                "count": f"{int(count):,}",
                "share": percent(count / counts.total),
                "interval": f"{spread(interval)} %" if interval else "",
                "meaning": meaning,
            }
        )
    return shown


def _rates(report: FlipReport) -> list[tuple[str, str, str]]:
    """Name, value and interval of each rate, the ones to decide on first."""
    counts, intervals = report.counts, report.intervals
    rows = [("Negative flip rate (NFR)", percent(counts.nfr), _interval(intervals.get("nfr")))]
    rows.append((f"NFR is below, with {report.confidence:.0%} confidence", percent(report.nfr_upper), ""))
    floor, weighted = report.noise_floor, report.weighted
    if floor:
        rows.append(("Noise floor: NFR of a second old run", percent(floor.nfr), _interval(floor.interval)))
        rows.append(("NFR beyond the noise floor", points(floor.excess_nfr), _interval(floor.excess_interval)))
    if weighted:
        name = f"NFR weighted by {weighted.column}"
        rows.append((name, percent(weighted.counts.nfr), _interval(weighted.nfr_interval)))
    gain = points(counts.accuracy_gain, sign=True)
    return [
        *rows,
        ("Old accuracy", percent(counts.old_accuracy), _interval(intervals.get("old_accuracy"))),
        ("New accuracy", percent(counts.new_accuracy), _interval(intervals.get("new_accuracy"))),
        ("Accuracy gained", gain, _interval(intervals.get("accuracy_gain"))),
        ("Relative NFR (100 % = independent models)", percent(counts.relative_nfr, 1), ""),
        ("Of the new errors, newly made (NFI)", percent(counts.nfi, 1), ""),
        ("Of what was right, kept (BTC)", percent(counts.btc, 1), ""),
        ("Answers that changed (churn)", percent(counts.churn), ""),
    ]


def _interval(interval: Interval | None) -> str:
    return spread(interval) if interval else ""


def group_table(name: str, groups: Sequence[GroupFlips], level: float, column: str = "") -> JsonObject:
    """Flips by class (no `column`) or by the values of one slice, with a small picture of each interval."""
    shown = list(groups[:MAX_GROUPS])
    # a class of three rows has an interval up to 100 %: the scale is that of the rates, and long whiskers are cut
    top = min(1.0, max((2.2 * group.nfr for group in shown), default=0.0) or 0.02)
    rows = []
    for group in shown:
        mark = "worse" if group.regressed(level) else "better" if group.improved(level) else ""
        rows.append(
            {
                "name": group.name,
                "rows": group.rows,
                "broken": group.negative_flips,
                "fixed": group.positive_flips,
                "nfr": group.nfr,
                "nfr_text": percent(group.nfr),
                "interval": f"{100 * group.nfr_low:.2f} to {100 * group.nfr_high:.2f}",
                "low": round(100 * min(group.nfr_low / top, 1), 2),
                "high": round(100 * min(group.nfr_high / top, 1), 2),
                "at": round(100 * min(group.nfr / top, 1), 2),
                "cut": group.nfr_high > top,
                "old_accuracy": percent(group.old_accuracy, 1),
                "new_accuracy": percent(group.new_accuracy, 1),
                "gain": group.new_accuracy - group.old_accuracy,
                "p": group.p_corrected if group.p_worse is None else group.p_worse,
                "p_text": p_column(group.p_worse, group.p_corrected),
                "mark": mark,
            }
        )
    return {"name": name, "column": column, "rows": rows, "more": len(groups) - len(shown), "top": percent(top, 1)}


def gate_rules(result: GateResult) -> list[JsonObject]:
    """Each rule of a gate: what was found, what was allowed, by how much it holds or fails."""

    def bound(rule: RuleResult) -> str:
        return f"{'at least' if rule.rule.startswith('min_') else 'at most'} {rule_amount(rule.rule, rule.limit)}"

    return [
        {
            "rule": rule.rule,
            "passed": rule.passed,
            "found": rule_amount(rule.rule, rule.value),
            "limit": bound(rule),
            "margin": f"{rule_margin(rule)} {'inside' if rule.passed else 'outside'}",
            "where": rule.where,
        }
        for rule in result.results
    ]


def confusion_rows(report: FlipReport) -> list[JsonObject]:
    """What the new model takes the broken rows for."""
    most = max((confusion.count for confusion in report.confusions), default=1)
    return [
        {
            "label": confusion.label,
            "answer": confusion.new_answer,
            "count": confusion.count,
            "width": round(100 * confusion.count / most, 1),
        }
        for confusion in report.confusions
    ]


def chain_rows(chain: Chain) -> JsonObject:
    """The matrix of NFR, each cell with one of five shades by its size."""
    most = max((value for row in chain.nfr for value in row), default=0.0) or 1.0
    rows = []
    for i, version in enumerate(chain.versions):
        cells: list[tuple[str, int]] = []
        for j, value in enumerate(chain.nfr[i]):
            cells.append(("", 0) if i == j else (percent(value), 1 + min(4, int(4.999 * value / most))))
        rows.append(
            {"name": version, "cells": cells, "accuracy": percent(chain.accuracy[i]) if chain.accuracy else ""}
        )
    return {"versions": chain.versions, "rows": rows, "accuracy": chain.accuracy is not None}


def provenance(report: FlipReport | ScoreReport) -> list[tuple[str, str, str]]:
    """Where both sides come from, so that the numbers can be made again."""
    fields = ("model", "revision", "weights", "dataset", "split", "fingerprint", "created")
    sides = (report.old, report.new)
    rows = [(name, *(str(getattr(side, name) or "") for side in sides)) for name in fields]
    rows.append(("versions", *(", ".join(f"{name} {version}" for name, version in s.versions.items()) for s in sides)))
    known = [(name, old or NOT_RECORDED, new or NOT_RECORDED) for name, old, new in rows if old or new]
    unknown = [name for name, old, new in rows if not old and not new]
    folded = [(NOT_RECORDED, ", ".join(unknown), "")] if unknown else []
    return [*known, *folded, ("compared by", "", f"hf_pct {report.version}")]


__all__ = [
    "chain_rows",
    "confusion_rows",
    "gate_rules",
    "group_table",
    "provenance",
    "remarks",
    "summary",
]
