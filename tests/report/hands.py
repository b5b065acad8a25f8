"""What hands do with the page of a run in a browser."""

from typing import Any

import pytest

from tests.report.chromium import Chromium, find_chromium

METHODS = ("none", "sf", "dr", "zero", "mini_lstm")  # of the run
needs_chromium = pytest.mark.skipif(
    find_chromium() is None, reason="no chromium to show the page in (Debian: apt-get install chromium)"
)


def put(page: Chromium, control: str, value: object, event: str = "input", number: int = 0) -> None:
    """Give a control a value as a hand would."""
    page.run(
        f"""(() => {{ const control = document.querySelectorAll('{control}')[{number}]; control.value = '{value}';
        control.dispatchEvent(new Event('{event}')); }})()"""
    )


def value(page: Chromium, control: str) -> Any:
    return page.run(f"document.querySelector('{control}').value")
