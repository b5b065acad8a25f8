"""The page in a real browser, on several screens, and with strangers' texts. Skipped where there is no Chromium."""

import contextlib
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fewer.report.page import _hash, write_report
from tests.report.chromium import Chromium
from tests.report.hands import METHODS, needs_chromium, put, value
from tests.report.runs import HOSTILE, make_hostile_run

pytestmark = needs_chromium
PAYLOADS = (
    "<script>window.hacked1 = 1</script>",
    "<img src=x onerror='window.hacked2 = 1'>",
    "<svg onload='window.hacked3 = 1'></svg>",
    "<iframe srcdoc='<script>parent.hacked4 = 1</script>'></iframe>",
    "<a class=payload href='javascript:void(window.hacked5 = 1)'>x</a>",
    "<details open ontoggle='window.hacked6 = 1'>x</details>",
    "<iframe src='javascript:parent.hacked7 = 1'></iframe>",
    "<img src='AWAY/img'><link rel=stylesheet href='AWAY/css'><iframe src='AWAY/frame'></iframe>",
    "<style>body { background: url('AWAY/style') }</style><object data='AWAY/object'></object>",
    "<script src='AWAY/script'></script><audio src='AWAY/audio'></audio>",
)  # what a hostile transcript may hold


def test_texts_from_data_are_shown_as_they_are(browser: Chromium, tmp_path: Path) -> None:
    browser.errors.clear()
    browser.open(write_report(make_hostile_run(tmp_path)))
    browser.run("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    put(browser, ".toolbar select", "all", "change")
    assert browser.run("document.documentElement.dataset.ready") == "yes"
    assert browser.run("window.hacked === undefined")
    assert browser.run("document.querySelectorAll('main img, main script, main iframe').length") == 0
    assert browser.run("document.querySelector('h1').textContent") == HOSTILE
    assert browser.run("document.querySelector('.utterances code').textContent").startswith(HOSTILE)
    browser.view(360, 740, phone=True)
    assert browser.run("document.documentElement.scrollWidth") <= 360  # long words break
    browser.view(1280, 900)
    assert browser.errors == []


@pytest.mark.parametrize("policy", [True, False])
def test_markup_that_got_into_the_page_would_run_nothing_and_load_nothing(
    browser: Chromium, run: Path, tmp_path: Path, policy: bool
) -> None:
    """Were texts not escaped, the policy would still hold; without the policy the payloads do their work."""
    page = (run / "report.html").read_text()
    if not policy:
        page, count = re.subn(r"<meta http-equiv=.Content-Security-Policy[^>]*>", "", page)
        assert count == 1
    with listening() as (address, asked):
        payloads = "".join(PAYLOADS).replace("AWAY", address)
        (tmp_path / "report.html").write_text(page.replace("<main", f"{payloads}<main", 1))
        browser.open(tmp_path / "report.html")
        browser.run("document.querySelectorAll('.payload').forEach(one => one.click())")
        browser.run("new Promise(resolve => setTimeout(resolve, 500))")
        ran = set(browser.run("Object.keys(window).filter(name => name.startsWith('hacked'))"))
    if policy:
        assert (ran, asked) == (set(), [])
    else:
        assert len(ran) >= 5
        assert len(asked) >= 5


@contextlib.contextmanager
def listening() -> Iterator[tuple[str, list[str]]]:
    """A server: its address, and what it was asked for."""
    asked = list[str]()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


def test_a_run_with_results_alone_says_what_is_missing(browser: Chromium, run: Path, tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text((run / "results.json").read_text())
    browser.errors.clear()
    browser.open(write_report(tmp_path))
    assert browser.run("document.documentElement.dataset.ready") == "yes"
    assert browser.run("document.querySelectorAll('.empty').length") == 5
    assert browser.run("document.querySelectorAll('#scatter .dot').length") == 3
    assert browser.errors == []


def test_light_and_dark_follow_the_system_and_the_button(page: Chromium) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    page.view(1280, 900, dark=False)
    light = page.run(paper)
    page.view(1280, 900, dark=True)
    dark = page.run(paper)
    assert light != dark
    page.run("document.getElementById('theme').click()")
    assert page.run(paper) == light
    page.run("document.getElementById('theme').click(); localStorage.removeItem('fewer-theme')")
    page.view(1280, 900, dark=False)


def test_a_phone_shows_it_without_scrolling_sideways(page: Chromium) -> None:
    page.view(360, 740, phone=True)
    assert page.run("document.documentElement.scrollWidth") <= 360
    page.view(1280, 900)


def test_on_a_phone_the_table_is_compact_and_the_navigation_shows_that_it_scrolls(page: Chromium) -> None:
    page.view(360, 740, phone=True)
    try:
        assert page.run("document.querySelector('.results').offsetHeight") < 75 * (len(METHODS) + 1)
        heads = "[...document.querySelectorAll('.results thead th')].filter(head => head.offsetWidth)"
        assert page.run(f"{heads}.map(head => head.textContent)") == ["Method", "tuned on †dev", "test"]
        names = page.run("[...document.querySelectorAll('.results tbody th')].map(head => head.innerText)")
        assert [name.splitlines()[0] for name in names][:3] == ["None", "Shallow fusion", "Density ratio"]
        assert "λ1 " in names[1]
        assert "λ2 " in names[2]
        nav = "document.querySelector('nav')"
        page.wait(f"{nav}.className === 'more'")
        page.run(f"{nav}.scrollTo({{left: 60, behavior: 'instant'}})")
        page.wait(f"{nav}.className.includes('before')")
        page.run(f"{nav}.scrollTo({{left: 9999, behavior: 'instant'}})")
        page.wait(f"{nav}.className === 'before'")
    finally:
        page.view(1280, 900)


def test_a_browser_that_cannot_read_the_script_says_so(browser: Chromium, run: Path, tmp_path: Path) -> None:
    page = (run / "report.html").read_text(encoding="utf-8")
    start = page.index('\n"use strict";')
    script = page[start : page.index("</script>", start)]
    broken = script + "\nclass {"  # what an old browser makes of new syntax
    page = page.replace(_hash(script), _hash(broken)).replace(script, broken)
    (tmp_path / "old.html").write_text(page, encoding="utf-8")
    browser.send("Page.navigate", url=(tmp_path / "old.html").as_uri())
    browser.wait("document.querySelector('.pending')?.textContent.startsWith('This part needs a newer browser')")
    browser.errors.clear()


def test_sliders_and_choices_can_be_reached_by_keyboard(page: Chromium) -> None:
    page.run("document.getElementById('scale-lm').focus()")
    before = float(value(page, "#scale-lm-box"))
    for kind in ("keyDown", "keyUp"):
        page.send("Input.dispatchKeyEvent", type=kind, key="ArrowRight", code="ArrowRight", windowsVirtualKeyCode=39)
    assert float(value(page, "#scale-lm-box")) == pytest.approx(before + 0.01)
    unnamed = page.run(
        """[...document.querySelectorAll('main input, main select, main button')].filter(n => !n.labels?.length
        && !n.getAttribute('aria-label') && !n.textContent.trim()).length"""
    )
    assert unnamed == 0
