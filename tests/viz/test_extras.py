"""Curves and chains: what is read, and what is refused."""

import json

import pytest
from page_reports import CHAIN, curve_rows

from hf_pct.viz.extras import read_chain, read_curve
from hf_pct.viz.page.curve import curve_figure


def test_a_curve_from_a_file_its_contents_or_its_rows(tmp_path):
    record = {"alpha": 0.4, "curve": curve_rows()[::-1], "selection": {"alpha": 0.4, "reason": "fewest flips"}}
    path = tmp_path / "pct_merge.json"
    path.write_text(json.dumps(record))
    curve = read_curve(path)
    assert curve == read_curve(record)
    assert curve.rows == read_curve(curve_rows()).rows, "rows are sorted by alpha"
    assert (curve.chosen, curve.reason) == (0.4, "fewest flips")
    assert curve.old_accuracy == pytest.approx(0.83)
    assert curve.column("pfr") is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"alpha": 0.4, "curve": None}, "no alpha curve.*--alpha auto"),
        ([{"alpha": 0.1}], "row 0: expected numbers from 0 to 1 for accuracy, nfr"),
        ({"curve": "abc"}, "expected a list"),
        ([{"alpha": 2, "accuracy": 0.5, "nfr": float("nan")}], "for alpha, nfr"),
    ],
)
def test_what_is_no_curve(given, message):
    with pytest.raises(ValueError, match=message):
        read_curve(given)


def test_files_that_are_not_there_or_not_json(tmp_path):
    with pytest.raises(FileNotFoundError, match="expected a pct_merge"):
        read_curve(tmp_path / "nothing.json")
    (tmp_path / "half.json").write_text('{"versions": [')
    with pytest.raises(ValueError, match="not a whole JSON file"):
        read_chain(tmp_path / "half.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nfr": [[0, 1], [0, 0]]}, r"rows of \[2, 2\], expected 3 rows of 3"),
        ({"versions": ["v1"], "nfr": [[0]]}, "expected at least 2"),
        ({"nfr": [[0, 7, 0]] * 3}, "numbers from 0 to 1"),
        ({"accuracy": [0.5]}, "expected 3 numbers"),
    ],
)
def test_what_is_no_chain(change, message):
    with pytest.raises(ValueError, match=message):
        read_chain({**CHAIN, **change})


def test_the_figure_keeps_the_order_of_the_values():
    figure = curve_figure(read_curve({"curve": curve_rows(), "alpha": 0.4}))
    for panel, name in zip(figure["panels"], ("accuracy", "nfr"), strict=True):
        heights = [y for _, y in panel.points]
        values = [row[name] for row in curve_rows()]
        assert all(
            (a - b) * (y - x) >= 0 for a, b, x, y in zip(values, values[1:], heights, heights[1:], strict=False)
        )
        assert all(panel.top <= y <= panel.top + 150 for y in heights)
        assert [float(text) for _, text in panel.ticks] == sorted(float(text) for _, text in panel.ticks)
    assert sum(row["chosen"] for row in figure["rows"]) == 1


@pytest.mark.parametrize("value", [0.0, 1.0, 0.5])
def test_a_flat_curve_is_drawn_too(value):
    rows = [{"alpha": alpha, "accuracy": value, "nfr": value} for alpha in (0.0, 1.0)]
    assert len(curve_figure(read_curve(rows))["panels"]) == 2
