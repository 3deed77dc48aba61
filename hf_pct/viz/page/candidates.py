"""Several candidates as one self-contained page: of an update by contract, or of one old model's candidates."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.decode import JsonObject
from ...flips.choice.choose import Choice, Point
from ...flips.gate import GateResult
from ...flips.render.candidates import candidate_cells, candidate_header, difference_cells, difference_header
from ...flips.render.public import public_value
from ...flips.render.report import percent
from ...flips.several.candidates import CandidatesReport
from .data import safe_json
from .scatter import Axes, Mark, scatter_svg
from .template import render_template
from .view import gate_rules

SCRIPTS = ("rows.js", "list.js", "browser.js", "page.js")
_CHOICE_HEADER = ("candidate", "alpha", "accuracy, %", "NFR, %", "expected NFR, %", "expected loss, points", "risk",
                  "keeps the contract")  # fmt: skip


def render_candidates(report: CandidatesReport, *, gate: GateResult | None = None, texts: bool = True) -> str:
    """The page of candidates for one old model: table, scatter, differences, and which ones a gate passes."""
    names = report.names if texts else public_value(report.names)
    shown = dict(zip(report.names, names, strict=True))
    front = set(report.front)
    rows = [
        {"cells": [shown[name], *candidate_cells(name, report)[1:]], "chosen": name in front} for name in report.names
    ]
    differences = [difference_cells(entry) for entry in report.differences]
    remarks = report.remarks()
    data = {"report": {**report.to_dict(), "names": list(names)}, "file": "candidates.json", "list": None}
    return _page(
        title=f"Candidates for {report.old_name}",
        heading=report.old_name if texts else public_value(report.old_name),
        count=f"{len(names)} candidates" if len(names) > 1 else names[0],
        sentence=report.sentence() if texts else public_value(report.sentence()),
        remarks=remarks if texts else public_value(remarks),
        gate=None
        if gate is None
        else {"passed": gate.passed, "rules": gate_rules(gate), "said": gate.headline().partition(": ")[2]},
        figure=_report_scatter(report, shown),
        legend="Up and left is better. The line joins the candidates that no other beats in both; the dashed line is "
        f"the old model. Bars: what holds for all candidates together with {report.confidence:.0%} confidence.",
        header=candidate_header(),
        rows=rows,
        note="Bold: no other candidate is better in both NFR and accuracy. "
        f"{report.broken_by_any:,} rows are broken by at least one candidate, {report.broken_by_all:,} by all.",
        second={"header": difference_header(), "rows": differences} if differences else None,
        data=safe_json({**data, **_NO_ROWS} if texts else {"report": {}, "file": "", "list": None, **_NO_ROWS}),
        download=texts,
    )


def _said(gate: GateResult) -> str:
    """The verdict without its first word, which the page shows as a mark."""
    return gate.headline().partition(": ")[2]


def _report_scatter(report: CandidatesReport, shown: dict[str, str]) -> str:
    marks = [
        Mark(
            shown[name], entry.nfr, entry.counts.new_accuracy,
            (entry.intervals["nfr"].low, entry.intervals["nfr"].high),
            (entry.intervals["new_accuracy"].low, entry.intervals["new_accuracy"].high),
            f"{shown[name]}: accuracy {percent(entry.counts.new_accuracy)}, NFR {percent(entry.nfr)}",
        )
        for name, entry in report.items()
    ]  # fmt: skip
    by_name = dict(report.items())
    front = [(by_name[name].nfr, by_name[name].counts.new_accuracy) for name in report.front]
    old = report.reports[0].counts.old_accuracy
    return scatter_svg(marks, front, Axes("NFR, %", "accuracy, %", limit=old, limit_name="old model"))


# ---- an update by contract


def pareto_front(points: list[Point]) -> list[Point]:
    """The points that no other beats in both expected NFR and expected accuracy, from few flips to many."""
    front: list[Point] = []
    for point in sorted(points, key=lambda point: (point.expected_nfr, point.expected_loss)):
        if not front or point.expected_loss < front[-1].expected_loss:
            front.append(point)
    return front


def candidates_svg(choice: Choice, shipped: Point | None) -> str:
    """Accuracy against the yardstick (up is better) over NFR (left is better), with 90 % ranges of the fit."""
    points = [point for point in choice.points if point.alpha < 1]
    marks = [
        Mark(
            point.candidate, point.expected_nfr, -point.expected_loss, (point.nfr_low, point.nfr_high),
            (-point.loss_high, -point.loss_low), _told(point), point.allowed, _is(point, shipped),
        )
        for point in points
    ]  # fmt: skip
    contract = choice.contract
    limited = contract.accuracy_matters and contract.target_accuracy is None
    axes = Axes(
        "NFR, % (expected, with 90 % range)", "accuracy against the yardstick, points", "+",
        -contract.allowed_loss if limited else None, "contract",
    )  # fmt: skip
    front = [(point.expected_nfr, -point.expected_loss) for point in pareto_front(points)]
    return scatter_svg(marks, front, axes)


def _told(point: Point) -> str:
    return (
        f"{point.candidate}, alpha {point.alpha:g}: measured accuracy {percent(point.accuracy)}, NFR "
        f"{percent(point.nfr)}; expected NFR {percent(point.expected_nfr)}, expected loss "
        f"{100 * point.expected_loss:.2f} points; chance of a broken promise {point.risk:.0%}"
    )


def _is(point: Point, shipped: Point | None) -> bool:
    return shipped is not None and (point.candidate, point.alpha) == (shipped.candidate, shipped.alpha)


def _choice_cells(point: Point) -> list[str]:
    rates = (point.accuracy, point.nfr, point.expected_nfr, point.expected_loss)
    keeps = "yes" if point.allowed else "no"
    return [point.candidate, f"{point.alpha:g}", *(f"{100 * rate:.2f}" for rate in rates), f"{point.risk:.0%}", keeps]


def candidates_page(choice: Choice, shipped: Point | None, sentence: str) -> str:
    """The page of an update: every candidate at every alpha, what the contract asked for, and what was written.

    It has no script, so that it can lie beside a model on the Hub and be shown anywhere.
    """
    rows = [{"cells": _choice_cells(point), "chosen": _is(point, shipped)} for point in choice.points]
    return _page(
        title="Update: candidates",
        heading="Candidates of the update",
        count="",
        sentence=sentence,
        remarks=[],
        gate=None,
        figure=candidates_svg(choice, shipped),
        legend=f"Filled points keep the contract; the ring was written. Yardstick: {choice.yardstick}.",
        header=_CHOICE_HEADER,
        rows=rows,
        note="Bold: the model that was written. Alpha is the share of the old model.",
        second=None,
        download=False,
        scripts=(),
    )


_NO_ROWS: JsonObject = {"rows": 0, "columns": {}, "slices": [], "thumbnails": {}}


def _page(scripts: Sequence[str] = ("rows.js", "list.js", "browser.js", "page.js"), **values: object) -> str:
    shown: JsonObject = dict(values)
    return render_template("candidates.html", scripts=scripts, **shown)
