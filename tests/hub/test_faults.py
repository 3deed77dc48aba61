"""A push ends in a whole model or in a clear message, whatever the connection, the server or the token do."""

import pytest
from hub_kit import OTHER, READ

WHOLE = {"README.md", "config.json", "flip_report.json", "model.safetensors", "tokenizer.json"}


def push(client, update, repo_id, *more, token="hf_write"):
    return client.cli("push", update.new, "--repo_id", repo_id, "--report", update.report, *more, token=token)


def is_whole_or_nothing(repo) -> bool:
    """Every state that anyone could have downloaded is the empty repository or the whole model."""
    return all(set(files) == {".gitattributes"} or set(files) >= WHOLE for files in repo.commits.values())


@pytest.mark.parametrize(
    ("name", "method", "path", "what", "headers"),
    [
        ("cut-weights", "PUT", r"^/large/", "cut", {}),
        ("cut-commit", "POST", r"/commit/", "cut", {}),
        ("lost-answer", "POST", r"/commit/", "lost", {}),
        ("too-many", "POST", r"/commit/", 429, {"Retry_After": "1"}),
        ("trouble-commit", "POST", r"/commit/", 500, {}),
        ("trouble-create", "POST", r"/repos/create", 503, {}),
        ("trouble-check", "GET", r"/auth-check", 500, {}),
        ("raced", "POST", r"/commit/", 412, {}),
    ],
)
def test_trouble_that_passes_is_waited_out(hub, client, update, name, method, path, what, headers):
    hub.large.clear()  # so that the weights are sent again
    hub.fail(method, path, what, **headers)
    code, out = push(client, update, f"org/{name}")
    assert code == 0, out
    assert hub.faults[0].times == 0  # it did happen
    repo = hub.model(f"org/{name}")
    assert len(repo.branches["main"]) == 2  # and not twice
    assert set(repo.files) >= WHOLE
    assert is_whole_or_nothing(repo)


def test_a_push_that_broke_can_be_repeated(hub, client, update):
    hub.large.clear()
    hub.fail("POST", r"/commit/", 502, times=99)
    waits, error = client.run(
        """
        import time
        from types import SimpleNamespace
        from hf_pct.hub import calls
        from hf_pct.hub.publish import push_update
        waits, real = [], calls.time
        calls.time = SimpleNamespace(sleep=waits.append, time=time.time)
        try:
            push_update(a.new, a.report, "org/again")
        except calls.HubError as caught:
            error = str(caught)
        finally:
            calls.time = real
        result = waits, error
        """,
        new=update.new,
        report=update.report,
    )
    assert waits == [1, 2, 4, 8]
    assert "Could not publish org/again: the Hub answers 502, 5 times" in error
    assert "run the same again" in error
    repo = hub.model("org/again")
    assert set(repo.files) == {".gitattributes"}
    hub.faults.clear()
    sent = len(hub.calls("PUT", "^/large/"))
    assert push(client, update, "org/again")[0] == 0
    assert len(hub.calls("PUT", "^/large/")) == sent  # the weights were up already
    assert set(repo.files) >= WHOLE


def test_a_long_wait_is_left_to_the_person(hub, client, update):
    hub.fail("POST", r"/commit/", 429, times=9, Retry_After="3600")
    code, out = push(client, update, "org/later")
    assert code == 2
    assert "the Hub asks to wait 3600 s" in out
    assert set(hub.model("org/later").files) == {".gitattributes"}


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "soon", "Fri, 99 Nope 2026"])
def test_a_wait_that_is_no_time_is_as_if_none_was_asked_for(hub, client, value):
    hub.fail("GET", r"/api/models/org/intent-v1", 503, times=2, Retry_After=value)
    waits = client.run(
        """
        import time
        from huggingface_hub import HfApi
        from hf_pct.hub.client import calls
        waits, real = [], time.sleep
        calls.time.sleep = waits.append
        try:
            calls.call("look", lambda: HfApi().model_info("org/intent-v1"))
        finally:
            calls.time.sleep = real
        result = waits
        """
    )
    assert waits == [1, 2]


def test_someone_who_commits_in_between_is_not_overwritten(hub, client, update):
    """The plan was made on an older state: it is made again, and finds their card."""
    repo = hub.add("models", "org/shared", {})
    answer = client.ask(
        """
        from huggingface_hub import CommitOperationAdd, HfApi
        from hf_pct.hub.publish import push_update
        real, done = HfApi.create_commit, []
        def meanwhile(self, repo_id, operations, **options):
            if not done:
                done.append(1)
                real(HfApi(), repo_id, [CommitOperationAdd("README.md", b"# theirs")], commit_message="theirs")
            return real(self, repo_id, operations, **options)
        HfApi.create_commit = meanwhile
        try:
            result = push_update(a.new, a.report, "org/shared").notes
        finally:
            HfApi.create_commit = real
        """,
        new=update.new,
        report=update.report,
    )
    assert answer.error is None, answer.traceback
    assert repo.files["README.md"] == b"# theirs"
    assert set(repo.files) >= WHOLE
    assert any("is kept" in note for note in answer.result)


@pytest.mark.parametrize(
    ("token", "repo_id", "message"),
    [
        ("hf_wrong", "org/denied", "The token is missing, wrong or expired"),
        ("", "org/denied", "There is no token"),
        (READ, "org/denied", "The token of mia may only read"),
        (OTHER, "org/denied", "otto is not a member"),
        ("hf_write", "readers/denied", "mia may only read there"),
        (OTHER, "org/intent-v1", "The token is valid but may not do this"),
        ("hf_write", "org/ba d", "is not a name on the Hub"),
    ],
)
def test_who_may_not_write_is_told_before_any_work(hub, client, update, token, repo_id, message):
    before = len(hub.log)
    answer = client.ask(
        "from hf_pct.hub.client.access import check_write_access; check_write_access(a.repo_id)",
        token,
        repo_id=repo_id,
    )
    assert message in answer.message
    code, out = push(client, update, repo_id, token=token)
    assert code == 2
    assert message in out
    assert not [route for method, route, _ in hub.log[before:] if method in ("POST", "PUT")]


def test_a_card_that_the_hub_refuses_stops_the_push(hub, client, update):
    code, out = push(client, update, "org/bad-card", "--base_model", "not an id")
    assert code == 2
    assert "base_model" in out
    assert set(hub.model("org/bad-card").files) == {".gitattributes"}


def test_a_hub_that_cannot_be_reached(client):
    answer = client.ask(
        """
        from hf_pct.hub import calls
        calls.ATTEMPTS = 1
        def refused():
            raise ConnectionRefusedError("refused")
        try:
            calls.call("do it", refused)
        finally:
            calls.ATTEMPTS = 5
        """
    )
    assert answer.error == "HubError"
    assert "the connection was lost (refused)" in answer.message
