"""Closer looks at the pages in a real browser, wide and as a phone of 390 pixels has them."""

import json
import time

import numpy as np
import pytest
from page_browser import CHROMIUM, DRIVER
from page_reports import NASTY, curve_rows, small_report

from hf_pct import GateConfig, Predictions, check_gate, compare, compare_several
from hf_pct.flips.choice.choose import Candidate, choose
from hf_pct.flips.choice.contract import Contract
from hf_pct.flips.choice.curve import AlphaCurve
from hf_pct.flips.several.candidates import CandidatesReport
from hf_pct.viz.page.candidates import candidates_page
from hf_pct.viz.page.write import write_page

pytest.importorskip("selenium.webdriver", reason="no selenium: pip install selenium, or make test-browser")
pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="no Chromium on this machine: make test-browser")

WIDE = {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False}
PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
CLASSES = [f"intent_with_a_long_name_{number:02d}" for number in range(45)]


def answers(seed, rows=900, right=0.95):
    """45 classes, most of them rare, so that their intervals go beyond the scale."""
    rng = np.random.default_rng(0)
    labels = np.concatenate([np.arange(45), (4 * rng.random(rows - 45)).astype(int)])
    rng = np.random.default_rng(seed)
    given = np.where((rng.random(rows) < right) | (labels >= 4), labels, rng.integers(0, 45, rows))
    names = np.array(CLASSES)
    return Predictions(list(range(rows)), names[labels].tolist(), names[given].tolist(), label_names=CLASSES)


@pytest.fixture(scope="module")
def pages(folder):
    """One page of each kind."""
    many = compare(answers(1), answers(2))
    gate = check_gate(many, GateConfig(max_nfr=0.01, max_class_nfr=0.5))
    names = ["a", f"b {NASTY}", "a_long_file_name_of_a_candidate_model.parquet"]
    several = compare_several(answers(1), [answers(seed) for seed in (2, 3, 4)], names)
    judged = check_gate(several, GateConfig(max_nfr=0.2, max_nfr_upper=0.5))
    update = folder / "chosen.html"
    update.write_text(candidates_page(*_choice(), "a: the fewest negative flips."), encoding="utf-8")
    small = small_report()
    return {
        "flips": write_page(folder / "many.html", many, gate=gate),
        "curve": write_page(folder / "curve.html", small, curve=curve_rows()),
        "candidates": write_page(folder / "candidates.html", several, gate=judged),
        "update": update,
        "several": several,
    }


def _choice():
    rng = np.random.default_rng(0)
    old = rng.random(200) < 0.8
    alphas = [0.0, 0.25, 0.5, 0.75, 1.0]
    candidates = []
    for name in ("plain", f"light {NASTY}"):
        new = np.where(rng.random(200) < 0.8, old, rng.random(200) < 0.9)
        correct = np.stack([np.where(rng.random(200) < alpha, old, new) for alpha in alphas])
        candidates.append(
            Candidate(name, AlphaCurve(np.array(alphas), old_correct=old, correct=correct), plain=name == "plain")
        )
    choice = choose(candidates, Contract(margin=0.05))
    return choice, choice.best


@pytest.fixture
def sized(browser):
    def size(metrics):
        browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        return browser

    yield size
    browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize("kind", ["flips", "curve", "candidates", "update"])
def test_on_a_phone_nothing_spills(sized, pages, kind):
    browser = sized(PHONE)
    if kind == "update":  # it has no script that says when it is ready
        browser.driver.get(pages[kind].as_uri())
    else:
        browser.open(pages[kind])
    assert browser.run("return document.documentElement.scrollWidth") <= PHONE["width"]
    spilling = browser.run(
        """return [...document.querySelectorAll("header *, main *")].filter((each) =>
            !each.closest(".scroll, .list, .hidden, svg") && each.getBoundingClientRect().right > innerWidth + 1)
            .map((each) => each.outerHTML.slice(0, 80));"""
    )
    assert spilling == []


CUT = """return [...document.querySelectorAll(".scroll")].filter((box) => box.querySelector("tbody"))
    .flatMap((box) => { const end = box.getBoundingClientRect().top + box.clientTop + box.clientHeight;
        return [...box.querySelectorAll("tbody tr")].map((row) => row.getBoundingClientRect())
            .filter((row) => row.top < end - 1 && row.bottom > end + 1).map((row) => [row.bottom, end]); });"""


@pytest.mark.parametrize("metrics", [WIDE, PHONE], ids=["wide", "phone"])
def test_tables_and_the_list_end_between_two_rows(sized, pages, metrics):
    browser = sized(metrics)
    browser.open(pages["flips"])
    assert browser.run(CUT) == []
    more = browser.run("return document.querySelector('#classes .more').textContent")
    shown = browser.run(
        """const bottom = (each) => each.getBoundingClientRect().bottom;
        const box = document.querySelector("#classes .scroll");
        return [...box.querySelectorAll("tbody tr")].filter((row) => bottom(row) <= bottom(box) + 1).length;"""
    )
    rows = browser.run("return document.querySelectorAll('#classes tbody tr').length")
    assert more == f"{rows - shown} more below: scroll in the table."
    browser.click("#classes thead th:nth-child(2) button")  # sorted anew, rows of other heights stand there
    assert browser.run(CUT) == []
    height = "return document.getElementById('list').clientHeight"
    row = browser.run("return document.querySelector('#list .row').getBoundingClientRect().height")
    assert browser.run(height) % row == pytest.approx(0, abs=0.5)


def test_an_interval_that_goes_beyond_the_scale_has_a_mark(sized, pages):
    browser = sized(WIDE)
    browser.open(pages["flips"])
    marks = browser.run("return document.querySelectorAll('#classes .whisker .cut').length")
    rows = browser.run("return document.querySelectorAll('#classes .whisker').length")
    assert 0 < marks < rows


def test_what_filters_looks_like_a_control(sized, pages):
    browser = sized(WIDE)
    browser.open(pages["flips"])
    look = "const style = getComputedStyle(document.querySelector(arguments[0])); return style[arguments[1]];"
    for selector in (".kinds label", "#class", "#search", "#clear", "#order"):
        assert browser.run(look, selector, "borderTopStyle") == "solid", selector
    for selector in (".kinds label", ".pick", "#clear"):
        assert browser.run(look, selector, "cursor") == "pointer", selector
    assert "underline" in browser.run(look, ".pick", "textDecorationLine")


def test_candidates_are_text_and_their_json_is_a_report_again(sized, pages, folder):
    browser = sized(WIDE)
    browser.open(pages["candidates"])
    assert [url for url in browser.requests() if not url.startswith(("data:", "file:"))] == []
    assert browser.run("return document.images.length") == 0
    assert NASTY in browser.run("return document.querySelector('#candidates').textContent")
    assert browser.run("return document.querySelectorAll('#scatter circle title').length") == 3
    assert browser.run("return document.querySelector('#gate li') !== null")
    ground = "return getComputedStyle(document.body).backgroundColor"
    before = browser.run(ground)
    browser.click("#theme")
    assert browser.run(ground) != before
    browser.click("#download")
    target, end = folder / "candidates.json", time.monotonic() + 10
    while not (target.exists() and target.stat().st_size):  # a browser keeps the name before it writes
        assert time.monotonic() < end, "the download did not arrive"
        time.sleep(0.05)
    again = CandidatesReport.from_dict(json.loads(target.read_text(encoding="utf-8")))
    assert again.to_dict() == pages["several"].to_dict()
    assert not again.edited
    assert [entry for entry in browser.driver.get_log("browser") if entry["level"] == "SEVERE"] == []
