"""One commit, all of it or nothing: the repository is looked at, the plan made, and both done again if it fails.

The commit names the one it was planned on. Whoever commits in between makes it fail instead of being overwritten, and
the next attempt plans on what they left. An attempt whose answer was lost finds its files up and adds nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

from .access import check_stays_private
from .calls import call

Content = Path | bytes


@dataclass(frozen=True)
class Commit:
    """The result: the new head, and the files that the plan left as they were."""

    oid: str
    url: str
    kept: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


def commit_files(
    api: HfApi,
    repo_id: str,
    files: Mapping[str, Content],
    *,
    message: str,
    repo_type: str = "model",
    revision: str | None = None,
    private: bool | None = None,
    keep: tuple[str, ...] = (),
    is_stale: Callable[[str], bool] = lambda path: False,
    **create_options: str | None,
) -> Commit:
    """Create the repository if there is none, and put all files up in one commit.

    Args:
        keep: of these files, one that is in the repository already stays as it is.
        is_stale: files of the repository that the same commit takes away.
    """
    if private:
        check_stays_private(repo_id, api.token if isinstance(api.token, str) else None, repo_type=repo_type)
    call(
        f"create {repo_id}",
        lambda: api.create_repo(repo_id, repo_type=repo_type, private=private, exist_ok=True, **create_options),
    )
    if revision and revision != "main":
        call(f"create the branch {revision}", lambda: _create_branch(api, repo_id, repo_type, revision))

    def attempt() -> Commit:
        head = api.repo_info(repo_id, repo_type=repo_type, revision=revision)
        present = {sibling.rfilename for sibling in head.siblings or ()}
        kept = tuple(name for name in files if name in keep and name in present)
        removed = tuple(sorted(name for name in present if is_stale(name)))
        operations: list[CommitOperationAdd | CommitOperationDelete] = [
            CommitOperationAdd(name, content if isinstance(content, bytes) else str(content))
            for name, content in files.items()
            if name not in kept
        ]
        operations += [CommitOperationDelete(name) for name in removed]
        done = api.create_commit(
            repo_id,
            operations,
            commit_message=message,
            repo_type=repo_type,
            revision=revision,
            parent_commit=head.sha,
        )
        return Commit(done.oid, done.commit_url, kept, removed)

    return call(f"publish {repo_id}", attempt)


def _create_branch(api: HfApi, repo_id: str, repo_type: str, branch: str) -> None:
    api.create_branch(repo_id, repo_type=repo_type, branch=branch, exist_ok=True)
