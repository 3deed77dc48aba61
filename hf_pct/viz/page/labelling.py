"""One HTML file in which a person labels a plan by keyboard and saves the labels as a CSV file.

The same rules as for the page of a report: everything from data is text, one script and one style sheet whose hashes
the content security policy names, and no request to anywhere. The labels leave the page only as a file.
"""

import os
from pathlib import Path

from ...core.files import write_text
from ...flips.traffic.plan import TO_FILL, LabelPlan
from .data import safe_json
from .template import render_template

MAX_CHARACTERS = 5_000
_SHOWN_APART = ("order", "id", "stratum", "old_answer", "new_answer", "text", *TO_FILL)


def render_labelling_page(plan: LabelPlan, title: str = "Who is right?") -> str:
    """The page as text. The same plan gives the same bytes."""
    return render_template(
        "label.html",
        scripts=("label.js",),
        styles=("page.css", "label.css"),
        title=title,
        count=f"{len(plan):,}",
        data=safe_json({"rows": [_row(row) for row in plan.table.to_pylist()]}),
    )


def write_labelling_page(path: str | os.PathLike, plan: LabelPlan, *, overwrite: bool = False) -> Path:
    """Write the page, whole or not at all."""
    return write_text(path, render_labelling_page(plan), overwrite)


def _row(row: dict) -> dict:
    """What the page needs of a row; further columns are shown as they are, as text."""
    further = {
        name: str(value)[:MAX_CHARACTERS]
        for name, value in row.items()
        if name not in _SHOWN_APART and value not in (None, "") and not isinstance(value, (bytes, dict, list))
    }
    shown = {name: row[name] for name in ("order", "id", "stratum", "old_answer", "new_answer")}
    return {**shown, "text": str(row.get("text") or "")[:MAX_CHARACTERS], "further": further}
