"""The card: what was updated from what, what that breaks, how it was made, and how to check it again."""

import re
from collections.abc import Sequence
from pathlib import Path

import jinja2
from huggingface_hub import ModelCard, constants

from ...core.decode import JsonObject
from ...core.versions import install_command
from ...flips.render.report import escape, flip_square, percent, spread, table, verdict
from ...flips.report import FlipReport
from ...models.revisions import is_commit
from ..client.names import check_repo_id, hub_id, model_id, one_line
from .metadata import ModelFacts, card_metadata

TEMPLATE = Path(__file__).parent / "templates" / "model_card.md.j2"
MAX_CLASSES = 10


def make_card(
    report: FlipReport,
    repo_id: str,
    *,
    folder: str | Path | None = None,
    task: str | None = None,
    license: str | JsonObject | None = None,
    base_model: str | Sequence[str] | None = None,
    dataset_revision: str | None = None,
) -> ModelCard:
    """The model card of an update, as `huggingface_hub.ModelCard`.

    Args:
        report: the flips between the old model and this one.
        repo_id: where the model is published, `namespace/name`; `./name` for a folder that is not published yet.
        folder: the model's files; they say the task and how it was trained or merged.
        task: `text-classification` or `image-classification`, when there is no folder to tell.
        license: an id such as `apache-2.0`, or the fields `license`, `license_name` and `license_link`.
        base_model: what the weights started from; by default the old model, or what a merge was made of.
        dataset_revision: the commit of the dataset that was measured on.
    """
    local = repo_id.startswith("./")
    if not local:
        check_repo_id(repo_id)
    facts = ModelFacts.read(Path(folder), task) if folder else ModelFacts(task=task or "text-classification")
    fields = {"license": license} if isinstance(license, str) else license
    metadata = card_metadata(
        report, repo_id, facts, license=fields, base_model=base_model, dataset_revision=dataset_revision
    )
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    body = environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        name=escape(repo_id.split("/")[-1]),
        repo_id=repo_id,
        old=_old_model(report),
        verdict=verdict(report),
        square=flip_square(report),
        rates=_rates(report),
        classes=_classes(report),
        remarks=[escape(one_line(remark)) for remark in _remarks(report)],
        data=_data(report),
        how=escape(one_line(facts.method.sentence or "How it was trained is not recorded.")),
        citation=facts.method.citation,
        settings=_settings(facts),
        task=facts.task,
        library=facts.library,
        channels=facts.channels,
        verify=compare_command(report, repo_id) if local else verify_command(report, repo_id),
        local=local,
        install=install_command(),
        update=_update(facts),
    )
    return ModelCard(f"---\n{metadata.to_yaml()}\n---\n\n{body}")


def verify_command(report: FlipReport, repo_id: str) -> str:
    """The one command that checks the numbers again; data that is not on the Hub must be there as a file."""
    parts = ["hf-pct", "verify", repo_id]
    if not hub_id(report.new.dataset):
        parts += ["--dataset", _word(report.new.dataset, "DATA")]
    if not model_id(report.old.model, report.old.revision):
        parts += ["--old_model", _word(report.old.model, "OLD")]
    return " ".join(parts)


def compare_command(report: FlipReport, folder: str) -> str:
    """The one command that measures a folder again."""
    old, data = _word(report.old.model, "OLD"), _word(report.new.dataset, "DATA")
    return f"hf-pct compare {old} {folder} --dataset {data} --output_dir again"


def _word(name: str | None, placeholder: str) -> str:
    """A name as a word of a command that people copy; a placeholder for anything that a shell might read otherwise."""
    return name if name and re.fullmatch(r"[\w./][\w./-]*", name, re.ASCII) else placeholder


def _old_model(report: FlipReport) -> str:
    """The old model by name, linked when it is on the Hub, with the commit that was measured."""
    name, revision = report.old.model, report.old.revision
    on_hub = model_id(name, revision)
    shown = escape(one_line(name)) if name else "an earlier model whose name is not recorded"
    if on_hub:
        shown = f"[{shown}]({constants.ENDPOINT}/{on_hub})"
    if is_commit(revision):
        return f"{shown} at commit `{str(revision)[:12]}`"
    return f"{shown} at revision {escape(one_line(revision))}" if revision else shown


def _data(report: FlipReport) -> str:
    name = escape(one_line(report.new.dataset)) if report.new.dataset else "data that is not named"
    if hub_id(report.new.dataset):
        name = f"[{name}]({constants.ENDPOINT}/datasets/{report.new.dataset})"
    split = f", split {escape(one_line(report.new.split))}" if report.new.split else ""
    return f"{name}{split}, {int(report.counts.total):,} rows"


def _rates(report: FlipReport) -> str:
    counts = report.counts
    described = {
        "nfr": "negative flip rate (NFR): was right, is wrong",
        "pfr": "positive flip rate (PFR): was wrong, is right",
        "old_accuracy": "accuracy of the old model",
        "new_accuracy": "accuracy of this model",
    }
    rows = [(text, percent(getattr(counts, name)), spread(report.intervals[name])) for name, text in described.items()]
    rows.append(("NFR, one-sided upper bound", percent(report.nfr_upper), ""))
    rows.append(("relative NFR (100 % = independent errors)", percent(counts.relative_nfr, 1), ""))
    return table(["rate", "value", f"{report.confidence:.0%} interval, %"], rows)


def _classes(report: FlipReport) -> str:
    """The classes that lost most; empty when nothing broke."""
    worst = sorted((group for group in report.classes if group.negative_flips), key=lambda group: -group.nfr)
    rows = [
        (escape(one_line(group.name)), group.rows, group.negative_flips, group.positive_flips, percent(group.nfr),
         f"{100 * group.nfr_low:.2f} to {100 * group.nfr_high:.2f}")
        for group in worst[:MAX_CLASSES]
    ]  # fmt: skip
    return table(["class", "rows", "broken", "fixed", "NFR", "interval, %"], rows) if rows else ""


def _remarks(report: FlipReport) -> list[str]:
    """What a reader must know before trusting the numbers."""
    coverage, labels, floor = report.coverage, report.labels, report.noise_floor
    remarks = []
    if coverage.partial:
        remarks.append(
            f"PARTIAL: {coverage.compared:,} rows were compared; {coverage.only_old + coverage.only_new:,} that only "
            "one of the two models was run on are left out."
        )
    if labels.added:
        remarks.append(
            f"{len(labels.added)} classes are new. Their {labels.added_rows:,} rows are not counted above; of them "
            f"this model gets {percent(labels.added_accuracy)} right."
        )
    if floor:
        remarks.append(
            f"A second run of the old recipe flips {percent(floor.nfr)} by itself; this model flips "
            f"{percent(floor.excess_nfr)} beyond that ({spread(floor.excess_interval)})."
        )
    if report.cluster:
        remarks.append(f"Intervals are drawn by {report.cluster}: rows that belong together stay together.")
    return remarks + report.notes


def _update(facts: ModelFacts) -> str:
    """What `hf-pct update` promised and proved, as a table; empty for a model that it did not make."""
    made = facts.update
    if not made:
        return ""
    proved = made.get("certificate") or {}
    certificate = "none was asked for (--certify)"
    if proved:
        rows = f"{proved.get('rows_tested')} rows that the search did not see"
        said = proved.get("promise") if proved.get("holds") else "NOT CERTIFIED: these rows do not prove the contract"
        certificate = f"{said} ({rows}; measured there: NFR {percent(float(proved.get('nfr') or 0))})"
    rows_of_table = [
        ("chosen", made.get("sentence")),
        ("contract", made.get("promise")),
        ("kept", "yes" if made.get("kept") else "NO: nothing that was tried keeps it, this is the plain model"),
        ("accuracy was held against", made.get("yardstick")),
        ("certificate", certificate),
        ("tried", ", ".join(str(entry.get("name")) for entry in made.get("candidates") or ())),
        ("budget, in plain trainings", made.get("budget")),
    ]
    return table(
        ["", ""], [(name, escape(one_line(value))) for name, value in rows_of_table if value not in (None, "")]
    )


def _settings(facts: ModelFacts) -> str:
    rows = [(escape(one_line(name)), escape(one_line(value))) for name, value in facts.method.settings.items()]
    return table(["setting", "value"], rows) if rows else ""
