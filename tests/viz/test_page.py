"""The page without a browser: it is whole, safe, small, the same every time, and leaves out what it must."""

import hashlib
import json
import re
import time
from base64 import b64encode
from html.parser import HTMLParser

import numpy as np
import pytest
from page_reports import CHAIN, INTENTS, NASTY, curve_rows, long_report, small_report
from PIL import Image

from hf_pct import FlipReport, GateConfig, check_gate
from hf_pct.viz.page.write import render_page, write_page


class Reader(HTMLParser):
    """The elements of a page and the text inside scripts, as a browser's parser finds them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.inside, self.scripts, self.styles = "", [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.inside = tag
        if tag in ("script", "style"):
            (self.scripts if tag == "script" else self.styles).append("")

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, text):
        if self.inside == "script":
            self.scripts[-1] += text
        if self.inside == "style":
            self.styles[-1] += text


@pytest.fixture(scope="module")
def report():
    return small_report()


@pytest.fixture(scope="module")
def page(report):
    gate = check_gate(report, GateConfig(max_nfr=0.5, max_class_nfr=0.01))
    return render_page(report, gate=gate, curve=curve_rows(), chain=CHAIN)


def test_hostile_text_makes_no_element_and_no_script(page):
    found = Reader(page)
    assert NASTY not in page
    tags = [tag for tag, _ in found.tags]
    assert "img" not in tags
    assert tags.count("script") == 2
    assert not [(tag, key) for tag, attributes in found.tags for key in attributes if key.startswith("on")]


def test_the_policy_names_the_one_script_and_the_one_style_sheet(page):
    found = Reader(page)
    policy = next(a["content"] for tag, a in found.tags if tag == "meta" and "http-equiv" in a)
    for kind, text in (("script", found.scripts[1]), ("style", found.styles[0])):
        digest = b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert "http" not in policy
    first = next(tag for tag, a in found.tags if tag in ("style", "script", "link") or "http-equiv" in a)
    assert first == "meta", "the policy must stand before what it governs"


def test_nothing_points_out_of_the_page(page):
    found = Reader(page)
    for tag, attributes in found.tags:
        for key in ("href", "src", "action", "data", "srcset"):
            assert attributes.get(key, "#").startswith(("#", "data:")), (tag, attributes)
        assert "style" not in attributes, "the policy forbids style attributes"
    code = found.scripts[1] + found.styles[0]
    assert not re.search(r"https?:|//[a-z]|url\(|@import|fetch\(|XMLHttp|WebSocket|innerHTML|eval\(", code)


def test_the_data_block_is_the_report(page, report):
    data = json.loads(Reader(page).scripts[0])
    columns = data["columns"]
    assert list(columns) == report.flips.column_names
    for name, column in columns.items():
        values = column.get("values")
        if values is None:
            values = [None if code < 0 else column["names"][code] for code in column["codes"]]
        assert values == report.flips.column(name).to_pylist()
    assert data["report"] == json.loads(json.dumps(report.to_dict(flips=False)))


def test_without_texts_nothing_of_the_examples_is_left(report):
    page = render_page(report, texts=False)
    assert "say alarm" not in page
    assert "user-" not in page
    data = json.loads(Reader(page).scripts[0])
    assert set(data["columns"]) == {
        "id", "kind", "label", "old_answer", "new_answer", "old_confidence", "new_confidence", "channel", "verified",
    }  # fmt: skip
    assert "examples themselves are left out" in page


def test_without_texts_a_slice_of_sentences_is_left_out_too():
    report = small_report()
    groups = [type(group)(**{**group.__dict__, "rows": 1}) for group in report.slices["channel"]]
    secret = [type(group)(**{**group.__dict__, "name": f"my secret {n}"}) for n, group in enumerate(groups)]
    report.slices["utterance"] = secret
    assert "my secret 0" in render_page(report)
    hidden = render_page(report, texts=False)
    assert "my secret" not in hidden
    assert "left out: utterance" in hidden


def test_the_same_report_gives_the_same_bytes(report, page):
    gate = check_gate(report, GateConfig(max_nfr=0.5, max_class_nfr=0.01))
    again = FlipReport.from_dict(json.loads(report.to_json()))
    assert render_page(again, gate=gate, curve=curve_rows(), chain=CHAIN) == page
    assert render_page(report.to_dict(), gate=gate, curve=curve_rows(), chain=CHAIN) == page


def test_what_the_page_says(page, report):
    assert "FAILED" in page
    assert "max_class_nfr" in page
    assert "Alpha curve" in page
    assert "NFR between every two versions" in page
    assert f"breaks {int(report.counts.negative_flips)} and fixes {int(report.counts.positive_flips)}" in page
    plain = report.to_html()
    assert 'id="gate"' not in plain
    assert "Alpha curve" not in plain
    assert plain == render_page(report)


def test_odd_numbers_and_odd_columns_survive():
    import pyarrow as pa

    report = small_report()
    count = report.flips.num_rows
    odd = report.flips.append_column("big", pa.array([2**60 + 1] * count))
    odd = odd.append_column("nan", pa.array([float("nan")] * count)).append_column("none", pa.nulls(count))
    odd = odd.append_column("words", pa.array([["a", "b"]] * count))
    odd = odd.append_column("long", pa.array(["x" * 5000] * count))
    object.__setattr__(report, "flips", odd)
    page = render_page(report)
    data = json.loads(Reader(page).scripts[0], parse_constant=pytest.fail)
    assert data["columns"]["big"]["values"][0] == str(2**60 + 1)
    assert data["columns"]["nan"]["values"][0] is None
    assert data["columns"]["words"]["values"][0] == ["a", "b"]
    assert "cut at 2,000 characters" in page


def test_a_report_without_rows_still_makes_a_page(report):
    bare = FlipReport.from_dict(report.to_dict(flips=False))
    assert "No flipped rows are listed" in render_page(bare)


def test_ten_thousand_flips_are_quick_to_write_and_small():
    report = long_report(10_000)
    start = time.process_time()  # a busy neighbour does not fail it; 5 s is many times what it takes
    page = render_page(report)
    assert time.process_time() - start < 5
    assert len(page.encode()) < 3e6


def test_five_hundred_pictures_stay_under_fifteen_megabytes():
    report = long_report(10_000)
    rng = np.random.default_rng(0)
    noise = Image.fromarray(rng.integers(0, 255, (320, 240, 3), dtype=np.uint8))  # nothing compresses worse
    page = render_page(report, images={f"row-{number:06d}": noise for number in range(600)})
    assert page.count("data:image/jpeg") == 500
    assert len(page.encode()) < 15e6
    assert "500 of 10,000 flipped rows are shown with their image" in page


def test_what_is_wrong_is_said(tmp_path, report):
    with pytest.raises(ValueError, match="images are examples too"):
        render_page(report, texts=False, images={})
    with pytest.raises(ValueError, match="not a flip report"):
        render_page({"a": 1})
    with pytest.raises(ValueError, match="no id of the report is among the images' ids"):
        render_page(report, images={"nobody": Image.new("RGB", (4, 4))})
    path = write_page(tmp_path / "update.html", report)
    with pytest.raises(FileExistsError, match="--overwrite"):
        write_page(path, report)
    assert write_page(path, report, overwrite=True).read_text(encoding="utf-8") == render_page(report)


def test_every_class_and_slice_is_listed(page):
    rows = [attributes for tag, attributes in Reader(page).tags if tag == "button" and "data-value" in attributes]
    classes = {a["data-value"] for a in rows if "data-class" in a and "data-answer" not in a}
    assert classes == set(INTENTS)
    assert {(a["data-slice"], a["data-value"]) for a in rows if "data-slice" in a} == {
        ("channel", "app"), ("channel", "phone"), ("channel", NASTY), ("verified", "True"), ("verified", "False"),
    }  # fmt: skip
