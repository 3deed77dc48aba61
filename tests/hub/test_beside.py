"""What goes up beside the model: a pull request on the old one, the flips as a dataset, the metric as a Space."""

import pytest
from hub_kit import OLD_CARD, OTHER

from hf_pct.hub.card.old_card import with_new_version


def test_the_old_model_is_asked_to_point_to_the_new_one(hub, client, update):
    old = hub.model("org/intent-v1")
    push = ("push", update.new, "--repo_id", "org/next", "--report", update.report, "--set_new_version")
    code, out = client.cli(*push)
    assert code == 0, out
    assert f"pull request on the old model: {hub.url}/org/intent-v1/discussions/1" in out
    assert old.head == update.old_commit  # never a direct commit
    assert old.files["README.md"].decode() == OLD_CARD
    assert [request["title"] for request in old.pull_requests] == ["Set new_version to org/next"]
    proposed = old.commits[old.branches["refs/pr/1"][-1]]["README.md"].decode()
    assert proposed == OLD_CARD.replace("tags: [intents]\n", "tags: [intents]\nnew_version: org/next\n")
    assert client.cli(*push)[0] == 0
    assert len(old.pull_requests) == 1  # the same push again opens no second one


def test_someone_without_write_rights_on_the_old_model_may_ask_too(hub, client, update):
    old = hub.model("org/intent-v1")
    before = len(old.pull_requests)
    code, out = client.cli(
        "push", update.new, "--repo_id", "otto/fork", "--report", update.report, "--set_new_version", token=OTHER
    )
    assert code == 0, out
    assert len(old.pull_requests) == before + 1
    assert old.head == update.old_commit


def test_a_lost_answer_opens_no_second_pull_request(hub, client, update):
    hub.fail("POST", r"org/intent-v1/commit/", "lost")
    code, out = client.cli(
        "push", update.new, "--repo_id", "org/lost-pr", "--report", update.report, "--set_new_version"
    )
    assert code == 0, out
    titles = [request["title"] for request in hub.model("org/intent-v1").pull_requests]
    assert titles.count("Set new_version to org/lost-pr") == 1


def test_a_proposal_that_fails_says_that_the_model_is_up(hub, client, update):
    hub.fail("POST", r"org/intent-v1/commit/", 403, times=9)
    code, out = client.cli(
        "push", update.new, "--repo_id", "org/no-pr", "--report", update.report, "--set_new_version"
    )
    assert code == 2
    assert "org/no-pr is published, but its new_version is not proposed" in out
    assert "model.safetensors" in hub.model("org/no-pr").files


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "---\nnew_version: org/v2\n---\n"),
        ("# no metadata\n", "---\nnew_version: org/v2\n---\n# no metadata\n"),
        ("---\r\nlicense: mit\r\n---\r\nx", "---\r\nlicense: mit\r\nnew_version: org/v2\r\n---\r\nx"),
        ("---\nnew_version: org/v1\na: 1 # b\n---\n", "---\nnew_version: org/v2\na: 1 # b\n---\n"),
        ("---\nnew_version: 'org/v2'\n---\n", "---\nnew_version: 'org/v2'\n---\n"),
        ("---\n---\n", "---\nnew_version: org/v2\n---\n"),
        ("text\n---\nrule\n---\n", "---\nnew_version: org/v2\n---\ntext\n---\nrule\n---\n"),
    ],
)
def test_only_one_line_of_the_old_card_changes(before, after):
    assert with_new_version(before, "org/v2") == after


@pytest.mark.parametrize(
    "before", ["---\na: [1\n---\n", "---\n- a\n---\n", "---\nx: |\n  new\nnew_version: >\n  a\n---\n"]
)
def test_an_old_card_that_cannot_be_changed_safely_is_left_alone(before):
    with pytest.raises(ValueError, match="new_version"):
        with_new_version(before, "org/v2")


def test_the_flips_as_a_dataset(hub, client, update):
    code, out = client.cli(
        "push", update.new, "--repo_id", "org/rows", "--report", update.report, "--flips_dataset", "org/rows-flips"
    )
    assert code == 0, out
    repo = hub.repos["datasets", "org/rows-flips"]
    assert repo.private
    assert set(repo.files) == {".gitattributes", "README.md", "data/flips.parquet"}
    columns, kinds = client.run(
        """
        from datasets import load_dataset
        rows = load_dataset("org/rows-flips", split="test")
        result = rows.column_names, sorted(set(rows["kind"]))
        """
    )
    assert {"id", "label", "old_answer", "new_answer", "text"} <= set(columns)
    assert kinds == ["negative", "positive"]


def test_the_metric_as_a_space(hub, client):
    code, out = client.cli("push-metric", "org/nfr")
    assert code == 0, out
    space = hub.repos["spaces", "org/nfr"]
    assert space.sdk == "gradio"
    assert set(space.files) == {".gitattributes", "README.md", "app.py", "nfr.py", "requirements.txt"}
    result = client.run(
        """
        import evaluate
        metric = evaluate.load("org/nfr", keep_in_memory=True)
        result = metric.compute(predictions=[0, 1, 0, 1], references=[0, 1, 1, 1], old_predictions=[0, 1, 1, 0])
        """
    )
    assert (result["nfr"], result["pfr"]) == (0.25, 0.25)


def test_the_metric_under_another_name_and_without_its_page(hub, client):
    code, out = client.cli("push-metric", "mia/flips", "--sdk", "static")
    assert code == 0, out
    space = hub.repos["spaces", "mia/flips"]
    assert space.sdk == "static"
    assert set(space.files) == {".gitattributes", "README.md", "flips.py", "index.html", "requirements.txt"}
    assert client.run('import evaluate; result = type(evaluate.load("mia/flips")).__name__') == "Nfr"
