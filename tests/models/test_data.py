import json

import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, Value

from hf_pct.models.data import as_dataset, load_data, read_rows

TEXT = ("text", "sentence")
ROWS = [{"id": "a", "text": "one", "label": "x"}, {"id": "b", "text": "two", "label": "y"}]


def read(dataset, **options):
    return read_rows(dataset, usual_inputs=TEXT, model_names=("x", "y"), **options)


def test_files_and_folders_hold_the_same_rows(tmp_path):
    data = Dataset.from_list(ROWS)
    data.to_parquet(tmp_path / "d.parquet")
    data.to_csv(tmp_path / "d.csv", index=False)
    data.to_json(tmp_path / "d.jsonl")
    data.save_to_disk(tmp_path / "saved")
    DatasetDict({"test": data, "train": data}).save_to_disk(tmp_path / "splits")
    sources = ["d.parquet", "d.csv", "d.jsonl", "saved"]
    loaded = [load_data(tmp_path / name) for name in sources] + [load_data(tmp_path / "splits", split="test")]
    prints = {read(dataset).fingerprint for dataset in loaded}
    assert len(prints) == 1
    assert read(ROWS).fingerprint in prints
    with pytest.raises(ValueError, match="has the splits test, train; choose one with split"):
        load_data(tmp_path / "splits")


def test_the_fingerprint_is_of_the_content(tmp_path):
    base = read(ROWS).fingerprint
    assert read(Dataset.from_list(ROWS + ROWS[:1]).select([0, 1])).fingerprint == base
    for change in ({"id": "z"}, {"text": "other"}, {"label": "y"}):
        assert read([ROWS[0] | change, ROWS[1]]).fingerprint != base
    assert read(ROWS[::-1]).fingerprint != base
    assert read([row | {"note": 1} for row in ROWS]).fingerprint == base


def test_labels_are_named_by_the_feature_the_text_or_the_model():
    features = Features({"text": Value("string"), "label": ClassLabel(names=["y", "x"])})
    named = read(Dataset.from_dict({"text": ["one"], "label": [0]}, features=features))
    assert (named.labels, named.class_names) == (["y"], ("y", "x"))
    assert read(ROWS).labels == ["x", "y"]
    assert read([{"text": "one", "label": 1}]).labels == ["y"]


def test_rows_without_ids_are_numbered():
    assert read([{"text": "one", "label": "x"}, {"text": "two", "label": "x"}]).ids == [0, 1]
    assert read(ROWS).ids == ["a", "b"]
    assert read(ROWS, id_column="text").ids == ["one", "two"]


def test_columns_are_found_by_name_or_by_being_the_only_one():
    assert read([{"sentence": "one", "label": "x"}]).input_columns == ("sentence",)
    only = {"content": ["one"], "label": [1]}
    assert read(only).input_columns == ("content",)
    pairs = read([{"first": "one", "second": "two", "label": "x"}], input_column=["first", "second"])
    assert pairs.inputs([0]) == [("one", "two")]


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([], {}, "no rows"),
        ([{"text": "a", "label": None}], {}, "1 of 1 rows have no label"),
        ([{"text": "a", "label": -1}], {}, "1 of 1 rows have no label"),
        ([{"text": "a", "label": 0.5}], {}, "expected class names or class indices"),
        ([{"text": "a", "label": 7}], {}, "labels 7 in 'label' are not indices of the model's 2 classes"),
        ([{"text": "a", "gold": "x"}], {}, "No column is named label.*Found: text, gold.*--label_column"),
        ([{"q": "a", "w": "b", "label": 1}], {}, "No column is named text or sentence.*Found: q, w, label"),
        (ROWS, {"label_column": "gold"}, "label_column is 'gold', but the dataset has the columns id, text, label"),
        (ROWS, {"id_column": "uuid"}, "id_column is 'uuid'"),
        (ROWS, {"input_column": "body"}, "input_column is 'body'"),
        (3, {}, "dataset is a int"),
    ],
)
def test_bad_data(rows, options, message):
    with pytest.raises(ValueError, match=message):
        read(rows, **options)


def test_streams_and_split_dicts_are_refused():
    data = Dataset.from_list(ROWS)
    with pytest.raises(ValueError, match="stream"):
        as_dataset(data.to_iterable_dataset())
    with pytest.raises(ValueError, match="has the splits test; pass one of them"):
        as_dataset(DatasetDict({"test": data}))


def test_names_that_lead_nowhere(tmp_path):
    with pytest.raises(
        ValueError, match="is not a file, not a folder saved by `datasets`, and not a dataset on the Hub"
    ):
        load_data("nobody/nothing")
    (tmp_path / "d.xlsx").write_text("")
    with pytest.raises(ValueError, match=r"ends in \.xlsx, expected one of \.parquet"):
        load_data(tmp_path / "d.xlsx")


def test_json_rows_survive(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    assert read(load_data(path)).labels == ["x", "y"]


@pytest.mark.parametrize(("text", "line"), [('null\n{"text": "a"}\n', 1), ('{"text": "a"}\n null\n', 2)])
def test_a_row_that_is_null_does_not_end_the_process(tmp_path, text, line):
    (tmp_path / "rows.jsonl").write_text(text)
    with pytest.raises(ValueError, match=f"line {line} is null"):
        load_data(tmp_path / "rows.jsonl")
