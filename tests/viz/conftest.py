"""One browser per test module, which opens the pages of one folder."""

import pytest
from page_browser import start_browser


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def browser(folder):
    with start_browser(folder) as started:
        yield started
