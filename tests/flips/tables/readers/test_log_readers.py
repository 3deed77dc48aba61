"""Readers of other tools' logs, on cuts of real logs and on small files in their formats."""

import gzip
import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hf_pct import NotComparableError, Scores, compare
from hf_pct.flips.tables.readers import ReadOptions, find_reader, is_table, read_scores

LOGS = Path(__file__).parent / "logs"
V1, V2 = LOGS / "lm_eval" / "v1", LOGS / "lm_eval" / "v2"
STRICT = ReadOptions(filters=("flexible", "none"))


def test_a_real_lm_eval_folder():
    table = read_scores(V1, STRICT)
    assert table.task_names == ("commonsenseqa", "openbookqa_free")
    assert table.metrics_of("commonsenseqa") == ["acc", "acc_norm"]
    assert table.metrics_of("openbookqa_free") == ["exact_match"]
    assert table.provenance.model == "smollm2"
    assert table.provenance.versions["lm_eval"] == "0.4.13"
    assert table.texts[0].as_py().startswith("Question: ")
    # the answer to a choice is the choice with the highest likelihood, and it is right where acc is 1
    rows = [json.loads(line) for line in next(V1.glob("samples_commonsenseqa*")).read_text().splitlines()]
    for row, answer in zip(rows, table.predictions.to_pylist(), strict=False):
        right = row["doc"]["choices"][row["doc"]["answer"]]
        assert (answer == f" {right}") == (row["acc"] == 1.0)
    # by acc_norm it is the likeliest per character, and then that one is right where acc_norm is 1
    normed = read_scores(V1, ReadOptions(filters=("flexible", "none"), metrics=("acc_norm", "exact_match")))
    for row, answer, label in zip(rows, normed.predictions.to_pylist(), normed.labels.to_pylist(), strict=False):
        assert label == f" {row['doc']['choices'][row['doc']['answer']]}"
        if row["doc"]["choices"].count(label.strip()) == 1:  # one question offers the same choice twice
            assert (answer == label) == (row["acc_norm"] == 1.0)


def test_the_comparison_is_that_of_the_rows_of_the_log():
    report = compare(read_scores(V1, STRICT), read_scores(V2, STRICT), metric=["acc", "exact_match"])
    for task, name, metric in (("commonsenseqa", "none", "acc"), ("openbookqa_free", "flexible", "exact_match")):
        sides = [
            {
                row["doc_hash"]: row[metric]
                for row in map(json.loads, next(folder.glob(f"samples_{task}_*")).read_text().splitlines())
                if row["filter"] == name
            }
            for folder in (V1, V2)
        ]
        broken = sum(sides[0][key] > sides[1][key] for key in sides[0])
        assert report.task(task).outcomes["broken"] == broken
        assert report.task(task).rows == len(sides[0])


def test_filters_are_kept_apart():
    with pytest.raises(ValueError, match=r"Task openbookqa_free has 2 filters; it has: strict, flexible\..*--filter"):
        read_scores(V1)
    with pytest.raises(ValueError, match="has no filter loose or none; it has: strict, flexible"):
        read_scores(V1, ReadOptions(filters=("loose", "none")))
    strict = read_scores(V1, ReadOptions(filters=("strict", "none")))
    assert strict.scores["exact_match"][-12:].sum() < read_scores(V1, STRICT).scores["exact_match"][-12:].sum()


def edited(tmp_path, **changes):
    """A copy of the new log whose first row says something else."""
    shutil.copytree(V2, tmp_path / "v2")
    path = next((tmp_path / "v2").glob("samples_commonsenseqa*"))
    lines = path.read_text().splitlines()
    lines[0] = json.dumps(json.loads(lines[0]) | changes)
    path.write_text("\n".join(lines) + "\n")
    return read_scores(tmp_path / "v2", STRICT)


def test_a_changed_prompt_is_told(tmp_path):
    row = json.loads(next(V2.glob("samples_commonsenseqa*")).read_text().splitlines()[0])
    arguments = {name: {**entry, "arg_0": "Q: another prompt"} for name, entry in row["arguments"].items()}
    report = compare(
        read_scores(V1, STRICT),
        edited(tmp_path, arguments=arguments),
        metric=["acc", "exact_match"],
    )
    assert report.task("commonsenseqa").changed_prompts == 1


def test_a_changed_target_is_not_comparable(tmp_path):
    with pytest.raises(NotComparableError, match="right answer of 1 of 25 items changed"):
        compare(read_scores(V1, STRICT), edited(tmp_path, target="4"), metric=["acc", "exact_match"])


def test_a_log_without_targets_is_held_by_their_hashes(tmp_path):
    def without_targets(side, **changes):
        lines = [json.loads(line) for line in next(side.glob("samples_commonsenseqa*")).read_text().splitlines()]
        rows = [{name: value for name, value in row.items() if name != "target"} for row in lines]
        rows[0] |= changes
        (tmp_path / side.name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        return read_scores(tmp_path / side.name)

    assert compare(without_targets(V1), without_targets(V2), metric="acc").tasks[0].rows == 25
    with pytest.raises(NotComparableError, match="right answer of 1 of 25 items changed"):
        compare(without_targets(V1), without_targets(V2, target_hash="other"), metric="acc")


def test_choices_without_a_space_before_them_are_the_same_answers(tmp_path):
    """lm-eval leaves the space before each choice out when it applies a chat template."""
    row = json.loads(next(V2.glob("samples_commonsenseqa*")).read_text().splitlines()[0])
    arguments = {name: {**entry, "arg_1": entry["arg_1"].strip()} for name, entry in row["arguments"].items()}
    assert arguments != row["arguments"]
    sides = read_scores(V1, STRICT), edited(tmp_path, arguments=arguments)
    usual = compare(sides[0], read_scores(V2, STRICT), metric=["acc", "exact_match"]).task("commonsenseqa")
    assert compare(*sides, metric=["acc", "exact_match"]).task("commonsenseqa").outcomes == usual.outcomes


def test_an_error_names_the_file(tmp_path):
    with pytest.raises(ValueError, match=r"v2: The score acc is NaN or infinite in 1 of"):
        edited(tmp_path, acc=float("nan"))


def test_renamed_logs_are_one_task(tmp_path):
    for side, name in ((V1, "old.jsonl"), (V2, "new.jsonl")):
        shutil.copy(next(side.glob("samples_commonsenseqa*")), tmp_path / name)
    sides = [read_scores(tmp_path / name) for name in ("old.jsonl", "new.jsonl")]
    assert compare(*sides, metric="acc").task("all").rows == 25
    details = [next((LOGS / "lighteval" / side).rglob("*.parquet")) for side in ("v1", "v2")]
    for number, path in enumerate(details):
        shutil.copy(path, tmp_path / f"{number}.parquet")
    assert compare(*(read_scores(tmp_path / f"{number}.parquet") for number in (0, 1))).tasks[0].rows == 12


def test_another_document_is_missing_and_not_paired_by_position(tmp_path):
    with pytest.raises(NotComparableError, match="1 of 25 ids are only in the old"):
        compare(read_scores(V1, STRICT), edited(tmp_path, doc_hash="other"), metric=["acc", "exact_match"])


def test_a_task_that_one_side_lacks_is_told(tmp_path):
    one = read_scores(next(V2.glob("samples_commonsenseqa*")))
    with pytest.raises(NotComparableError, match="only the old side has 'openbookqa_free'"):
        compare(read_scores(V1, STRICT), one, metric=["acc", "exact_match"])


def test_metrics_that_have_no_number_per_row(tmp_path):
    with pytest.raises(ValueError, match=r"the metric acc of doc_id 0 is \[\"a\", \"b\"\], expected a number"):
        edited(tmp_path, acc=["a", "b"])


def test_the_same_document_twice_has_two_ids(tmp_path):
    path = next(V1.glob("samples_commonsenseqa*"))
    lines = path.read_text().splitlines()
    (tmp_path / path.name).write_text("\n".join([*lines, lines[0]]) + "\n")
    ids = read_scores(tmp_path / path.name).ids.to_pylist()
    assert ids[-1] == f"{ids[0]}#2"


def test_a_torn_line_is_named(tmp_path):
    path = tmp_path / next(V1.glob("samples_commonsenseqa*")).name
    path.write_text(next(V1.glob("samples_commonsenseqa*")).read_text()[:-40])
    with pytest.raises(ValueError, match=r"line 25 is not whole JSON"):
        read_scores(path)


def test_of_two_runs_the_latest_counts_and_two_models_are_an_error(tmp_path):
    source = next(V1.glob("samples_commonsenseqa*"))
    later = source.name.replace("2026-11-18T02", "2026-11-19T02")
    shutil.copy(source, tmp_path / source.name)
    (tmp_path / later).write_text("\n".join(source.read_text().splitlines()[:5]) + "\n")
    assert len(read_scores(tmp_path)) == 5
    with pytest.raises(ValueError, match="logs of 2 models: 'v1', 'v2'"):
        read_scores(LOGS / "lm_eval", STRICT)


def promptfoo_test(number, provider, success, output="out", **more):
    return {
        "testIdx": number, "promptIdx": 0, "vars": {"q": f"question {number}"}, "success": success,
        "score": 1.0 if success else 0.25, "namedScores": {"tone": 0.5}, "provider": {"id": provider},
        "prompt": {"raw": f"Answer: question {number}", "label": "p"}, "response": {"output": output},
        "testCase": {"assert": [{"type": "equals", "value": str(number)}]}, **more,
    }  # fmt: skip


def write_promptfoo(path, tests):
    path.write_text(json.dumps({"evalId": "e", "results": {"version": 3, "results": tests}, "config": {}}))
    return path


def test_promptfoo_providers_are_kept_apart(tmp_path):
    tests = [
        promptfoo_test(number, provider, number % 2 == 0 or provider == "old")
        for number in range(4)
        for provider in ("old", "new")
    ]
    path = write_promptfoo(tmp_path / "r.json", tests)
    with pytest.raises(ValueError, match=r"has 2 providers; it has: old, new\. Choose one with --provider"):
        read_scores(path)
    with pytest.raises(ValueError, match="has no provider newer; it has: old, new"):
        read_scores(path, ReadOptions(provider="newer"))
    sides = [read_scores(path, ReadOptions(provider=name)) for name in ("old", "new")]
    task = compare(*sides).task("all")
    assert (task.metric, task.outcomes["broken"]) == ("success", 2)
    assert compare(*sides, metric="score", right_at=1).task("all").outcomes["broken"] == 2


def test_promptfoo_tests_are_known_by_their_variables(tmp_path):
    tests = [promptfoo_test(number, "m", number == 0) for number in range(3)]
    turned = [{**test, "testIdx": 2 - test["testIdx"]} for test in reversed(tests)]
    sides = [
        read_scores(write_promptfoo(tmp_path / f"{name}.json", rows)) for name, rows in (("a", tests), ("b", turned))
    ]
    assert compare(*sides).task("all").outcomes["same"] == 3
    again = read_scores(write_promptfoo(tmp_path / "c.json", [*tests, *tests]))
    assert again.repeats.tolist() == [1, 1, 1, 2, 2, 2]
    changed = [*tests[:2], {**tests[2], "testCase": {"assert": [{"type": "equals", "value": "other"}]}}]
    with pytest.raises(NotComparableError, match="right answer of 1 of 3 items changed"):
        compare(sides[0], read_scores(write_promptfoo(tmp_path / "d.json", changed)))


def test_promptfoo_tests_without_a_score_are_told(tmp_path):
    tests = [promptfoo_test(number, "m", True) for number in range(3)]
    tests[1]["score"] = None
    table = read_scores(write_promptfoo(tmp_path / "r.json", tests))
    assert len(table) == 2
    assert "1 tests have no score" in table.notes[0]


def test_deepeval_test_runs(tmp_path):
    cases = [
        {
            "input": f"q{number}", "actualOutput": "a", "expectedOutput": "b", "success": number > 0,
            "metricsData": [
                {"name": "Faithfulness", "score": number / 4, "threshold": 0.5, "success": number >= 2},
                {"name": "Off Topic", "score": number / 4, "threshold": 0.6, "success": number / 4 <= 0.6},
            ],
        }
        for number in range(4)
    ]  # fmt: skip
    path = tmp_path / "test_run.json"
    path.write_text(json.dumps({"testRunData": {"testFile": "t.py", "testCases": cases}}))
    table = read_scores(path)
    assert table.default_metric == "success"
    assert table.metrics["Faithfulness"].higher_is_better is True
    assert table.metrics["Faithfulness"].right_at == 0.5
    assert table.metrics["Off Topic"].higher_is_better is False
    assert compare(table, table, metric="Off Topic").task("all").rates["old_accuracy"] == 0.75


def lighteval_file(path, answers, choices=("x", "y")):
    rows = [
        {
            "doc": {"id": str(number), "query": f"q{number}", "choices": list(choices), "gold_index": 0},
            "metric": {"acc": float(answer == 0)},
            "model_response": {"text": [], "logprobs": [-1.0, -2.0] if answer == 0 else [-2.0, -1.0]},
        }
        for number, answer in enumerate(answers)
    ]  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def test_lighteval_details(tmp_path):
    name = "2026-01-02T03-04-05.678/details_qa|local|0_2026-01-02T03-04-05.678.parquet"
    old = lighteval_file(tmp_path / "old" / "details" / "m" / name, [0, 0, 1])
    lighteval_file(tmp_path / "new" / "details" / "m" / name, [0, 1, 1])
    sides = [read_scores(tmp_path / side) for side in ("old", "new")]
    assert sides[0].task_names == ("qa|local|0",)
    assert sides[0].provenance.model == "m"
    assert compare(*sides).task("qa|local|0").outcomes["broken"] == 1
    assert sides[1].predictions.to_pylist() == ["x", "y", "y"]
    assert find_reader(old).NAME == "lighteval details"
    other = lighteval_file(tmp_path / "o" / "details" / "m" / name, [0, 0, 1], choices=("z", "y"))
    with pytest.raises(NotComparableError, match="right answer of 3 of 3 items changed"):
        compare(sides[0], read_scores(other.parents[3]))


def test_a_lighteval_document_may_be_number_zero(tmp_path):
    docs = [{"id": number, "query": "q", "choices": ["x"], "gold_index": 0} for number in (2, 1, 0)]
    rows = [{"doc": doc, "metric": {"acc": 1.0}, "model_response": {"text": ["x"]}} for doc in docs]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "details.parquet")
    assert read_scores(tmp_path / "details.parquet").ids.to_pylist() == ["2", "1", "0"]


def inspect_log(path, values, model="m", epochs=1):
    samples = [
        {
            "id": number, "epoch": epoch, "input": [{"id": f"x{epoch}", "role": "user", "content": f"q{number}"}],
            "target": "t", "output": {"completion": "c"},
            "scores": {} if value is None else {"match": {"value": value, "answer": "a"}},
        }
        for epoch in range(1, epochs + 1)
        for number, value in enumerate(values)
    ]  # fmt: skip
    header = {"version": 2, "status": "success", "eval": {"task": "sums", "model": model}, "samples": samples}
    path.write_text(json.dumps(header))
    return path


def test_inspect_logs(tmp_path):
    old, new = (
        inspect_log(tmp_path / f"{side}.json", values)
        for side, values in (("a", ["C", "C", "I"]), ("b", ["C", "I", 1]))
    )
    task = compare(read_scores(old), read_scores(new)).task("sums")
    assert (task.outcomes["broken"], task.outcomes["fixed"], task.changed_prompts) == (1, 1, 0)
    runs = read_scores(inspect_log(tmp_path / "c.json", ["C", "I"], epochs=3))
    assert runs.repeats.tolist() == [1, 1, 2, 2, 3, 3]
    failed = read_scores(inspect_log(tmp_path / "d.json", ["C", None, "I"]))
    assert len(failed) == 2
    assert "1 samples of sums have no score (ids 1)" in failed.notes[0]
    with pytest.raises(NotComparableError, match="1 of 3 ids are only in the old"):
        compare(read_scores(old), failed)


def test_a_log_that_failed_says_so(tmp_path):
    path = inspect_log(tmp_path / "log.json", [None, None])
    path.write_text(path.read_text().replace('"success"', '"error"'))
    with pytest.raises(ValueError, match=r"no row of it has a score; log\.json has the status error.*ids 0, 1"):
        read_scores(path)


def test_a_folder_of_inspect_logs_as_json(tmp_path):
    inspect_log(tmp_path / "a.json", ["C", "I"])
    (tmp_path / "listing.json").write_text('{"a.json": {}}')
    assert is_table(tmp_path)
    assert read_scores(tmp_path).task_names == ("sums",)
    inspect_log(tmp_path / "b.json", ["C", "I"])
    with pytest.raises(ValueError, match="holds several logs of task sums"):
        read_scores(tmp_path)


def test_real_inspect_logs_with_epochs():
    report = compare(read_scores(LOGS / "inspect" / "v1.json"), read_scores(LOGS / "inspect" / "v2.json"))
    task = report.task("sums")
    assert (task.rows, task.repeats.old_runs, task.repeats.new_runs) == (8, 6, 6)
    assert task.noise_floor.source == "runs of the old version"
    assert task.changed_prompts == 0


def test_real_lighteval_details():
    sides = [read_scores(LOGS / "lighteval" / side) for side in ("v1", "v2")]
    assert sides[0].provenance.model == "smollm2"
    for table in sides:  # acc is whether the likeliest choice is the right one
        right = [
            answer == label
            for answer, label in zip(table.predictions.to_pylist(), table.labels.to_pylist(), strict=True)
        ]
        assert right == (table.scores["acc"] == 1).tolist()
    assert compare(*sides).task("local_openbookqa_0").rows == 12


def test_an_eval_file_without_inspect_says_what_to_install(tmp_path, monkeypatch):
    import sys
    import zipfile

    with zipfile.ZipFile(tmp_path / "log.eval", "w") as file:
        file.writestr("header.json", "{}")
    monkeypatch.setitem(sys.modules, "inspect_ai", None)
    with pytest.raises(ModuleNotFoundError, match="pip install inspect-ai"):
        read_scores(tmp_path / "log.eval")


def test_a_gzipped_log(tmp_path):
    source = next(V1.glob("samples_commonsenseqa*"))
    (tmp_path / f"{source.name}.gz").write_bytes(gzip.compress(source.read_bytes()))
    assert read_scores(tmp_path / f"{source.name}.gz").to_arrow().equals(read_scores(source).to_arrow())


def test_unknown_files_say_what_was_tried(tmp_path):
    (tmp_path / "notes.txt").write_text("hello\n")
    with pytest.raises(ValueError, match=r"notes\.txt ends in \.txt.*Formats tried:") as raised:
        Scores.load(tmp_path / "notes.txt")
    for line in (
        "lm-eval samples: its first line is no JSON",
        "parquet: it does not start with",
        "CSV or TSV: its first",
    ):
        assert f"\n  {line}" in str(raised.value)
    (tmp_path / "folder").mkdir()
    with pytest.raises(
        ValueError, match=r"lm-eval samples: no samples_\*\.jsonl in it \(run lm-eval with --log_samples\)"
    ):
        Scores.load(tmp_path / "folder")
    with pytest.raises(FileNotFoundError):
        Scores.load(tmp_path / "nowhere.jsonl")


def test_a_model_folder_is_no_log(tmp_path):
    shutil.copytree(V1, tmp_path / "eval")
    assert is_table(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    assert not is_table(tmp_path)
    assert not is_table(tmp_path / "nowhere")
