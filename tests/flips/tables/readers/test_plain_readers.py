"""Plain tables in whatever form people have them."""

import gzip
import json

import pytest

from hf_pct import Predictions, Scores, compare
from hf_pct.flips.tables.readers import ReadOptions, parse_columns, read_scores, read_table

ROWS = [("007", "x", "a, b", 0.5), ("008", "y", 'say "hi"', 1.0), ("009", "z", "ü\nq", 0.25)]
EXPECTED = [(name, gold, answer, score) for name, gold, answer, score in ROWS]


def mapped(text):
    columns, scores = parse_columns(text)
    return ReadOptions(columns=columns, scores=scores)


OPTIONS = mapped("id=qid,label=gold,prediction=pred,score=f1")


def quoted(value):
    return '"' + str(value).replace('"', '""') + '"'


def csv_text(delimiter, rows=ROWS):
    header = delimiter.join(("qid", "gold", "pred", "f1"))
    return "\n".join([header, *(delimiter.join(map(quoted, row)) for row in rows)]) + "\n"


def contents(table):
    columns = (table.ids, table.labels, table.predictions, table.scores["f1"])
    return list(
        zip(
            *(column.to_pylist() if hasattr(column, "to_pylist") else column.tolist() for column in columns),
            strict=True,
        )
    )


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("packed", [False, True])
def test_csv_of_any_kind(tmp_path, delimiter, encoding, packed):
    content = csv_text(delimiter).encode(encoding)
    path = tmp_path / ("t.csv.gz" if packed else "t.txt")
    path.write_bytes(gzip.compress(content) if packed else content)
    assert contents(read_scores(path, OPTIONS)) == EXPECTED


@pytest.mark.parametrize("delimiter", ["^", "~", ":", "\x01", " "])
def test_rare_delimiters_where_the_name_says_table(tmp_path, delimiter):
    (tmp_path / "t.csv").write_text(csv_text(delimiter))
    assert contents(read_scores(tmp_path / "t.csv", OPTIONS)) == EXPECTED
    (tmp_path / "t.yaml").write_text("id: 1\nscore: 2\n")
    with pytest.raises(ValueError, match="Formats tried"):
        read_scores(tmp_path / "t.yaml")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_json_lines_of_any_kind(tmp_path, encoding):
    rows = [dict(zip(("qid", "gold", "pred", "f1"), row, strict=True)) for row in ROWS]
    path = tmp_path / "t.jsonl"
    path.write_bytes("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode(encoding))
    assert contents(read_scores(path, OPTIONS)) == EXPECTED


def test_nested_scores_are_metrics(tmp_path):
    (tmp_path / "t.jsonl").write_text(
        '{"id": 1, "scores": {"f1": 0.5, "em": 0}}\n{"id": 2, "scores": {"f1": 1, "em": 1}}\n'
    )
    table = read_scores(tmp_path / "t.jsonl")
    assert list(table.scores) == ["f1", "em"]


def test_a_file_of_answers_stays_one(tmp_path):
    (tmp_path / "p.csv").write_text("id,label,prediction,score\n1,a,a,0.9\n2,b,a,0.4\n")
    assert isinstance(read_table(tmp_path / "p.csv"), Predictions)
    assert isinstance(read_table(tmp_path / "p.csv", ReadOptions(metrics=("score",))), Scores)
    assert isinstance(read_table(tmp_path / "p.csv", mapped("score=score")), Scores)
    (tmp_path / "s.csv").write_text("id,score\n1,0.9\n2,0.4\n")
    assert isinstance(read_table(tmp_path / "s.csv"), Scores)


def test_mapping_is_also_for_answers(tmp_path):
    (tmp_path / "p.tsv").write_text("qid\tgold\tpred\n1\ta\ta\n2\tb\ta\n")
    table = read_table(tmp_path / "p.tsv", mapped("id=qid,label=gold,prediction=pred"))
    assert isinstance(table, Predictions)
    assert table.accuracy == 0.5


def test_two_files_with_other_names_for_the_same(tmp_path):
    (tmp_path / "a.csv").write_text("qid,f1\n1,0.9\n2,0.4\n")
    (tmp_path / "b.csv").write_text("item,F1_score\n1,0.9\n2,0.1\n")
    old, new = (
        read_scores(tmp_path / "a.csv", mapped("id=qid,score=f1")),
        read_scores(tmp_path / "b.csv", mapped("id=item,f1=F1_score,score=f1")),
    )
    assert compare(old, new, right_at=0.3).task("all").outcomes["broken"] == 1


@pytest.mark.parametrize(
    ("content", "mapping", "message"),
    [
        ("a,b\n1,2\n", "id=qid", r"has no column qid \(--columns\)\. Its columns: a, b"),
        ("a,b\n1,2\n", "id=a,score=f1", "has no score column f1"),
        ("a,b\n1,2\n", "", r"lacks id, label, prediction \(or logits\)(?s:.*)id=COLUMN,score=COLUMN"),
        ("score,b\n1,2\n", "", "lacks id"),
        ("id,score\n1,good\n2,0.5\n", "", r"score holds text in 1 of 2 rows \(ids '1'\): 'good'"),
        ("id,score\n1,nan\n2,0.5\n", "", "1 of 2 rows of task all have no score"),
    ],
)
def test_what_is_missing_is_named(tmp_path, content, mapping, message):
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(ValueError, match=message):
        read_scores(tmp_path / "t.csv", mapped(mapping))


@pytest.mark.parametrize(
    ("text", "message"), [("id", "no mapping"), ("id=", "no mapping"), ("id=a,id=b", "given twice")]
)
def test_mappings_that_make_no_sense(text, message):
    with pytest.raises(ValueError, match=message):
        parse_columns(text)


@pytest.mark.parametrize("name", ["t.csv.gz", "t.jsonl.gz"])
def test_a_packed_file_that_is_cut_damaged_or_endless(tmp_path, monkeypatch, name):
    text = csv_text(",") if "csv" in name else "\n".join(json.dumps({"id": row, "score": 1.0}) for row in range(99))
    whole = gzip.compress(text.encode())
    path = tmp_path / name
    for damaged in (whole[:-9], whole[:20] + b"\x00" + whole[21:], whole[:40]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="is not a whole gzip file"):
            read_scores(path, OPTIONS)
    path.write_bytes(whole)
    monkeypatch.setattr("hf_pct.flips.tables.unpacked.free_memory", lambda: 100)
    with pytest.raises(ValueError, match=r"unpacks to more than 25, which is more than may be used"):
        read_scores(path, OPTIONS)


def test_two_columns_with_one_name(tmp_path):
    (tmp_path / "t.csv").write_text("id,label,prediction,prediction\n1,a,a,b\n")
    with pytest.raises(ValueError, match="several columns called prediction"):
        Predictions.load(tmp_path / "t.csv")


@pytest.mark.parametrize(("text", "line"), [("null", 1), ("\n null\n", 2), ('{"id": 1, "score": 1}\r\n\tnull\n', 2)])
def test_a_row_that_is_null_is_named(tmp_path, text, line):
    (tmp_path / "t.jsonl").write_bytes(text.encode())  # pyarrow 26 ends the process on the first of these
    with pytest.raises(ValueError, match=f"line {line} is null, expected a JSON object"):
        read_scores(tmp_path / "t.jsonl")
