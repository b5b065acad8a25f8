"""The page in a real browser: what it shows is what `fewer score` says. Skipped where there is no Chromium."""

import random
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fewer.cli.main import app
from fewer.evaluation.alignment import align
from fewer.evaluation.network import Edit
from fewer.evaluation.normalise import load_normaliser
from fewer.evaluation.transcripts import Ranking, load_pairs
from fewer.evaluation.wer import Errors, percent, score
from fewer.files import read_json, write_json
from fewer.report.page import write_report
from fewer.search.nbest import Header, Hypothesis, NBest, read_header, read_nbest, write_nbest
from tests.report.chromium import Chromium
from tests.report.hands import METHODS, needs_chromium, put, value
from tests.report.runs import TERMS, make_run, make_telephone_run, random_lists

pytestmark = needs_chromium


def choose(page: Chromium, legend: str, value: str) -> None:
    page.run(
        f"""[...document.querySelectorAll('#explore fieldset')]
        .find(set => set.querySelector('legend').textContent === '{legend}')
        .querySelector('input[value="{value}"]').click()"""
    )


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
