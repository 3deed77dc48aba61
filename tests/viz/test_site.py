"""The site: every page can be reached, it builds offline without a warning, and a browser finds nothing amiss."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from page_browser import CHROMIUM, DRIVER, start_browser

ROOT = Path(__file__).parents[2]
NARROW = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    listed = re.findall(r": (\S+\.md)$", navigation, re.MULTILINE)
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")]
    assert sorted(listed) == sorted(pages)
    assert yaml.safe_load("nav:\n" + navigation)["nav"][0] == {"Start here": "index.md"}


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    for package in ("material", "mkdocstrings", "mkdocstrings_handlers.python"):
        pytest.importorskip(package, reason="no mkdocs: pip install 'hf-pct[docs]'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    build = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True
    )
    assert build.returncode == 0, build.stderr
    return folder


def test_the_site_builds_without_a_warning(site):
    page = (site / "reference" / "python.html").read_text(encoding="utf-8")
    assert "count_flips" in page
    assert page.count("Examples:") > 50
    assert page.count('<span class="gp">') > page.count("Examples:"), "examples are shown as code"
    assert "<blockquote>" not in page


@pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="no Chromium on this machine: make test-browser")
def test_a_visit_needs_no_network_and_fits_a_phone(site, tmp_path):
    pytest.importorskip("selenium.webdriver", reason="no selenium: pip install selenium, or make test-browser")
    pages = sorted(page for page in site.rglob("*.html") if page.name != "404.html")
    with start_browser(tmp_path) as browser:
        browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", NARROW)
        for page in pages:
            browser.driver.get(page.as_uri())
            assert browser.run("return document.querySelector('input.md-search__input') !== null"), page.name
            widths = "return [document.documentElement.scrollWidth, window.innerWidth]"
            content, window = browser.run(widths)
            assert content <= window == NARROW["width"], page.name
        outside = [url for url in browser.requests() if url.startswith(("http:", "https:", "ws:"))]
    assert not outside
