import dataclasses
import json

import pytest
from flip_tables import random_pair, side

from hf_pct import FlipReport, NotComparableError, compare
from hf_pct.flips.tables.predictions import Provenance


@pytest.fixture(scope="module")
def full_report():
    """A report with every optional part."""
    rows = 400
    columns = {
        "channel": ["app", "phone"] * 200,
        "traffic": [1.0 + index % 3 for index in range(rows)],
        "user": [index // 4 for index in range(rows)],
    }
    old, new, _ = random_pair(columns=columns)
    rerun, _, _ = random_pair(seed=0, columns=columns)
    return compare(old, new, old_rerun=rerun, weight="traffic", cluster="user", slices=["channel"])


def test_a_saved_report_loads_as_it_was(tmp_path, full_report):
    path = full_report.save(tmp_path / "r.json")
    loaded = FlipReport.load(path)
    for field in dataclasses.fields(FlipReport):
        if field.name != "flips":
            assert getattr(loaded, field.name) == getattr(full_report, field.name), field.name
    assert loaded.flips.to_pylist() == full_report.flips.to_pylist()
    assert loaded.to_json() == full_report.to_json()


def test_json_and_dict_are_the_same(full_report):
    assert json.loads(full_report.to_json()) == json.loads(json.dumps(full_report.to_dict()))


def test_a_report_without_flips(tmp_path):
    labels = ["no", "yes"]
    report = compare(side(labels, labels), side(labels, labels))
    loaded = FlipReport.load(report.save(tmp_path / "r.json"))
    assert len(loaded.flips) == 0
    assert loaded.counts == report.counts
    assert "breaks 0 and fixes 0 of 2 rows" in loaded.to_markdown()
    assert "breaks 0" in loaded.to_text()


def test_to_dataset(full_report):
    data = full_report.to_dataset()
    assert len(data) == full_report.counts.negative_flips + full_report.counts.positive_flips
    assert {"id", "kind", "label", "old_answer", "new_answer", "old_confidence", "channel"} <= set(data.column_names)
    assert data.filter(lambda row: row["kind"] == "negative").num_rows == full_report.counts.negative_flips


def test_markdown_shows_every_part(full_report):
    text = full_report.to_markdown()
    for part in (
        "By class",
        "By channel",
        "noise floor",
        "weighted by traffic",
        "broken",
        "How it was made",
        "drawn by",
    ):
        assert part in text, part
    table_rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table_rows) > 20


def test_text_in_data_cannot_break_a_table():
    bad = "a|b\n# <img src=x> `c` *d*"
    labels = [bad, "yes"]
    source = Provenance(model="<b>org/evil|name</b>")
    old = side(labels, labels, names=[bad, "yes"])
    new = side(["yes", "yes"], labels, names=[bad, "yes"])
    old.provenance = source
    text = compare(old, new).to_markdown()
    assert "<img" not in text
    assert "<b>" not in text
    assert "\n# &lt;img" not in text
    rows = [line.replace("\\|", "") for line in text.splitlines() if line.startswith("| a\\|b")]
    assert [row.count("|") for row in rows] == [9, 4]  # the class table and the confusions, each in one row


def test_long_tables_say_how_much_is_left():
    names = [f"class {index}" for index in range(40)]
    report = compare(side(names, names, names=names), side(names, names, names=names))
    assert "(20 more in the JSON report)" in report.to_markdown()
    assert "more in the JSON report" not in report.to_markdown(max_rows=40)


def test_what_is_not_a_report(tmp_path):
    path = tmp_path / "r.json"
    with pytest.raises(FileNotFoundError, match=r"r\.json does not exist, expected a flip report"):
        FlipReport.load(path)
    path.write_text('{"accuracy": 0.9}')
    with pytest.raises(ValueError, match="is not a flip report"):
        FlipReport.load(path)
    path.write_text('{"format": "hf_pct.flip_report", "format_ver')
    with pytest.raises(ValueError, match="not a whole JSON file"):
        FlipReport.load(path)
    path.write_text('{"format": "hf_pct.flip_report", "format_version": 1}')
    with pytest.raises(ValueError, match="incomplete or was edited"):
        FlipReport.load(path)
    with pytest.raises(ValueError, match=r"is a folder.*flip_report\.json"):
        FlipReport.load(tmp_path)


def test_a_report_of_a_newer_version(tmp_path, full_report):
    data = full_report.to_dict() | {"format_version": 2, "version": "9.0"}
    path = tmp_path / "r.json"
    path.write_text(json.dumps(data))
    with pytest.raises(NotComparableError, match=r"format 2, written by hf_pct 9\.0.*pip install --upgrade 'hf-pct @"):
        FlipReport.load(path)


def test_an_existing_report_is_kept(tmp_path, full_report):
    path = full_report.save(tmp_path / "r.json")
    with pytest.raises(FileExistsError, match="exists and is kept"):
        full_report.save(path)
    full_report.save(path, overwrite=True)
