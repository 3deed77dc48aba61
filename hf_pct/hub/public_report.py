"""What of a flip report is published: numbers, ids and answers; no local paths, and texts only when asked for."""

from collections.abc import Sequence
from dataclasses import replace

from ..flips.gate.consistency import check_consistency
from ..flips.render.public import public_value, without_local_paths
from ..flips.report import FlipReport
from ..flips.tables.predictions import Provenance
from .client.names import public_model, public_name

# what every flipped row has; everything else came from the person's data
ROW_COLUMNS = ("id", "kind", "label", "old_answer", "new_answer", "old_confidence", "new_confidence")


def public_report(
    report: FlipReport,
    repo_id: str,
    *,
    columns: Sequence[str] = (),
    old_model: str | None = None,
    old_revision: str | None = None,
) -> FlipReport:
    """The report as it goes up: about `repo_id`, without further columns of the data unless they are named.

    A column that is not named is neither in the flipped rows nor among the slices: counts by user name the users. A
    report that was changed since it was written is not published.
    """
    check_consistency(report)
    missing = [name for name in columns if name not in (*report.flips.column_names, *report.slices)]
    if missing and len(report.flips):
        raise ValueError(
            f"public_columns names {', '.join(missing)}, but the flipped rows have "
            f"{', '.join(report.flips.column_names)}."
        )
    kept = [name for name in report.flips.column_names if name in ROW_COLUMNS or name in columns]
    slices = {name: groups for name, groups in report.slices.items() if name in columns}
    notes = without_local_paths(report).notes
    dropped = {name for name in (*report.flips.column_names, *report.slices) if name not in (*kept, *slices)}
    if dropped:
        notes.append(f"{len(dropped)} further columns of the data, and the slices by them, are not published.")
    old = _public(report.old)
    if old_model or old_revision:
        old = replace(old, model=old_model or old.model, revision=old_revision or old.revision)
    new = replace(_public(report.new), model=repo_id, revision=None)  # its commit does not exist yet
    return replace(report, flips=report.flips.select(kept), slices=slices, notes=notes, old=old, new=new)


def _public(origin: Provenance) -> Provenance:
    return replace(
        origin,
        model=public_model(origin.model, origin.revision),
        dataset=public_name(origin.dataset),
        settings=public_value(origin.settings),
    )
