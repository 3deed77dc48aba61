"""Whether a push will be allowed, asked before hours of training and not after them."""

import inspect

from huggingface_hub import HfApi
from huggingface_hub.errors import LocalTokenNotFoundError, RepositoryNotFoundError

from ...core.decode import JsonObject
from .calls import HubError, call
from .names import check_repo_id

_WRITING_ROLES = ("admin", "write", "contributor")


def check_write_access(repo_id: str, token: str | None = None, *, repo_type: str = "model") -> str:
    """Check that the token is valid and may write to the repository, or create it; nothing is created by asking.

    Returns the full id: a name without a namespace belongs to the token's owner. Call it before training or merging.

    Example:
        >>> from hf_pct import check_write_access
        >>> check_write_access("my-org/my-model")  # doctest: +SKIP
    """
    check_repo_id(repo_id)
    api = HfApi(token=token)
    try:
        who = call("find out whose token this is", api.whoami)
    except LocalTokenNotFoundError:
        raise HubError(
            f"There is no token, and {repo_id} cannot be written to without one. Make one with write permission in "
            "your settings on the Hub, then `hf auth login`, or set HF_TOKEN."
        ) from None
    full_id = repo_id if "/" in repo_id else f"{who['name']}/{repo_id}"
    role = who.get("auth", {}).get("accessToken", {}).get("role")
    if role == "read":
        raise HubError(
            f"The token of {who['name']} may only read, and {full_id} must be written to. Make a token with write "
            "permission in your settings on the Hub."
        )
    if not _may_write(api, full_id, repo_type):
        _check_namespace(full_id, who)
    return full_id


def check_stays_private(repo_id: str, token: str | None = None, *, repo_type: str = "model") -> None:
    """Refuse what should be private where the repository exists and everybody can read it."""
    api = HfApi(token=token)

    def is_public() -> bool:
        try:
            return not api.repo_info(repo_id, repo_type=repo_type).private
        except RepositoryNotFoundError:
            return False

    if call(f"find {repo_id}", is_public):
        raise HubError(
            f"{repo_id} exists and is public, and this should be private: nothing was sent. Make the repository "
            "private in its settings on the Hub, choose another name, or leave private (--private) out."
        )


def _may_write(api: HfApi, repo_id: str, repo_type: str) -> bool:
    """True when the repository exists and may be written to; False when there is none yet."""
    asks_for_writing = "write" in inspect.signature(api.auth_check).parameters  # newer than huggingface_hub 1.0
    options: dict[str, bool] = {"write": True} if asks_for_writing else {}

    def ask() -> bool:
        try:
            api.auth_check(repo_id, repo_type=repo_type, **options)
        except RepositoryNotFoundError:
            return False
        return True

    return call(f"write to {repo_id}", ask)


def _check_namespace(repo_id: str, who: JsonObject) -> None:
    namespace = repo_id.split("/")[0]
    orgs = {org["name"]: org.get("roleInOrg") for org in who.get("orgs", [])}
    if namespace == who["name"] or orgs.get(namespace, "none") in (None, *_WRITING_ROLES):
        return
    others = ", ".join([who["name"], *orgs])
    problem = f"{who['name']} may only read there" if namespace in orgs else f"{who['name']} is not a member"
    raise HubError(f"{repo_id} cannot be created in {namespace}: {problem}. The token's namespaces: {others}.")
