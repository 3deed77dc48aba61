"""push_update: a model on the Hub together with what it breaks, in one commit."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from huggingface_hub import HfApi

from ..core.decode import JsonObject
from ..flips.report import FlipReport
from ..models.revisions import is_commit
from ..models.types import SavesItself
from .card.old_card import carried_over, propose_new_version
from .card.text import make_card
from .client.access import check_stays_private, check_write_access
from .client.calls import HubError
from .client.commit import Commit, Content, commit_files
from .client.names import check_repo_id, model_id, one_line
from .contents import gather, is_stale
from .evidence import check_loads
from .flips_dataset import check_flips, push_flips
from .public_report import public_report

if TYPE_CHECKING:
    from torch import nn


REPORT, CARD = "flip_report.json", "README.md"


@dataclass(frozen=True)
class PushResult:
    """Where everything is now, and what the person who pushed should know."""

    repo_id: str
    commit: str
    url: str
    new_version_url: str | None = None
    flips_dataset: str | None = None
    notes: list[str] = field(default_factory=list)


def push_update(
    model: str | PathLike | nn.Module,
    report: FlipReport | str | PathLike[str],
    repo_id: str,
    *,
    processor: str | PathLike | SavesItself | None = None,
    token: str | None = None,
    private: bool | None = None,
    revision: str | None = None,
    commit_message: str | None = None,
    replace_card: bool = False,
    license: str | None = None,
    base_model: str | Sequence[str] | None = None,
    old_model: str | None = None,
    old_revision: str | None = None,
    dataset_revision: str | None = None,
    public_columns: Sequence[str] = (),
    set_new_version: bool = False,
    flips_dataset: str | None = None,
    flips_public: bool = False,
    label_names: Sequence[str] | None = None,
    model_args: JsonObject | None = None,
) -> PushResult:
    """Publish an update: weights, config, tokenizer or image processor, card and flip report, in one commit.

    Access is checked first, then that the files load and are those that the report is about. A push that breaks can
    be repeated. Flipped rows go up as ids, answers and confidences only.

    Args:
        model: a folder, or a transformers, PEFT or timm model.
        report: the flips against the model that it replaces, or its file.
        repo_id: `namespace/name`; created when it does not exist.
        processor: the tokenizer or image processor, when it is not in the folder.
        token: by default the one of `hf auth login` or HF_TOKEN.
        private: the repository is created private; one that exists and is public is refused.
        revision: the branch to commit to; main by default.
        commit_message: by default it says what the model updates.
        replace_card: write the card over a README.md that is in the repository already.
        license: by default that of the old model's card.
        base_model: what the weights started from, for the card; by default the old model.
        old_model: the old model's id on the Hub, when the report was made with a copy of it.
        old_revision: its commit.
        dataset_revision: the commit of the dataset, for the card.
        public_columns: further columns of the flipped rows to publish, such as the text.
        set_new_version: open a pull request on the old model's repository that points to this one.
        flips_dataset: publish the flipped rows with all their columns as this dataset.
        flips_public: make that dataset public; it is private otherwise.
        label_names: the classes of a timm model that does not say them.
        model_args: what `timm.create_model` was called with, when that changes the architecture.

    Example:
        >>> from hf_pct import FlipReport, push_update
        >>> push_update("v2", FlipReport.load("report.json"), "my-org/my-model")  # doctest: +SKIP
    """
    flips = report if isinstance(report, FlipReport) else FlipReport.load(report)
    public_name = old_model or model_id(flips.old.model, old_revision or flips.old.revision)
    _check_plan(public_name, repo_id, old_model, set_new_version)
    if flips_dataset:
        check_flips(flips)
    full_id = check_write_access(repo_id, token)
    dataset_id = check_write_access(flips_dataset, token, repo_type="dataset") if flips_dataset else None
    if private:
        check_stays_private(full_id, token)
    if dataset_id and not flips_public:
        check_stays_private(dataset_id, token, repo_type="dataset")
    published = public_report(flips, full_id, columns=public_columns, old_model=old_model, old_revision=old_revision)
    with tempfile.TemporaryDirectory(prefix="hf_pct-") as scratch:
        folder = Path(scratch) / "model"
        folder.mkdir()
        gather(model, folder, processor=processor, label_names=label_names, model_args=model_args)
        notes = check_loads(flips, folder, str(model) if isinstance(model, str | PathLike) else "the model")
        if public_name and not is_commit(published.old.revision):
            notes.append(
                f"The report does not record the commit of {public_name}: pass old_revision (--old_revision)."
            )
        terms: JsonObject = {"license": license}
        if license is None:
            terms, license_notes = carried_over(public_name, published.old.revision, token)
            notes += license_notes
        card = make_card(
            published,
            full_id,
            folder=folder,
            license=terms,
            base_model=base_model or old_model,
            dataset_revision=dataset_revision,
        )
        published.save(folder / REPORT, overwrite=True)  # and a file of its rows where they are many
        files: dict[str, Content] = {path.name: path for path in sorted(folder.iterdir())}
        files[CARD] = str(card).encode("utf-8")
        done = commit_files(
            HfApi(token=token),
            full_id,
            files,
            message=commit_message or one_line(f"Update of {published.old.model or 'an earlier model'}"),
            revision=revision,
            private=private,
            keep=() if replace_card else (CARD,),
            is_stale=lambda path: is_stale(path, list(files)),
        )
    notes += _told(done)
    address = None
    if dataset_id:
        address = push_flips(flips, dataset_id, full_id, token=token, private=not flips_public).url
    proposal = None
    if set_new_version and public_name:
        proposal = _propose(public_name, full_id, token, card.text, notes)
    return PushResult(full_id, done.oid, done.url, proposal, address, notes)


def _check_plan(public_name: str | None, repo_id: str, old_model: str | None, set_new_version: bool) -> None:
    """What can be known to fail, before anything goes up."""
    check_repo_id(repo_id)
    if old_model is not None:
        check_repo_id(old_model)
    if set_new_version and public_name is None:
        raise ValueError(
            "set_new_version needs the old model's id on the Hub, and the report has none: pass old_model "
            "(--old_model)."
        )
    if public_name == repo_id and set_new_version:
        raise ValueError(f"{repo_id} is both the old and the new model; set_new_version points from one to another.")


def _told(done: Commit) -> list[str]:
    notes = []
    if CARD in done.kept:
        notes.append(
            "README.md of the repository is kept and may speak of other numbers: replace_card (--replace_card)."
        )
    if done.removed:
        notes.append(f"Taken away in the same commit, as left from another model: {', '.join(done.removed)}.")
    return notes


def _propose(old: str, new: str, token: str | None, body: str, notes: list[str]) -> str | None:
    """The pull request on the old model; if it fails, the push stays and the failure is reported."""
    try:
        summary = next((line.strip("*") for line in body.splitlines() if line.startswith("**")), "")
        address = propose_new_version(old, new, token=token, message=summary)
    except (HubError, ValueError) as error:
        raise HubError(f"{new} is published, but its new_version is not proposed. {error}") from error
    if address is None:
        notes.append(f"The card of {old} names {new} as its new version already.")
    return address
