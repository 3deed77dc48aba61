import math

import numpy as np
import pytest
from score_tables import scored

from hf_pct import Predictions, Scores
from hf_pct.flips.tables.metric import Metric, named_metric
from hf_pct.flips.tables.predictions import Provenance


def make(**changes):
    parts = {
        "ids": ["a", "b", "c", "d"],
        "scores": {"f1": [0.5, 1.0, None, None], "wer": [None, None, 0.25, 0.0]},
        "labels": ["x", "y", "z", None],
        "predictions": ["x", "q", "z", "w"],
        "texts": ["?", "??", "???", "????"],
        "tasks": ["qa", "qa", "asr", "asr"],
        "repeats": [1, 1, 1, 2],
        "columns": {"lang": ["en", "en", "de", None]},
        "provenance": Provenance(model="v1", versions={"x": "1"}),
        "notes": ["one sample failed"],
    }
    return Scores(**(parts | changes))


def test_a_saved_table_is_the_same_table(tmp_path):
    table = make()
    table.save(tmp_path / "s.parquet")
    loaded = Scores.load(tmp_path / "s.parquet")
    assert loaded.to_arrow().equals(table.to_arrow(), check_metadata=True)
    assert loaded.provenance == table.provenance
    assert loaded.metrics == {"f1": Metric("f1"), "wer": Metric("wer", higher_is_better=False)}
    assert loaded.metrics_of("qa") == ["f1"]
    assert loaded.notes == ("one sample failed",)
    with pytest.raises(FileExistsError):
        table.save(tmp_path / "s.parquet")


def test_a_row_counts_for_its_own_task():
    table = make()
    assert table.task_names == ("qa", "asr")
    assert table.metrics_of("asr") == ["wer"]
    assert "2 tasks" in repr(table)


@pytest.mark.parametrize(
    ("name", "higher"),
    [("exact_match", True), ("acc_norm", True), ("word_perplexity", False), ("bits_per_byte", False), ("WER", False),
     ("brier_score", False), ("Hallucination", False), ("Answer Relevancy", True), ("biased_accuracy", True)],
)  # fmt: skip
def test_the_name_of_a_metric_says_its_direction(name, higher):
    assert named_metric(name).higher_is_better is higher


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scores": {"f1": [0.5, math.nan, 1, 1]}, "tasks": None}, r"NaN or infinite in 1 of 4 rows \(ids 'b'\)"),
        ({"scores": {"f1": ["0.5", "good", "1", "bad"]}, "tasks": None}, r"text in 2 of 4 rows .*: 'good', 'bad'"),
        ({"scores": {"f1": [0.5, "good", 1, 1]}, "tasks": None}, "holds 'good', expected numbers"),
        ({"scores": {"f1": [0.5, None, 1, 1]}}, "1 of 2 rows of task qa have no f1"),
        ({"scores": {}}, "no scores"),
        ({"ids": ["a", "b"]}, "lengths differ"),
        ({"columns": {"f1": [1, 2, 3, 4]}}, "cannot be named f1"),
        ({"default_metric": "em"}, "default_metric is 'em', expected one of f1, wer"),
        ({"tasks": ["qa", None, "asr", "asr"]}, "1 of 4 rows have no task"),
        ({"repeats": [1, 1, None, 2]}, "1 of 4 rows have no repeat"),
        ({"ids": ["a", None, "c", "d"]}, "1 of 4 rows have no id"),
    ],
)  # fmt: skip
def test_bad_input_is_named(changes, message):
    with pytest.raises(ValueError, match=message):
        make(**changes)


def test_scores_as_text_that_are_numbers_are_numbers():
    assert scored(["0.5", "1"]).scores["acc"].tolist() == [0.5, 1.0]
    assert scored(np.array([True, False])).scores["acc"].tolist() == [1.0, 0.0]


def test_answers_become_scores():
    answers = Predictions(["a", "b"], ["x", "y"], ["x", "x"], columns={"lang": ["en", "de"], "text": ["?", "??"]})
    table = Scores.from_predictions(answers)
    assert table.scores["exact_match"].tolist() == [1.0, 0.0]
    assert table.texts.to_pylist() == ["?", "??"]
    assert list(table.columns) == ["lang"]


def test_numbers_beyond_64_bits():
    with pytest.raises(ValueError, match="score holds whole numbers of more than 64 bits"):
        Scores([1, 2], [10**30, 1])
    with pytest.raises(ValueError, match="repeat holds whole numbers of more than 64 bits"):
        Scores([1, 1], [1, 1], repeats=[1, 10**30])
