"""The `evaluate` module against `count_flips`, and as people without the kit load it."""

import doctest
import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import evaluate
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_pct.flips.counts import FlipCounts, count_flips
from hf_pct.metrics import metric_path

FOLDER = Path(metric_path("nfr"))
INPUTS = ("references", "old_predictions", "predictions")


@pytest.fixture(scope="module")
def metric():
    return evaluate.load(metric_path("nfr"), keep_in_memory=True)


@pytest.fixture(scope="module")
def app():
    spec = importlib.util.spec_from_file_location("nfr_app", FOLDER / "app.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def assert_equals_counts(results: dict, counts: FlipCounts) -> None:
    assert {name: getattr(counts, name) for name in results} == pytest.approx(results, abs=1e-12)


rows = st.one_of(
    st.lists(st.tuples(*[st.integers(-2, 3)] * 3), min_size=1, max_size=60),
    st.lists(st.tuples(*[st.sampled_from(["on", "off", "01", "1", "naïve"])] * 3), min_size=1, max_size=60),
)


@settings(max_examples=60, deadline=None)
@given(rows=rows, data=st.data())
def test_equals_count_flips(metric, rows, data):
    references, old, new = map(list, zip(*rows, strict=True))
    weights = data.draw(st.none() | st.lists(st.floats(0.125, 8), min_size=len(rows), max_size=len(rows)))
    results = metric.compute(references=references, old_predictions=old, predictions=new, sample_weight=weights)
    assert_equals_counts(results, count_flips(old, new, references, weights))


def test_counts_are_whole_numbers_without_weights(metric):
    results = metric.compute(references=[0, 1], old_predictions=[0, 1], predictions=[0, 0])
    assert (results["negative_flips"], results["total"]) == (1, 2)
    assert all(type(results[name]) is int for name in ("both_right", "negative_flips", "total"))


def test_every_outcome_and_rate(metric):
    """One hand-made example of each of the five outcomes, so that the equality above is not two equal mistakes."""
    results = metric.compute(references=[0, 0, 0, 0, 0], old_predictions=[0, 0, 1, 1, 1], predictions=[0, 1, 0, 1, 2])
    assert results == pytest.approx(
        {
            "nfr": 1 / 5, "pfr": 1 / 5, "relative_nfr": (1 / 5) / (2 / 5 * 3 / 5), "old_accuracy": 2 / 5,
            "new_accuracy": 2 / 5, "old_error_rate": 3 / 5, "new_error_rate": 3 / 5, "nfi": 1 / 3, "btc": 1 / 2,
            "bec": 2 / 3, "churn": 3 / 5, "both_right": 1, "negative_flips": 1, "positive_flips": 1,
            "both_wrong_same": 1, "both_wrong_different": 1, "total": 5,
        }
    )  # fmt: skip


def test_edges_that_divide_by_zero(metric):
    perfect = metric.compute(references=[1, 2], old_predictions=[1, 2], predictions=[1, 2])
    assert (perfect["relative_nfr"], perfect["nfi"], perfect["btc"], perfect["bec"]) == (0.0, 0.0, 1.0, 1.0)
    hopeless = metric.compute(references=[1, 2], old_predictions=[0, 0], predictions=[0, 0])
    assert (hopeless["relative_nfr"], hopeless["nfi"], hopeless["btc"], hopeless["bec"]) == (0.0, 0.0, 1.0, 1.0)


@pytest.mark.parametrize("kind", [np.int64, np.str_])
def test_pieces_equal_the_whole(metric, kind):
    rng = np.random.default_rng(0)
    columns = {name: rng.integers(0, 4, 101).astype(kind) for name in INPUTS}
    whole = metric.compute(**columns)
    for piece in np.array_split(np.arange(101), 7):
        metric.add_batch(**{name: column[piece] for name, column in columns.items()})
    assert metric.compute() == whole
    for row in range(101):
        reference, old, new = (columns[name][row] for name in INPUTS)
        metric.add(reference=reference, prediction=new, old_predictions=old)
    assert metric.compute() == whole


def test_an_empty_batch_adds_nothing(metric):
    metric.add_batch(references=["a"], old_predictions=["a"], predictions=["b"])
    metric.add_batch(references=[], old_predictions=[], predictions=[])
    assert metric.compute()["total"] == 1


def test_columns_of_other_libraries(metric):
    import datasets
    import pandas as pd
    import pyarrow as pa
    import torch

    numbers = [[1, 2], torch.tensor([1, 2]), pd.Series([1.0, 2.0]), pa.chunked_array([[1], [2]])]
    numbers.append(datasets.Dataset.from_dict({"label": [1, 2]})["label"])
    names = [["x", "y"], np.array(["x", "y"], dtype=object), pd.Series(["x", "y"]), pa.array(["x", "y"])]
    for references, columns in (([1, 3], numbers), (["x", "z"], names)):
        for column in columns:
            results = metric.compute(references=references, old_predictions=references, predictions=column)
            assert results["nfr"] == 0.5, column


def test_text_is_not_read_as_numbers(metric):
    """`evaluate` alone would store "01" and "1" as the same integer."""
    assert metric.compute(references=["01", "1"], old_predictions=["01", "1"], predictions=["1", "1"])["nfr"] == 0.5


def test_two_instances_at_once():
    first, second = (evaluate.load(metric_path("nfr")) for _ in range(2))
    first.add_batch(references=[0, 0], old_predictions=[0, 0], predictions=[1, 1])
    second.add_batch(references=[0, 0], old_predictions=[0, 0], predictions=[0, 0])
    first.add_batch(references=[0], old_predictions=[0], predictions=[0])
    assert second.compute()["nfr"] == 0.0
    assert first.compute()["nfr"] == pytest.approx(2 / 3)


def test_combine_through_add_batch():
    both = evaluate.combine(
        {"one": evaluate.load(metric_path("nfr")), "two": evaluate.load(metric_path("nfr"), experiment_id="two")}
    )
    both.add_batch(references=[0, 1], old_predictions=[0, 1], predictions=[0, 0])
    results = both.compute()
    assert results["one_nfr"] == results["two_nfr"] == 0.5


GOOD = {"references": [0, 1], "old_predictions": [0, 1], "predictions": [0, 1]}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (dict.fromkeys(INPUTS), "nothing to compute: no rows were given or added"),
        ({name: [] for name in INPUTS}, "nothing to compute: no rows were given or added"),
        ({"predictions": [0]}, r"lengths differ \(predictions: 1, references: 2, old_predictions: 2\)"),
        (
            {"old_predictions": None},
            "Inputs are missing: old_predictions. Expected predictions, references,",
        ),
        ({"predictions": [0.2, 0.7]}, "predictions holds fractions or NaN.*argmax"),
        ({"predictions": [0.0, float("nan")]}, "predictions holds fractions or NaN"),
        ({"predictions": np.zeros((2, 3))}, r"predictions has shape \(2, 3\).*For logits pass the argmax"),
        ({"predictions": [[0], [0, 1]]}, "predictions holds values of type list"),
        ({"predictions": ["a", "b"]}, "different kinds.*predictions: text, references: integers"),
        ({"old_predictions": [0, "b"]}, "old_predictions holds values of type int, str"),
        ({"references": [0, None]}, "references holds values of type NoneType, int"),
        ({"references": "ab"}, "references is of type str, expected a list or an array"),
        ({"references": 3}, "references is of type int, expected a list or an array"),
        ({"references": np.array([1j, 2j])}, "references has dtype complex128"),
        ({"sample_weight": [1.0]}, r"sample_weight has shape \(1,\), expected one weight per row, shape \(2,\)"),
        ({"sample_weight": [1.0, -1.0]}, "sample_weight must be finite, not negative"),
    ],
)
def test_bad_input_is_named_and_leaves_nothing_behind(metric, given, message):
    with pytest.raises(ValueError, match=message):
        metric.compute(**{**GOOD, **given})
    assert metric.compute(**GOOD)["total"] == 2


def test_batches_of_different_kinds(metric):
    metric.add_batch(**GOOD)
    with pytest.raises(ValueError, match="the rows added before: integers"):
        metric.add_batch(references=["a"], old_predictions=["a"], predictions=["a"])
    assert metric.compute()["total"] == 2


def test_metric_path():
    assert FOLDER.is_absolute()
    assert {path.name for path in FOLDER.iterdir()} >= {"nfr.py", "README.md", "requirements.txt", "app.py"}
    with pytest.raises(ValueError, match=r"Unknown metric 'nrf'; hf_pct comes with: nfr\."):
        metric_path("nrf")


def test_metric_path_does_not_import_evaluate():
    code = "import sys; from hf_pct.metrics import metric_path; metric_path(); sys.exit('evaluate' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0


def test_the_folder_stands_alone(tmp_path):
    """Copied elsewhere, with hf_pct out of reach: how the Space's users have it."""
    shutil.copytree(FOLDER, tmp_path / "nfr", ignore=shutil.ignore_patterns("__pycache__"))
    code = (
        "import sys; sys.modules['hf_pct'] = None\n"
        "import evaluate\n"
        "metric = evaluate.load('./nfr')\n"
        "print(metric.compute(references=[0, 1], old_predictions=[0, 1], predictions=[0, 0])['nfr'])\n"
        "sys.path.insert(0, 'nfr'); import app\n"
        "print(app.flips_from_text('a', 'a', 'b')['nfr'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.split() == ["0.5", "1.0"], done.stderr


def test_the_card_tells_the_truth(monkeypatch):
    """Every example in README.md is run, and prints what the card says that it prints."""
    monkeypatch.chdir(FOLDER.parent)
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "README.md", "README.md", 0)
    output = []
    outcome = doctest.DocTestRunner().run(test, out=output.append)
    assert outcome.failed == 0, "".join(output)
    assert outcome.attempted >= 12


def test_the_card_is_a_space():
    import yaml

    _, front, _ = (FOLDER / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    card = yaml.safe_load(front)
    assert (card["sdk"], card["app_file"], card["tags"]) == ("gradio", "app.py", ["evaluate", "metric"])
    assert {"title", "emoji", "colorFrom", "colorTo", "sdk_version", "pinned", "description"} <= set(card)


def test_app_on_pasted_text(app):
    results = app.flips_from_text(*app.EXAMPLE)
    references, old, new = (text.splitlines() for text in app.EXAMPLE)
    assert_equals_counts(results, count_flips(old, new, references))
    assert results["negative_flips"] == 1
    assert app.flips_from_text("a\r\nb\n\n", " a \nb\n", "a\nc") == app.flips_from_text("a\nb", "a\nb", "a\nc")


def test_app_on_a_csv_file(app):
    text = "id,reference, old_prediction ,new_prediction\n1,a,a,b\n2,b,b,b\n"
    assert app.flips_from_csv(text)["nfr"] == 0.5
    with pytest.raises(ValueError, match=r"no column new_prediction.*found \['reference', 'old_prediction'\]"):
        app.flips_from_csv("reference,old_prediction\na,a\n")


def test_app_refuses_rows_without_labels(app):
    with pytest.raises(ValueError, match="old_prediction has no label in row 2"):
        app.flips_from_text("a\nb\nc", "a\n\nc", "a\nb\nc")
    with pytest.raises(ValueError, match="lengths differ"):
        app.flips_from_text("a\nb", "a\nb", "a")
    with pytest.raises(ValueError, match="nothing to compute"):
        app.flips_from_text("", "", "")
