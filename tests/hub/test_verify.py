"""verify: published flips hold, do not hold, or cannot be compared; and what each says."""

import json

import pytest


@pytest.fixture(scope="module")
def claims(hub, client, update):
    """Updates to verify: a true one, one whose weights were swapped later, one whose report was edited."""
    push = ("push", update.new, "--report", update.report, "--repo_id")
    for name in ("true", "swapped", "edited", "silent"):
        assert client.cli(*push, f"org/{name}")[0] == 0
    swapped = hub.model("org/swapped")
    others = {
        path.name: path.read_bytes()
        for path in update.old.iterdir()
        if path.name in ("model.safetensors", "config.json")
    }
    swapped.commit("main", others, "other weights under the same report")
    edited = hub.model("org/edited")
    report = json.loads(edited.files["flip_report.json"])
    report["negative_flips"] -= 3
    report["both_right"] += 3
    edited.commit("main", {"flip_report.json": json.dumps(report).encode()}, "nicer numbers")
    hub.model("org/silent").commit("main", {"flip_report.json": None}, "no claim")
    return push


def test_true_claims_hold(client, claims):
    code, out = client.cli("verify", "org/true")
    assert code == 0, out
    assert "both models on org/intents: the published flips hold" in out


def test_other_weights_do_not(client, claims):
    code, out = client.cli("verify", "org/swapped")
    assert code == 1
    assert "differs: negative flips: published" in out
    assert "the new model's weights have another hash" in out


def test_an_edited_report_does_not(client, claims):
    code, out = client.cli("verify", "org/edited")
    assert code == 1
    assert "differs: both right: published" in out
    assert client.cli("verify", "org/edited", "--tolerance", "3")[0] == 0


def test_an_earlier_commit_can_be_checked(hub, client, claims):
    first = hub.model("org/edited").branches["main"][1]
    assert client.cli("verify", "org/edited", "--revision", first)[0] == 0


def test_without_the_old_model(client, claims):
    code, out = client.cli("verify", "org/true", "--new_only")
    assert code == 0, out
    assert "the new model alone" in out
    code, out = client.cli("verify", "org/swapped", "--new_only")
    assert code == 1
    assert "flipped rows are answered otherwise now" in out


def test_other_data_is_not_comparable(client, claims, update, tmp_path):
    rows = [{**row, "text": row["text"] + " now"} for row in update.rows]
    other = tmp_path / "other.jsonl"
    other.write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, out = client.cli("verify", "org/true", "--dataset", other)
    assert code == 3
    assert "is not the data that the report was made on" in out


def test_the_same_data_from_a_file_is(client, claims, update, tmp_path):
    same = tmp_path / "same.jsonl"
    same.write_text("".join(json.dumps(row) + "\n" for row in update.rows))
    assert client.cli("verify", "org/true", "--dataset", same, "--old_model", update.old)[0] == 0


def test_what_claims_nothing_is_not_comparable(client, claims):
    code, out = client.cli("verify", "org/silent")
    assert code == 3
    assert "has no flip_report.json" in out


def test_what_is_not_there(client):
    code, out = client.cli("verify", "org/nothing-here")
    assert code == 2
    assert "There is no such repository" in out


def test_local_names_must_be_said(hub, client, update, tmp_path):
    """A report that was made with a folder and a file names neither on the Hub."""
    data, report = tmp_path / "test.jsonl", tmp_path / "flip_report.json"
    data.write_text("".join(json.dumps(row) + "\n" for row in update.rows))
    client.run(
        """
        from hf_pct import compare, predict
        compare(predict(a.old, a.data), predict(a.new, a.data)).save(a.report)
        """,
        old=update.old, new=update.new, data=data, report=report,
    )  # fmt: skip
    code, out = client.cli("push", update.new, "--repo_id", "org/local", "--report", report)
    assert code == 0
    assert "no license is carried over" in out
    card = hub.model("org/local").files["README.md"].decode()
    assert "hf-pct verify org/local --dataset test.jsonl --old_model old" in card
    assert str(tmp_path) not in card
    code, out = client.cli("verify", "org/local")
    assert code == 3
    assert "--dataset" in out
    code, out = client.cli("verify", "org/local", "--dataset", data)
    assert code == 3
    assert "--old_model" in out
    assert client.cli("verify", "org/local", "--dataset", data, "--old_model", update.old)[0] == 0
