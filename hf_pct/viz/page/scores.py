"""The page of a ScoreReport: tasks, slices, and a browser of the rows that changed, with both answers side by side."""

import pyarrow as pa

from ...core.decode import JsonObject
from ...flips.gate import GateResult
from ...flips.render.public import without_local_paths
from ...flips.render.report import percent
from ...flips.render.scores import (
    between,
    names_of_sides,
    number,
    pooled_sentence,
    rows_text,
    score_remarks,
    scores_verdict,
    signed,
)
from ...flips.scored.report import ScoreReport
from ...flips.scored.task_report import ScoreGroup, TaskReport
from .data import MIN_ROWS_A_VALUE, page_rows, safe_json
from .template import render_template
from .view import gate_rules, provenance

SCRIPTS = ("rows.js", "list.js", "browser.js", "words.js", "score_browser.js", "page.js")
KINDS = ("broken", "worse", "changed", "fixed", "better")
_PLAIN = ("id", "task", "kind", "old_score", "new_score")
_SLICE_COLUMNS = ("", "rows", "broken", "fixed", "NFR", "mean", "gain", "p")

Cell = tuple[str, object, bool]


def render_scores(report: ScoreReport, *, gate: GateResult | None = None, texts: bool = True) -> str:
    """The page as text. The same report gives the same bytes.

    Args:
        report: what `compare` found between two tables of scores.
        gate: the verdict of `check_gate`, whose rules are then listed.
        texts: False leaves prompts, answers and labels out: rows then have ids, outcomes, scores and slices.
    """
    if not texts:
        report = without_local_paths(report)
    slices = _shown_slices(report, texts)
    rows = page_rows(_listed(report, slices, texts), [name for name in slices if name != "task"], texts=True)
    notes = [] if texts else ["Prompts, answers and labels are left out; rows are named by their ids."]
    kinds = [kind for kind in KINDS if any(task.outcomes[kind] for task in report.tasks)]
    old, new = names_of_sides(report)
    columns = {"rows": rows.count, "columns": rows.columns, "slices": rows.slices, "thumbnails": {}, "list": "rows"}
    head = report.to_dict(rows=False)
    if not texts:
        head["tasks"] = [_without_texts(task, slices) for task in head["tasks"]]
    return render_template(
        "scores.html",
        scripts=SCRIPTS,
        styles=("page.css", "scores.css"),
        data=safe_json({"report": head, **columns}),
        old=old,
        new=new,
        verdict=scores_verdict(report).replace("->", "→"),
        balance=pooled_sentence(report),
        remarks=[*score_remarks(report), *notes, *rows.notes],
        task_columns=[
            (name, name not in ("task", "metric"))
            for name in ("task", "metric", "rows", *kinds, "NFR", "mean", "gain", "p")
        ],
        tasks=[
            {"name": task.task, "regressed": task.regressed, "cells": _task_cells(task, kinds)}
            for task in report.tasks
        ],
        slice_columns=[(name, bool(name)) for name in _SLICE_COLUMNS],
        slices=[table for task in report.tasks for table in _slice_tables(task, slices, len(report.tasks) > 1)],
        gate=None if gate is None else {"passed": gate.passed, "rules": gate_rules(gate)},
        count=rows.count,
        kinds=[(kind, kind) for kind in kinds],
        filters=slices,
        provenance=provenance(report),
    )


def _shown_slices(report: ScoreReport, texts: bool) -> list[str]:
    """The task first; without texts no column that may be text itself: too few rows per value."""
    names = dict.fromkeys(name for task in report.tasks for name in task.slices)
    if not texts:
        groups = {name: [task.slices[name] for task in report.tasks if name in task.slices] for name in names}
        names = dict.fromkeys(
            name
            for name, tables in groups.items()
            if all(sum(group.rows for group in table) >= MIN_ROWS_A_VALUE * len(table) for table in tables)
        )
    return ["task", *(name for name in names if name != "task")]


def _listed(report: ScoreReport, slices: list[str], texts: bool) -> pa.Table:
    """The rows to list. With several tasks an id is only unique together with its task."""
    table = report.rows
    if not texts:
        table = table.select([name for name in table.column_names if name in (*_PLAIN, *slices)])
    if len(report.tasks) > 1 and table.num_rows:
        pairs = zip(table.column("task").to_pylist(), table.column("id").to_pylist(), strict=True)
        ids = pa.array([f"{task}: {identity}" for task, identity in pairs])
        table = table.set_column(table.column_names.index("id"), "id", ids)
    return table


def _without_texts(task: JsonObject, slices: list[str]) -> JsonObject:
    return {**task, "slices": {name: groups for name, groups in task["slices"].items() if name in slices}}


def _table_row(name: str, cells: list[Cell], regressed: bool = False) -> JsonObject:
    return {"name": name, "cells": cells, "regressed": regressed}


def _task_cells(task: TaskReport, kinds: list[str]) -> list[Cell]:
    counts = [(rows_text(task.outcomes[kind]), task.outcomes[kind], True) for kind in kinds]
    nfr = task.rates.get("nfr")
    gain = task.gain
    return [
        (task.metric, task.metric, False),
        (f"{task.rows:,}", task.rows, True),
        *counts,
        ("" if nfr is None else percent(nfr), -1 if nfr is None else nfr, True),
        (f"{number(gain.old_mean)} → {number(gain.new_mean)}", gain.new_mean, True),
        (f"{signed(gain.estimate)} ({between(gain.interval)})", gain.estimate, True),
        (f"{task.p_corrected:.3g}", task.p_corrected, True),
    ]


def _slice_tables(task: TaskReport, slices: list[str], named: bool) -> list[JsonObject]:
    return [
        {
            "title": f"{task.task}, by {name}" if named else f"By {name}",
            "column": name,
            "rows": [_table_row(group.name, _group_cells(group)) for group in groups],
        }
        for name, groups in task.slices.items()
        if name in slices
    ]


def _group_cells(group: ScoreGroup) -> list[Cell]:
    return [
        (f"{group.rows:,}", group.rows, True),
        (rows_text(group.negative_flips), group.negative_flips, True),
        (rows_text(group.positive_flips), group.positive_flips, True),
        (percent(group.nfr), group.nfr, True),
        (f"{number(group.old_mean)} → {number(group.new_mean)}", group.new_mean, True),
        (signed(group.gain), group.gain, True),
        (f"{group.p_corrected:.3g}", group.p_corrected, True),
    ]
