"""A run, a real browser, and the run's page in it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fewer.report.page import write_report
from tests.report.chromium import Chromium
from tests.report.hands import METHODS
from tests.report.runs import make_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_run(tmp_path_factory.mktemp("run"), {"dev": 40, "test": 25}, METHODS)
    write_report(folder)
    return folder


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with Chromium(tmp_path_factory.mktemp("profile")) as browser:
        browser.view(1280, 900)
        yield browser


@pytest.fixture
def page(browser: Chromium, run: Path) -> Iterator[Chromium]:
    browser.errors.clear()
    browser.requests.clear()
    browser.open(run / "report.html")
    yield browser
    assert browser.errors == []
    assert [address for address in browser.requests if not address.startswith(("file:", "blob:"))] == []
