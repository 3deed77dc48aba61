import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hf_pct import Predictions
from hf_pct.flips.tables.predictions import METADATA_KEY, Provenance

NAMES = ["no", "yes", "maybe"]


def make(**changes):
    rng = np.random.default_rng(0)
    given = {
        "ids": ["a", "b", "c", "d"],
        "labels": ["no", "yes", "maybe", "no"],
        "logits": rng.normal(size=(4, 3)).astype(np.float32),
        "label_names": NAMES,
        "columns": {"channel": ["app", "app", "phone", None], "traffic": [1.5, 2.0, 3.0, 4.0]},
        "provenance": Provenance(model="intent-v1", revision="abc", dataset="d", fingerprint="f", versions={"x": "1"}),
    }
    return Predictions(**(given | changes))


def assert_same(first, second):
    assert first.to_arrow().equals(second.to_arrow(), check_metadata=True)
    assert first.provenance == second.provenance
    assert first.label_names == second.label_names


def test_predictions_are_the_argmax_of_the_logits():
    predictions = make()
    assert list(predictions.predictions) == [NAMES[index] for index in predictions.logits.argmax(-1)]
    assert list(predictions.labels) == ["no", "yes", "maybe", "no"]


def test_confidence_is_the_softmax_at_the_answer():
    predictions = make()
    softmax = np.exp(predictions.logits) / np.exp(predictions.logits).sum(-1, keepdims=True)
    assert predictions.confidence() == pytest.approx(softmax.max(-1))
    assert predictions.confidence(np.array([2, 0])) == pytest.approx(softmax.max(-1)[[2, 0]])
    other = make(predictions=["no"] * 4)
    assert other.confidence() == pytest.approx(softmax[:, 0])


def test_a_parquet_file_keeps_everything(tmp_path):
    original = make()
    original.save(tmp_path / "p.parquet")
    assert_same(Predictions.load(tmp_path / "p.parquet"), original)


def test_jsonl_csv_and_parquet_say_the_same(tmp_path):
    rows = [
        {"id": "007", "label": "no", "prediction": "yes", "channel": "app"},
        {"id": "008", "label": "yes", "prediction": "yes", "channel": "phone"},
    ]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "p.csv").write_text("id,label,prediction,channel\n007,no,yes,app\n008,yes,yes,phone\n")
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "p.parquet")
    loaded = [Predictions.load(tmp_path / f"p.{kind}") for kind in ("jsonl", "csv", "parquet")]
    for table in loaded:
        assert table.ids.to_pylist() == ["007", "008"]
        assert_same(table, loaded[0])


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_indices_become_names(tmp_path, kind):
    rows = [{"id": "a", "label": 2, "prediction": 0}, {"id": "b", "label": 1, "prediction": 1}]
    if kind == "jsonl":
        (tmp_path / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif kind == "csv":
        (tmp_path / "p.csv").write_text("id,label,prediction\na,2,0\nb,1,1\n")
    else:
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / "p.parquet")
    named = Predictions.load(tmp_path / f"p.{kind}", label_names=NAMES)
    assert list(named.labels) == ["maybe", "yes"]
    assert list(named.predictions) == ["no", "yes"]
    bare = Predictions.load(tmp_path / f"p.{kind}")
    assert list(bare.labels) == ["2", "1"]


def test_jsonl_with_logits(tmp_path):
    (tmp_path / "p.jsonl").write_text('{"id": 1, "label": "yes", "logits": [0.1, 2.0, -1.0]}\n')
    loaded = Predictions.load(tmp_path / "p.jsonl", label_names=NAMES)
    assert list(loaded.predictions) == ["yes"]
    assert loaded.logits.shape == (1, 3)


def test_integer_ids_stay_integers(tmp_path):
    make(ids=[4, 3, 2, 1]).save(tmp_path / "p.parquet")
    assert Predictions.load(tmp_path / "p.parquet").ids.to_pylist() == [4, 3, 2, 1]


def test_an_existing_file_is_kept(tmp_path):
    path = make().save(tmp_path / "p.parquet")
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match=r"p\.parquet exists and is kept.*--overwrite"):
        make(ids=[4, 3, 2, 1]).save(path)
    assert path.read_bytes() == before
    make(ids=[4, 3, 2, 1]).save(path, overwrite=True)
    assert Predictions.load(path).ids.to_pylist() == [4, 3, 2, 1]


def test_a_failed_save_leaves_nothing(tmp_path, monkeypatch):
    def half_written(table, path, **options):
        path.write_bytes(b"PAR1 half")
        raise OSError("No space left on device")

    monkeypatch.setattr(pq, "write_table", half_written)
    with pytest.raises(OSError, match="No space left"):
        make().save(tmp_path / "p.parquet")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ids": ["a", None, "c", "d"]}, "1 of 4 rows have no id"),
        ({"ids": ["a", "b"]}, "2 rows|lengths differ"),
        ({"ids": ["a", 1, "c", "d"]}, "ids are not all of one kind"),
        ({"ids": [0.5, 1.5, 2.5, 3.5]}, "ids are of type double"),
        ({"labels": ["no", None, "no", "no"]}, "label"),
        ({"labels": [0, 1, 3, 0]}, "indices without a label name: 3; there are 3 names, so expected 0 to 2"),
        ({"predictions": ["no", "oui", "no", "no"]}, "1 predicted classes are not among the model's 3.*'oui'"),
        ({"logits": np.zeros((4, 2))}, r"logits have shape \(4, 2\), expected 4 rows and 3 columns"),
        ({"logits": [[1, np.nan, 0]] * 4}, "logits of 4 of 4 rows are NaN or infinite"),
        ({"logits": [[1, np.inf, 0]] * 4}, "NaN or infinite"),
        ({"logits": None}, "Neither predictions nor logits"),
        ({"label_names": None}, "no label names to say which class each column"),
        ({"label_names": ["no", "yes", "no"]}, "name 'no' more than once"),
        ({"label_names": "abc"}, "expected a list of class names"),
        ({"columns": {"logits": [1, 2, 3, 4]}}, "cannot be named logits"),
        ({"columns": {"channel": ["app"]}}, "lengths differ"),
        ({"ids": [], "labels": [], "logits": np.zeros((0, 3)), "columns": {}}, "no rows"),
    ],
)
def test_bad_tables(changes, message):
    with pytest.raises(ValueError, match=message):
        make(**changes)


def test_negative_infinity_masks_a_class():
    assert list(make(logits=[[0.0, -np.inf, 1.0]] * 4).predictions) == ["maybe"] * 4


def test_a_truncated_parquet_file_says_so(tmp_path):
    path = make().save(tmp_path / "p.parquet")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match=r"p\.parquet is not a whole parquet file.*truncated"):
        Predictions.load(path)
    path.write_bytes(b"")
    with pytest.raises(ValueError, match="not a whole parquet file"):
        Predictions.load(path)


def test_a_file_of_a_newer_version_is_refused(tmp_path):
    table = make().to_arrow()
    metadata = json.loads(table.schema.metadata[METADATA_KEY]) | {"format_version": 99}
    pq.write_table(table.replace_schema_metadata({METADATA_KEY: json.dumps(metadata)}), tmp_path / "p.parquet")
    with pytest.raises(ValueError, match=r"format 99 by a newer hf_pct.*pip install --upgrade 'hf-pct @ git"):
        Predictions.load(tmp_path / "p.parquet")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("p.txt", "id", r"ends in \.txt, expected one of \.parquet"),
        ("p.csv", "id,answer\n1,a\n", r"lacks label, prediction \(or logits\).*found: id, answer"),
        ("p.csv", "", "cannot be read as a CSV file"),
        ("p.jsonl", '{"id": 1, "label": ', "cannot be read as JSON lines"),
        ("p.jsonl", '{"id": 1, "label": "a", "prediction": "a", "logits": [1]}\n'
         '{"id": 2, "label": "a", "prediction": "a", "logits": [1, 2]}\n', "between 1 and 2 columns"),
        ("p.jsonl", '{"id": 1, "label": "a", "prediction": "a"}\n{"id": 2, "label": "a"}\n', "1 of 2 rows have no"),
        ("p.jsonl", '{"id": 1, "label": [1], "prediction": "a"}\n', "column label is of type"),
    ],
)  # fmt: skip
def test_unreadable_files(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        Predictions.load(tmp_path / name)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.parquet does not exist"):
        Predictions.load(tmp_path / "nowhere.parquet")
    with pytest.raises(FileNotFoundError, match="is a folder"):
        Predictions.load(tmp_path)


def test_given_names_may_not_contradict_the_file(tmp_path):
    path = make().save(tmp_path / "p.parquet")
    with pytest.raises(ValueError, match="records its own 3 label names"):
        Predictions.load(path, label_names=["x", "y", "z"])
    with pytest.raises(ValueError, match=r"does not end in \.parquet"):
        make().save(tmp_path / "p.csv")


def test_repr_says_what_it_is():
    assert "intent-v1" in repr(make())
    assert "4 rows" in repr(make())


def test_labels_that_the_model_lacks_survive_saving(tmp_path):
    table = Predictions([1, 2, 3], ["a", "b", "added"], ["a", "b", "a"], label_names=["a", "b"])
    loaded = Predictions.load(table.save(tmp_path / "old.parquet"))
    assert loaded.label_names == ("a", "b")
    assert loaded.labels.tolist() == ["a", "b", "added"]
    assert loaded.predictions.tolist() == ["a", "b", "a"]
