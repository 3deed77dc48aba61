"""The labelling page in a real browser: keyboard, saving a file, opening it again, and nothing from data runs."""

import csv
import time

import pyarrow as pa
import pytest
from page_browser import CHROMIUM, DRIVER

from hf_pct.flips.traffic.answers import Answers
from hf_pct.flips.traffic.differences import compare_traffic
from hf_pct.flips.traffic.labels import read_labels
from hf_pct.flips.traffic.plan import label_plan
from hf_pct.viz.page.labelling import render_labelling_page, write_labelling_page

pytest.importorskip("selenium.webdriver", reason="no selenium: pip install selenium, or make test-browser")
pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="no Chromium on this machine: make test-browser")

NASTY = '</script><img src=x onerror="document.title=\'pwned\'">, "quoted"\nsecond line'


@pytest.fixture(scope="module")
def traffic():
    ids = pa.array([f"r{index}" for index in range(6)] + [NASTY])
    texts = pa.chunked_array([pa.array([f"sentence {index}" for index in range(6)] + [NASTY])])
    columns = {"text": texts, "channel": pa.chunked_array([pa.array(["app"] * 7)])}
    old, new = pa.array(["pay"] * 7), pa.array(["pay", *["send"] * 5, NASTY])
    return compare_traffic(Answers(ids, old, None, columns), Answers(ids, new))


def press(browser, *keys):
    for key in keys:
        browser.type("body", key)


def saved_file(folder, name="labels.csv"):
    end = time.monotonic() + 10
    while not (folder / name).exists():
        assert time.monotonic() < end, list(folder.iterdir())
        time.sleep(0.05)
    return folder / name


def progress(browser):
    return browser.run("return document.getElementById('progress').textContent")


def test_label_by_keyboard_save_and_go_on(browser, folder, traffic):
    plan = label_plan(traffic, 10)
    page = write_labelling_page(folder / "label.html", plan)
    browser.open(page)
    assert progress(browser) == "0 of 6 labelled"
    press(browser, "1", "2", "3", "4")
    assert progress(browser) == "4 of 6 labelled, not saved yet"
    press(browser, "\ue012", "\ue017")  # left, delete: the last one again
    assert progress(browser) == "3 of 6 labelled, not saved yet"
    press(browser, "1", "s")
    path = saved_file(folder)
    assert progress(browser) == "4 of 6 labelled"
    rows = list(csv.DictReader(path.open(newline="")))
    assert [row["right"] for row in rows] == ["old", "new", "neither", "old", "", ""]
    assert [row["id"] for row in rows] == plan.table["id"].to_pylist()
    filled = read_labels(path, traffic)
    assert [label.right for label in filled.labels] == ["old", "new", "neither", "old"]
    assert not filled.notes
    ids, new, old = (traffic.differing[name].combine_chunks() for name in ("id", "old_answer", "new_answer"))
    swapped = compare_traffic(Answers(ids, old), Answers(ids, new))
    with pytest.raises(ValueError, match="planned for other answers"):
        read_labels(path, swapped)

    browser.open(page)
    browser.driver.find_element("css selector", "#load").send_keys(str(path))
    browser.wait("return document.getElementById('progress').textContent.startsWith('4 of 6')")
    assert browser.run("return document.getElementById('place').textContent") == "5 of 6"
    browser.click("[data-right=unsure]")
    assert progress(browser) == "5 of 6 labelled, not saved yet"
    press(browser, "s")


def test_data_is_text_and_nothing_is_asked_for(browser, folder, traffic):
    page = write_labelling_page(folder / "nasty.html", label_plan(traffic, 10))
    browser.open(page)
    for _ in range(6):
        press(browser, "\ue014")
        assert browser.run("return document.querySelectorAll('img').length") == 0
    assert browser.driver.title == "Who is right?"
    assert [url for url in browser.requests() if not url.startswith("file:")] == []
    errors = [entry for entry in browser.driver.get_log("browser") if entry["level"] == "SEVERE"]
    assert errors == []


def test_the_same_plan_gives_the_same_page(traffic):
    pages = {render_labelling_page(label_plan(traffic, 10)) for _ in range(2)}
    assert len(pages) == 1
    assert "http" not in pages.pop().replace("http-equiv", "")
