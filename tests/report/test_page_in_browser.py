"""The page in a real browser: what it shows is what `fewer score` says. Skipped where there is no Chromium."""

import contextlib
import random
import re
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fewer.cli.main import app
from fewer.evaluation.alignment import align
from fewer.evaluation.network import Edit
from fewer.evaluation.normalise import load_normaliser
from fewer.evaluation.transcripts import Ranking, load_pairs
from fewer.evaluation.wer import Errors, percent, score
from fewer.files import read_json, write_json
from fewer.report.page import _hash, write_report
from fewer.search.nbest import Header, Hypothesis, NBest, read_header, read_nbest, write_nbest
from tests.report.chromium import Chromium, find_chromium
from tests.report.runs import HOSTILE, TERMS, make_hostile_run, make_run, make_telephone_run, random_lists

pytestmark = pytest.mark.skipif(
    find_chromium() is None, reason="no chromium to show the page in (Debian: apt-get install chromium)"
)
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
METHODS = ("none", "sf", "dr", "zero", "mini_lstm")


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


def choose(page: Chromium, legend: str, value: str) -> None:
    page.run(
        f"""[...document.querySelectorAll('#explore fieldset')]
        .find(set => set.querySelector('legend').textContent === '{legend}')
        .querySelector('input[value="{value}"]').click()"""
    )


def put(page: Chromium, control: str, value: object, event: str = "input", number: int = 0) -> None:
    """Give a control a value as a hand would."""
    page.run(
        f"""(() => {{ const control = document.querySelectorAll('{control}')[{number}]; control.value = '{value}';
        control.dispatchEvent(new Event('{event}')); }})()"""
    )


def value(page: Chromium, control: str) -> Any:
    return page.run(f"document.querySelector('{control}').value")


def shown(page: Chromium) -> tuple[str, int, int]:
    """WER as written, errors and words."""
    text, errors, words = page.run(
        "(({ textContent, dataset }) => [textContent, dataset.errors, dataset.words])(document.getElementById('wer'))"
    )
    return text, int(errors), int(words)


def scored(path: Path, ranking: Ranking | None) -> tuple[str, int, int]:
    """The same by what is behind `fewer score PATH --lm-scale … --ilm-scale …`."""
    pairs = load_pairs(path, ranking=ranking)
    errors: Errors = score(pairs.refs, pairs.hyps, pairs.speakers).errors
    return f"{errors.wer:.2f}", errors.total, errors.words


def scored_by_command(path: Path, out: Path, scales: dict[str, float], exponent: float) -> tuple[str, int, int]:
    """The same by `fewer score` itself."""
    options = [text for term, scale in scales.items() for text in (f"--{term}-scale", str(abs(scale)))]
    answer = CliRunner().invoke(app, ["score", str(path), *options, "--exponent", str(exponent), "--json", str(out)])
    assert answer.exit_code == 0, answer.output
    found = read_json(out)
    errors, words = found["sub"] + found["del"] + found["ins"], found["words"]
    return f"{percent(errors, words):.2f}", errors, words


def test_wer_at_random_slider_positions_is_what_score_gives(page: Chromium, run: Path, tmp_path: Path) -> None:
    generator = random.Random(5)
    seen = set()
    for position in range(20):
        method, name = METHODS[position % len(METHODS)], "test" if position % 4 == 3 else "dev"
        choose(page, "Set", name)
        choose(page, "Method", method)
        scales = {}
        if method != "none":
            scales["lm"] = round(generator.uniform(0, 1.5), 2)
            put(page, "#scale-lm", f"{scales['lm']:.2f}")
        if method not in ("none", "sf"):
            scales["ilm"] = -round(generator.uniform(0, 1.5), 2)
            put(page, "#scale-ilm", f"{-scales['ilm']:.2f}")
        step = generator.randrange(31)
        put(page, "#length", step)
        exponent = float(page.run("document.getElementById('length-box').value"))
        assert exponent == round(0.05 * step, 2)
        folder = run / "pools" if name == "dev" else run / "decodes" / name
        expected = scored_by_command(folder / f"{method}.jsonl", tmp_path / "score.json", scales, exponent)
        assert shown(page) == expected, (method, name, scales, exponent)
        seen.add(expected)
    assert len(seen) > 10  # the positions do differ


def test_wer_of_a_run_with_a_length_reward_is_what_score_gives(browser: Chromium, tmp_path: Path) -> None:
    run = make_run(tmp_path, {"dev": 15}, ("sf", "zero"), length="reward", step=0.1)
    browser.open(write_report(run))
    choose(browser, "Method", "zero")
    generator = random.Random(6)
    for _ in range(5):
        lm, ilm, reward = (round(generator.uniform(*ends), 2) for ends in ((0, 1.5), (0, 1.5), (-2, 4)))
        put(browser, "#scale-lm-box", str(lm), "change")
        put(browser, "#scale-ilm-box", str(ilm), "change")
        put(browser, "#length-box", str(reward), "change")
        ranking = Ranking({"lm": lm, "ilm": -ilm}, reward=reward)
        assert shown(browser) == scored(run / "pools" / "zero.jsonl", ranking)


def test_equal_scores_are_ranked_as_score_ranks_them(browser: Chromium, tmp_path: Path) -> None:
    pool = tmp_path / "pools" / "zero.jsonl"
    write_nbest(pool, Header(TERMS, {"aed": 1.0, "lm": 0.4, "ilm": -0.2}), random_lists(7, 40, 12))
    rows = [{"method": "zero", "name": "zero", "wer": {}}]
    write_json(tmp_path / "results.json", {"title": "Ties", "tuned_on": "dev", "sets": ["dev"], "rows": rows})
    browser.open(write_report(tmp_path))
    generator = random.Random(8)
    for _ in range(10):
        lm, ilm = (round(generator.uniform(0, 1.5), 2) for _ in range(2))
        put(browser, "#scale-lm", lm)
        put(browser, "#scale-ilm", ilm)
        assert shown(browser) == scored(pool, Ranking({"lm": lm, "ilm": -ilm}))


def test_rates_are_rounded_as_python_rounds_them(browser: Chromium, tmp_path: Path) -> None:
    ref = " ".join(f"w{n}" for n in range(800))
    hypothesis = Hypothesis(ref.replace("w7 ", "x "), (1,), {"aed": -1.0}, 2, -0.5)
    write_nbest(tmp_path / "pools" / "none.jsonl", Header(("aed",), {"aed": 1.0}), [NBest("u", (hypothesis,), ref)])
    rows = [{"method": "none", "name": "None", "wer": {}}]
    write_json(tmp_path / "results.json", {"title": "Ties", "tuned_on": "dev", "sets": ["dev"], "rows": rows})
    browser.open(write_report(tmp_path))
    assert shown(browser) == (f"{100 * 1 / 800:.2f}", 1, 800)  # 0.125, whose half goes to the even digit


def test_values_between_the_sliders_steps_can_be_typed(page: Chromium, run: Path) -> None:
    choose(page, "Set", "dev")
    choose(page, "Method", "zero")
    put(page, "#scale-lm-box", "0.12345", "change")
    put(page, "#scale-ilm-box", "99", "change")  # beyond the range: its end is taken
    assert page.run("document.getElementById('scale-ilm-box').value") == "1.50"
    assert page.run("document.getElementById('scale-lm-box').value") == "0.12345"
    expected = scored(run / "pools" / "zero.jsonl", Ranking({"lm": 0.12345, "ilm": -1.5}))
    assert shown(page) == expected


def test_the_page_opens_on_a_set_that_was_not_tuned_on(page: Chromium, run: Path) -> None:
    chosen = page.run("[...document.querySelectorAll('#explore fieldset input:checked')].map(input => input.value)")
    assert chosen[0] == "test"
    header = read_header(run / "decodes" / "test" / f"{chosen[1]}.jsonl")
    ranking = Ranking(header.scales, header.length.exponent, header.length.reward)
    assert shown(page) == scored(run / "decodes" / "test" / f"{chosen[1]}.jsonl", ranking)


def test_the_scale_of_the_lm_comes_before_that_of_the_internal_lm(page: Chromium) -> None:
    choose(page, "Method", "zero")
    sliders = page.run("[...document.querySelectorAll('.slider input[type=range]')].map(input => input.id)")
    assert sliders == ["scale-lm", "scale-ilm", "length"]
    put(page, ".toolbar select", "all", "change")
    page.run("document.querySelector('.utterances details').open = true")
    page.wait("document.querySelector('.hypotheses') !== null")
    heads = page.run("[...document.querySelector('.hypotheses thead tr').children].map(head => head.textContent)")
    assert heads == ["", "score", "aed", "lm", "ilm", "labels", "errors"]


def test_a_tuned_point_that_is_not_the_lowest_is_marked(browser: Chromium, run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    for method, parameters in (("dr", {"lm": 0.0, "ilm": 1.5}), ("zero", {})):
        file = copy / "tuning" / method / "tune.json"
        facts = read_json(file)
        write_json(file, {**facts, "parameters": {**facts["parameters"], **parameters}, "converged": method != "zero"})
    browser.open(write_report(copy))
    marked = browser.run(
        """[...document.querySelectorAll('.thumb')].filter(thumb => thumb.querySelector('.unsettled'))
        .map(thumb => thumb.querySelector('b').textContent)"""
    )
    assert {"Density ratio", "zero"} <= set(marked)
    choose(browser, "Method", "dr")
    told = browser.run("document.querySelector('.picture .unsettled').textContent")
    assert told.startswith("Not converged. The tuned point has ")
    assert "which no decode has confirmed" in told


def test_the_page_opens_at_the_tuned_scales_and_returns_to_them(page: Chromium, run: Path) -> None:
    choose(page, "Set", "dev")
    pool = run / "pools" / "dr.jsonl"
    header = read_header(pool)
    tuned = scored(pool, Ranking(header.scales, header.length.exponent, header.length.reward))
    choose(page, "Method", "dr")
    assert shown(page) == tuned
    put(page, "#scale-lm", "1.5")
    assert shown(page) != tuned
    page.run("document.getElementById('reset').click()")
    assert shown(page) == tuned


def test_pressing_on_the_surface_moves_the_sliders(page: Chromium, run: Path) -> None:
    choose(page, "Set", "dev")
    choose(page, "Method", "mini_lstm")
    page.run("document.querySelector('.surface').scrollIntoView({behavior: 'instant'})")
    box = page.run(
        "(({ left, top, width, height }) => [left, top, width, height])"
        "(document.querySelector('.surface canvas').getBoundingClientRect())"
    )
    x, y = box[0] + 0.8 * box[2], box[1] + 0.4 * box[3]
    for kind in ("mousePressed", "mouseReleased"):
        page.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
    lm, ilm = (float(value(page, f"#scale-{term}-box")) for term in ("lm", "ilm"))
    assert (lm, ilm) == (pytest.approx(1.2, abs=0.03), pytest.approx(0.9, abs=0.03))
    exponent = float(value(page, "#length-box"))
    assert shown(page) == scored(run / "pools" / "mini_lstm.jsonl", Ranking({"lm": lm, "ilm": -ilm}, exponent))


def best_of(path: Path) -> dict[str, tuple[str, str]]:
    return {nbest.id: (nbest.ref or "", nbest.hypotheses[0].text) for nbest in read_nbest(path)}


def wrong_words(edits: tuple[Edit, ...]) -> set[int]:
    """Which words of the reference are wrong."""
    return {edit.position for edit in edits if edit.kind in "SD"}


def test_fixed_and_broken_words_are_counted(page: Chromium, run: Path) -> None:
    """Words of the reference; insertions are counted slot by slot."""
    expected = {}
    before = best_of(run / "decodes" / "test" / "sf.jsonl")
    for method in ("none", "dr", "zero", "mini_lstm"):
        fixed = broken = 0
        for id, (ref, hyp) in best_of(run / "decodes" / "test" / f"{method}.jsonl").items():
            old, new = align(ref, before[id][1]), align(ref, hyp)
            fixed += len(wrong_words(old) - wrong_words(new))
            broken += len(wrong_words(new) - wrong_words(old))
            for place in range(len(ref.split()) + 1):
                more = sum(e.kind == "I" and e.position == place for e in new)
                more -= sum(e.kind == "I" and e.position == place for e in old)
                fixed, broken = fixed + max(-more, 0), broken + max(more, 0)
        expected[method] = [f"−{broken}" if broken else "0", f"+{fixed}" if fixed else "0"]
    found = page.run(
        """[...document.querySelectorAll('.change summary')]
        .map(summary => [...summary.querySelectorAll('.number')].map(number => number.textContent))"""
    )
    assert found == list(expected.values())


def test_utterances_are_searched_sorted_and_aligned(page: Chromium, run: Path) -> None:
    choose(page, "Set", "test")
    choose(page, "Method", "zero")
    texts, other = best_of(run / "decodes" / "test" / "zero.jsonl"), best_of(run / "decodes" / "test" / "sf.jsonl")
    put(page, ".toolbar select", "all", "change")
    put(page, ".toolbar select", "errors", "change", 1)
    ids = page.run("[...document.querySelectorAll('.utterances > li')].map(li => li.dataset.id)")
    errors = [sum(edit.kind != "=" for edit in align(*texts[id])) for id in ids]
    assert errors == sorted(errors, reverse=True)
    wanted = ids[0]
    put(page, "#search", wanted)
    assert page.run("[...document.querySelectorAll('.utterances > li')].map(li => li.dataset.id)") == [wanted]
    lines = page.run(
        """[...document.querySelectorAll('.utterances .columns .column')]
        .map(column => [...column.children].map(word => word.textContent))"""
    )
    words = ["".join(f"{word} " for word in column if word not in "·∅").strip() for column in zip(*lines, strict=True)]
    ref, hyp = texts[wanted]
    assert words == ([ref, hyp] if other[wanted][1] == hyp else [ref, other[wanted][1], hyp])
    wrong = page.run("document.querySelectorAll('.utterances .columns .column > :last-child.wrong').length")
    assert wrong == errors[0]


def test_telephone_sets_are_scored_and_aligned_by_their_rules(browser: Chromium, tmp_path: Path) -> None:
    folder = make_telephone_run(tmp_path)
    write_report(folder)
    browser.errors.clear()
    browser.open(folder / "report.html")
    pairs = load_pairs(folder / "telephone.jsonl", normaliser=load_normaliser(f"glm:{folder / 'telephone.glm'}"))
    errors = score(pairs.refs, pairs.hyps, rules="hubscr").errors
    assert shown(browser) == (f"{errors.wer:.2f}", errors.total, errors.words)
    assert "in the table by eval.stm" in browser.run("document.querySelector('.controls .fine').textContent")
    put(browser, ".toolbar select", "all", "change")
    columns = browser.run(
        """[...document.querySelectorAll('.utterances > li')].map(li => [li.dataset.id, [...li.querySelectorAll(
        '.columns .column')].map(column => [...column.children].map(word => word.textContent.trim()))])"""
    )
    assert dict(columns) == {
        "sw-1": [["I", "I"], ["{ CAN NOT / CANNOT }", "CANNOT"], ["(%HESITATION)", "·"], ["GO", "GO"]],
        "sw-2": [["·", "WELL"], ["WE", "WE"], ["{ CAN NOT / CANNOT }", "CAN"], ["WOR-", "WORD"], ["NOW", "∅"]],
        "sw-3": [["%HESITATION", "∅"], ["YES", "YES"], ["·", "(%HESITATION)"]],
    }
    assert browser.errors == []


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
