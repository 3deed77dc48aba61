"""Debian's Chromium, driven by Selenium, with a few verbs so that the tests read like a visit."""

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,900",
)


class Browser:
    """A page in a browser."""

    def __init__(self, driver) -> None:
        self.driver = driver

    def open(self, path, fragment: str = "") -> None:
        self.driver.get("about:blank")
        self.driver.get_log("performance")
        self.driver.get(path.as_uri() + fragment)
        self.wait("return document.documentElement.dataset.ready === 'true'")

    def run(self, code: str, *arguments):
        return self.driver.execute_script(code, *arguments)

    def wait(self, code: str, seconds: float = 5.0):
        end = time.monotonic() + seconds
        while not (found := self.run(code)):
            assert time.monotonic() < end, f"never became true: {code}"
            time.sleep(0.02)
        return found

    def click(self, selector: str) -> None:
        self.driver.find_element("css selector", selector).click()

    def type(self, selector: str, text: str) -> None:
        self.driver.find_element("css selector", selector).send_keys(text)

    def choose(self, selector: str, name: str) -> None:
        code = """const select = document.querySelector(arguments[0]);
            const option = [...select.options].find((each) => each.text === arguments[1]);
            select.value = option.value;
            select.dispatchEvent(new Event('input', {bubbles: true}));"""
        self.run(code, selector, name)

    def count(self) -> str:
        return self.run("return document.getElementById('count').textContent")

    def ids(self) -> list[str]:
        return self.run("return [...document.querySelectorAll('#list .row .id')].map((each) => each.textContent)")

    def requests(self) -> list[str]:
        """Every address the page asked for since it was opened."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]

    def seconds_to_open(self, path) -> float:
        """From asking for the page until it is loaded and its script has run."""
        self.open(path)
        loaded = "performance.getEntriesByType('navigation')[0].loadEventEnd"
        self.wait(f"return {loaded} > 0")
        return self.run(f"return {loaded}") / 1000


@contextmanager
def start_browser(folder: Path) -> Iterator[Browser]:
    """A browser with an empty profile that saves downloads in `folder`, and that hears what its pages ask for."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*QUIET, f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(flag)
    options.add_experimental_option("prefs", {"download.default_directory": str(folder)})
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
