"""A loopback Hub, a process with the real clients, and a tiny update to publish; all end with the session."""

import json
from types import SimpleNamespace

import pytest
from hub_kit import OLD_CARD, OTHER, READ, WRITE, Client, folder_bytes
from loopback_hub import LoopbackHub
from loopback_repos import User


@pytest.fixture(scope="session")
def hub():
    users = {
        WRITE: User("mia", orgs={"org": "write", "readers": "read"}),
        READ: User("mia", role="read", orgs={"org": "write"}),
        OTHER: User("otto"),
    }
    with LoopbackHub(users) as server:
        yield server


@pytest.fixture(scope="session")
def client(hub, tmp_path_factory):
    worker = Client(hub, tmp_path_factory.mktemp("hf_home"))
    yield worker
    worker.close()


@pytest.fixture(autouse=True)
def no_faults_left(hub):
    """A test's faults do not reach the next one, and no client asked for what this Hub does not speak."""
    yield
    hub.faults.clear()
    strange, hub.unknown[:] = list(hub.unknown), []
    assert not strange


@pytest.fixture(scope="session")
def update(hub, client, text_models, text_rows, tmp_path_factory):
    """The old model and the data on the Hub, the new model in a folder, and the report between them."""
    old, new = text_models
    lines = "".join(json.dumps(row) + "\n" for row in text_rows).encode()
    hub.add("datasets", "org/intents", {"test.jsonl": lines})
    repo = hub.add("models", "org/intent-v1", {**folder_bytes(old), "README.md": OLD_CARD.encode()})
    out = tmp_path_factory.mktemp("report") / "flip_report.json"
    client.run(
        """
        from hf_pct import compare, predict
        options = {"split": "test", "keep_columns": ["text", "channel", "user"]}
        old = predict("org/intent-v1", "org/intents", **options)
        new = predict(a.new, "org/intents", **options)
        report = compare(old, new)
        assert report.counts.negative_flips and report.counts.positive_flips
        report.save(a.out)
        """,
        new=new,
        out=out,
        commit=repo.head,
    )
    return SimpleNamespace(old=old, new=new, report=out, old_commit=repo.head, rows=text_rows)
