"""The page of scored rows, as text and in a browser."""

import json
import re

import pytest
from page_browser import CHROMIUM, DRIVER, start_browser
from score_tables import scored

from hf_pct import ScoreReport, compare
from hf_pct.cli import main
from hf_pct.viz.page.write import render_page, write_page

HOSTILE = "</script><img src=x onerror=alert(1)>"


def report():
    tasks = ["sums"] * 3 + ["words"] * 3
    columns = {"lang": ["en", "de", "en", "de", "en", "de"]}
    ids = ["a", "b", "c", "a", "b", "c"]
    texts = [f"What about {name}? {HOSTILE}" for name in "uvwxyz"]
    old = scored([1, 1, 1, 1, 0, 1], ids=ids, tasks=tasks, columns=columns, texts=texts,
                 predictions=["the answer is 4", "5", "6", "seven", "8", "9"])  # fmt: skip
    new = scored([0, 1, 1, 1, 1, 1], ids=ids, tasks=tasks, columns=columns, texts=texts,
                 predictions=["the answer is 7", "five", "6", "seven", "8!", "9"])  # fmt: skip
    return compare(old, new)


def test_the_page_says_what_the_report_says_and_nothing_hostile_is_markup():
    page = render_page(report())
    assert page == report().to_html()
    assert "No regression shown in any of 2 tasks" in page
    assert HOSTILE not in page
    block = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1]
    data = json.loads(block)
    assert data["rows"] == 3
    assert data["report"]["tasks"][0]["outcomes"]["broken"] == 1


def test_without_texts_no_prompt_and_no_answer_is_left():
    page = render_page(report(), texts=False)
    for text in ("What about", "the answer is", "five", "seven"):
        assert text not in page
    assert "sums: a" in page


def test_options_of_flip_reports_are_refused():
    with pytest.raises(ValueError, match="belong to flip reports"):
        render_page(report(), chain={"versions": []})


def test_the_command_writes_the_page_of_either_report(tmp_path, capsys):
    report().save(tmp_path / "score_report.json")
    assert main(["page", str(tmp_path / "score_report.json"), "-o", str(tmp_path / "p.html")]) == 0
    assert (tmp_path / "p.html").read_text() == render_page(ScoreReport.load(tmp_path / "score_report.json"))


@pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs Chromium and its driver")
def test_in_a_browser(tmp_path):
    path = write_page(tmp_path / "p.html", report())
    with start_browser(tmp_path) as browser:
        browser.open(path)
        assert browser.count() == "3 changed rows"
        browser.choose("select[data-slice='task']", "words")
        browser.wait("return document.getElementById('count').textContent === '1 of 3 changed rows'")
        browser.click("#clear")
        browser.click("input[name='kind'][value='broken']")
        browser.wait("return document.getElementById('count').textContent === '1 of 3 changed rows'")
        browser.click("#list .row")
        browser.wait("return document.querySelectorAll('#detail mark').length === 2")
        marks = browser.run("return [...document.querySelectorAll('#detail mark')].map((mark) => mark.textContent)")
        assert marks == ["4", "7"]
        scores = browser.run("return [...document.querySelectorAll('#detail .who')].map((side) => side.textContent)")
        assert scores == ["old version, score 1", "new version, score 0"]
        assert HOSTILE in browser.run("return document.querySelector('#detail blockquote').textContent")


@pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs Chromium and its driver")
def test_on_a_phone_a_row_uses_the_whole_width(tmp_path):
    path = write_page(tmp_path / "p.html", report())
    with start_browser(tmp_path) as browser:
        phone = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
        browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
        browser.open(path)
        assert browser.run("return document.documentElement.scrollWidth") == 390
        right = "document.querySelector('#list .row .%s').getBoundingClientRect().right"
        assert browser.run(f"return Math.abs({right % 'what'} - {right % 'answers'})") < 2
        browser.click("#list .row")
        browser.wait("return document.querySelectorAll('#detail .side').length === 2")
        tops = "return [...document.querySelectorAll('#detail .side')].map((side) => side.getBoundingClientRect().top)"
        assert browser.run(tops)[1] > browser.run(tops)[0]  # the two answers stand one below the other
