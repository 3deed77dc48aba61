"""One HTML file that shows an update: it can be mailed, opened without a network, and read by anyone.

Nothing in a report is trusted. Jinja escapes whatever it places in the markup, the rows lie in a JSON block that
cannot close its own element, the script only ever sets text, and a content security policy that names the hashes of
the one script and the one style sheet forbids everything else: other scripts, and any request to anywhere.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...core.decode import JsonObject
from ...core.files import write_text
from ...flips.gate import GateResult
from ...flips.render.public import public_value, without_local_paths
from ...flips.report import FlipReport
from ...flips.scored.report import ScoreReport
from ...flips.several.candidates import CandidatesReport
from ..extras import ChainSource, CurveSource, check_curve, read_chain, read_curve
from .curve import curve_figure
from .data import data_block, page_rows, page_slices
from .template import render_template
from .thumbnails import MAX_IMAGES, Images, thumbnails
from .view import chain_rows, confusion_rows, gate_rules, group_table, provenance, remarks, summary

SCRIPTS = ("rows.js", "list.js", "browser.js", "page.js")


def render_page(
    report: FlipReport | ScoreReport | CandidatesReport | JsonObject,
    *,
    gate: GateResult | None = None,
    curve: CurveSource | None = None,
    chain: ChainSource | None = None,
    texts: bool = True,
    images: Images | None = None,
    max_images: int = MAX_IMAGES,
) -> str:
    """The page as text. The same report gives the same bytes.

    Args:
        report: a FlipReport, or the dict that its JSON holds; or a ScoreReport, or a CandidatesReport.
        gate: the verdict of `check_gate`, whose rules are then listed.
        curve: what `read_curve` takes: `pct_merge.json`, its contents or its rows; drawn as the alpha curve.
        chain: what `read_chain` takes: versions and their matrix of NFR.
        texts: False leaves the examples out: rows then have ids, answers, confidences and slices, nothing else,
            and of the paths of models and files only the last part is shown.
        images: a mapping from id to PIL image, or a `datasets.Dataset` with one image column.
        max_images: how many thumbnails to carry at most, broken rows first.
    """
    if images is not None and not texts:
        raise ValueError("images were given and texts are to be left out (--no_texts); images are examples too.")
    if isinstance(report, ScoreReport):
        from .scores import render_scores

        if any(option is not None for option in (curve, chain, images)):
            raise ValueError("curve, chain and images belong to flip reports; this is a report of scores.")
        return render_scores(report, gate=gate, texts=texts)
    if isinstance(report, CandidatesReport):
        from .candidates import render_candidates

        if any(option is not None for option in (curve, chain, images)):
            raise ValueError(
                "curve, chain and images belong to one new model; this is a report of several candidates."
            )
        return render_candidates(report, gate=gate, texts=texts)
    if not isinstance(report, FlipReport):
        report = FlipReport.from_dict(report)
    slices, notes = page_slices(report, texts)
    rows = page_rows(report.flips, slices, texts=texts)
    ids = report.flips.column("id").to_pylist()[: rows.count] if "id" in rows.columns else []
    pictures = {} if images is None else thumbnails(images, ids, most=max_images)
    if images is not None and len(pictures) < len(ids):
        notes = [*notes, f"{len(pictures):,} of {len(ids):,} flipped rows are shown with their image."]
    merge_curve = None if curve is None else read_curve(curve)
    versions = None if chain is None else read_chain(chain)
    if merge_curve is not None:
        check_curve(merge_curve, report)
    if not texts:
        report, notes = without_local_paths(report), public_value(notes)
        versions = None if versions is None else replace(versions, versions=public_value(versions.versions))
        merge_curve = None if merge_curve is None else replace(merge_curve, reason=public_value(merge_curve.reason))
    level = 1 - report.confidence
    return render_template(
        "page.html",
        scripts=SCRIPTS,
        **summary(report),
        data=data_block(report, rows, slices, pictures),
        count=rows.count,
        has_confidence=any(_some(rows.columns.get(f"{side}_confidence")) for side in ("old", "new")),
        filters=rows.slices,
        gate=None if gate is None else {"passed": gate.passed, "rules": gate_rules(gate)},
        classes=group_table("class", report.classes, level),
        slices=[group_table(name, report.slices[name], level, name) for name in slices],
        confusions=confusion_rows(report),
        curve=None if merge_curve is None else curve_figure(merge_curve),
        chain=None if versions is None else chain_rows(versions),
        provenance=provenance(report),
        remarks=[*remarks(report), *notes, *rows.notes],
    )


def write_page(
    path: str | os.PathLike,
    report: FlipReport | ScoreReport | CandidatesReport,
    *,
    overwrite: bool = False,
    **options: Any,
) -> Path:
    """Write the page, whole or not at all; `options` are those of `render_page`."""
    return write_text(path, render_page(report, **options), overwrite)


def _some(column: dict[str, list] | None) -> bool:
    return column is not None and any(value is not None for value in column.get("values", ()))
