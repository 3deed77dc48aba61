"""Repositories in memory, for the loopback Hub: commits, branches, pull requests, who may write."""

import hashlib
import re
from dataclasses import dataclass, field

import yaml

ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")
BLOCK = re.compile(r"^(\s*---\r?\n)([\S\s]*?)(\r?\n---[ \t]*(\r?\n|$))")


@dataclass
class User:
    """The owner of a token. `role` is the token's, `orgs` says what the person may do where."""

    name: str
    role: str = "write"
    orgs: dict[str, str] = field(default_factory=dict)

    def may_write(self, repo_id: str) -> bool:
        space = repo_id.split("/")[0]
        return self.role == "write" and (space == self.name or self.orgs.get(space) in ("admin", "write"))

    def whoami(self) -> dict:
        orgs = [{"name": name, "roleInOrg": role} for name, role in self.orgs.items()]
        token = {"displayName": "test", "role": self.role}
        return {
            "type": "user",
            "name": self.name,
            "orgs": orgs,
            "auth": {"type": "access_token", "accessToken": token},
        }


@dataclass
class Repo:
    """Files by commit, commits by branch. A new repository has one commit, as on the Hub."""

    id: str
    private: bool = False
    sdk: str | None = None
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    messages: dict[str, str] = field(default_factory=dict)
    branches: dict[str, list[str]] = field(default_factory=dict)
    pull_requests: list[dict] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.branches["main"] = []
        self.commit("main", {".gitattributes": b"*.safetensors filter=lfs\n"}, "initial commit")

    @property
    def head(self) -> str:
        return self.branches["main"][-1]

    @property
    def files(self) -> dict[str, bytes]:
        return self.commits[self.head]

    def resolve(self, revision: str) -> str | None:
        if revision in self.branches:
            return self.branches[revision][-1]
        return revision if revision in self.commits else None

    def commit(self, branch: str, changes: dict[str, bytes | None], message: str) -> str:
        log = self.branches[branch]
        files = {**(self.commits[log[-1]] if log else {}), **changes}
        oid = hashlib.sha1(f"{self.id}{branch}{len(self.commits)}{message}".encode()).hexdigest()
        self.commits[oid] = {path: content for path, content in files.items() if content is not None}
        self.messages[oid] = message
        log.append(oid)
        return oid

    def open_pull_request(self, changes: dict[str, bytes | None], title: str, author: str) -> tuple[str, int]:
        number = len(self.pull_requests) + 1
        branch = f"refs/pr/{number}"
        self.branches[branch] = list(self.branches["main"])
        self.pull_requests.append({"num": number, "title": title, "author": author, "branch": branch})
        return self.commit(branch, changes, title), number


def yaml_problems(content: str, repo_type: str) -> list[str]:
    """The rules of the Hub's own check that a model card can break."""
    block = BLOCK.match(content)
    if block is None:
        return []
    try:
        data = yaml.safe_load(block.group(2)) or {}
    except yaml.YAMLError as error:
        return [f"YAML: {error}"]
    if not isinstance(data, dict):
        return ["metadata is not a mapping"]
    problems = []
    for key in ("base_model", "datasets", "new_version"):
        values = data.get(key) or []
        for value in [values] if isinstance(values, str) else values:
            if not isinstance(value, str) or not ID.fullmatch(value):
                problems.append(f'"{key}" with value {value!r} is not valid: expected an id on the Hub')
    if data.get("base_model_relation") not in (None, "finetune", "adapter", "merge", "quantized"):
        problems.append('"base_model_relation" is not valid')
    problems += [
        f'"{key}" must be a string' for key in ("license", "pipeline_tag") if not isinstance(data.get(key, ""), str)
    ]
    for result in (data.get("model-index") or [{}])[0].get("results", []):
        dataset = result.get("dataset", {})
        if not all(isinstance(dataset.get(key), str) for key in ("name", "type")):
            problems.append('"model-index[0].results[].dataset" needs name and type')
        if not all("type" in metric and "value" in metric for metric in result.get("metrics", [])):
            problems.append('"model-index[0].results[].metrics" need type and value')
    if repo_type == "space" and not data.get("sdk"):
        problems.append('"sdk" is required')
    return problems
