"""One HTML file that shows an update: it can be mailed, opened without a network, and read by anyone.

Nothing in a report is trusted. Jinja escapes whatever it places in the markup, the rows lie in a JSON block that
cannot close its own element, the script only ever sets text, and a content security policy that names the hashes of
the one script and the one style sheet forbids everything else: other scripts, and any request to anywhere.
"""

import base64
import hashlib
import os
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from ..files import write_text
from ..flips.gate import GateResult
from ..flips.report import FlipReport
from .curve_svg import curve_figure
from .extras import Chain, MergeCurve, read_chain, read_curve
from .page_data import CORE, data_block, page_rows, page_slices
from .page_view import chain_rows, confusion_rows, gate_rules, group_table, provenance, remarks, summary
from .thumbnails import MAX_IMAGES, thumbnails

SCRIPTS = ("rows.js", "list.js", "browser.js", "page.js")


def render_page(
    report: FlipReport | Mapping[str, Any],
    *,
    gate: GateResult | None = None,
    curve: Any = None,
    chain: Any = None,
    texts: bool = True,
    images: Any = None,
    max_images: int = MAX_IMAGES,
) -> str:
    """The page as text. The same report gives the same bytes.

    Args:
        report: a FlipReport, or the dict that its JSON holds.
        gate: the verdict of `check_gate`, whose rules are then listed.
        curve: what `read_curve` takes: `pct_merge.json`, its contents or its rows; drawn as the alpha curve.
        chain: what `read_chain` takes: versions and their matrix of NFR.
        texts: False leaves the examples out: rows then have ids, answers, confidences and slices, nothing else.
        images: a mapping from id to PIL image, or a `datasets.Dataset` with one image column.
        max_images: how many thumbnails to carry at most, broken rows first.
    """
    if images is not None and not texts:
        raise ValueError("images were given and texts are to be left out (--no_texts); images are examples too.")
    if not isinstance(report, FlipReport):
        report = FlipReport.from_dict(report)
    slices, notes = page_slices(report, texts)
    rows = page_rows(report.flips, slices, texts=texts)
    ids = report.flips.column("id").to_pylist()[: rows.count] if "id" in rows.columns else []
    pictures = {} if images is None else thumbnails(images, ids, most=max_images)
    if images is not None and len(pictures) < len(ids):
        notes = [*notes, f"{len(pictures):,} of {len(ids):,} flipped rows are shown with their image."]
    curve = curve if curve is None or isinstance(curve, MergeCurve) else read_curve(curve)
    chain = chain if chain is None or isinstance(chain, Chain) else read_chain(chain)
    level = 1 - report.confidence
    script, style = _script(), _template("page.css")
    page = (
        _environment()
        .get_template("page.html")
        .render(
            **summary(report),
            policy=_policy(script, style),
            script=script,
            style=style,
            data=data_block(report, rows, slices, pictures),
            flips=rows.count,
            columns=[name for name in rows.columns if name not in CORE],
            has_confidence=any(_some(rows.columns.get(f"{side}_confidence")) for side in ("old", "new")),
            slice_columns=rows.slices,
            gate=None if gate is None else {"passed": gate.passed, "rules": gate_rules(gate)},
            classes=group_table("class", report.classes, level),
            slices=[group_table(name, report.slices[name], level, name) for name in slices],
            confusions=confusion_rows(report),
            curve=None if curve is None else curve_figure(curve),
            chain=None if chain is None else chain_rows(chain),
            provenance=provenance(report),
            remarks=[*remarks(report), *notes, *rows.notes],
        )
    )
    return page.encode("utf-8", "replace").decode("utf-8")  # half a surrogate pair cannot be written to a file


def write_page(path: str | os.PathLike, report: FlipReport, *, overwrite: bool = False, **options: Any) -> Path:
    """Write the page, whole or not at all; `options` are those of `render_page`."""
    return write_text(path, render_page(report, **options), overwrite)


def _some(column: dict[str, list] | None) -> bool:
    return column is not None and any(value is not None for value in column.get("values", ()))


def _policy(script: str, style: str) -> str:
    """No request of any kind; only the one script and the one style sheet of this file; images only as data."""
    return (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"


def _script() -> str:
    """The parts of the script in one scope, so that nothing of it is global."""
    return '"use strict";\n(() => {\n' + "\n".join(_template(name) for name in SCRIPTS) + "})();"


@lru_cache
def _template(name: str) -> str:
    return (files("hf_pct.viz") / "templates" / name).read_text(encoding="utf-8")


@lru_cache
def _environment() -> Any:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    # trusted are only our own script and style sheet and the escaped JSON block; the template marks them one by one
    return Environment(
        loader=FunctionLoader(_template),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
