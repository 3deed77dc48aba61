"""The old model's page: its license is carried over, and a pull request can point its readers to the update."""

import re

import yaml
from huggingface_hub import CommitOperationAdd, HfApi, ModelCard, constants
from huggingface_hub.errors import RemoteEntryNotFoundError

from ...core.decode import JsonObject
from ..client.calls import HubError, call
from ..client.names import check_repo_id

_LICENSE_FIELDS = ("license", "license_name", "license_link", "language")
_BLOCK = re.compile(r"\A(\s*---[ \t]*(?:\r\n|\n))(.*?)((?:^)---[ \t]*(?:\r\n|\n|\Z))", re.DOTALL | re.MULTILINE)
_LINE = re.compile(r"^new_version[ \t]*:.*?(?=\r?$)", re.MULTILINE)


def carried_over(old_model: str | None, revision: str | None, token: str | None) -> tuple[JsonObject, list[str]]:
    """License and language of the old model's card, and what to say when it cannot be read."""
    if old_model is None:
        return {}, ["The old model is not on the Hub: no license is carried over; say it with license (--license)."]
    try:
        text = call(f"read the card of {old_model}", lambda: _readme(HfApi(token=token), old_model, revision))
        data = ModelCard(text or "", ignore_metadata_errors=True).data.to_dict()
    except (HubError, ValueError, yaml.YAMLError) as error:
        return {}, [f"No license is carried over: {error}"]
    license_fields = {name: data[name] for name in _LICENSE_FIELDS if data.get(name)}
    if "license" in license_fields:
        return license_fields, []
    return license_fields, [f"The card of {old_model} names no license; say it with license (--license)."]


def propose_new_version(old_model: str, new_model: str, *, token: str | None = None, message: str = "") -> str | None:
    """Open a pull request on the old model's repository that sets `new_version`; never a direct commit.

    Returns its address; that of the one that is open already; or None when the card says so already.
    """
    check_repo_id(old_model)
    check_repo_id(new_model)
    api = HfApi(token=token)
    title = f"Set new_version to {new_model}"

    def attempt() -> str | None:
        for request in api.get_repo_discussions(old_model, discussion_type="pull_request", discussion_status="open"):
            if request.title == title:
                return request.url
        head = api.model_info(old_model).sha
        text = _readme(api, old_model, head)
        changed = with_new_version(text or "", new_model)
        if changed == text:
            return None
        done = api.create_commit(
            old_model,
            [CommitOperationAdd("README.md", changed.encode("utf-8"))],
            commit_message=title,
            commit_description=message,
            create_pr=True,
            parent_commit=head,
        )
        return done.pr_url

    return call(f"open a pull request on {old_model}", attempt)


def with_new_version(text: str, new_model: str) -> str:
    """A card's text with `new_version` set, and every other line as it was."""
    line = f"new_version: {yaml.safe_dump(new_model).splitlines()[0]}"
    block = _BLOCK.match(text)
    if block is None:
        return f"---\n{line}\n---\n{text}"
    start, content, end = block.groups()
    newline = "\r\n" if start.endswith("\r\n") else "\n"
    try:
        before = yaml.safe_load(content) or {}
    except yaml.YAMLError as error:
        raise ValueError(f"The old card's metadata is not YAML, new_version cannot be set in it: {error}") from error
    if not isinstance(before, dict):
        raise ValueError("The old card's metadata is not a mapping, so new_version cannot be set in it.")
    if before.get("new_version") == new_model:
        return text
    if _LINE.search(content):
        changed = _LINE.sub(lambda _: line, content, count=1)
    else:
        ending = "" if not content or content.endswith("\n") else newline
        changed = f"{content}{ending}{line}{newline}"
    if yaml.safe_load(changed) != {**before, "new_version": new_model}:
        raise ValueError("new_version cannot be set without touching other lines of the old card: set it by hand.")
    return f"{start}{changed}{end}{text[block.end() :]}"


def _readme(api: HfApi, repo_id: str, revision: str | None) -> str | None:
    """The card as it is on the Hub, line ends and all; None when there is none."""
    try:
        path = api.hf_hub_download(repo_id, constants.REPOCARD_NAME, revision=revision)
    except RemoteEntryNotFoundError:  # it is not there; that it cannot be had is another error
        return None
    with open(path, encoding="utf-8", newline="") as file:
        return file.read()
