import base64
import hashlib
import html
import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fewer.cli.main import app
from fewer.errors import FewerError
from fewer.report.page import make_page, write_report
from fewer.tuning.surface import Surface
from tests.report.runs import HOSTILE, make_hostile_run, make_run
from tests.report.unpacking import Unpacked


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("run"), {"dev": 12, "test": 8}, ("none", "sf", "zero"), step=0.1)


@pytest.fixture(scope="module")
def page(run: Path) -> str:
    return make_page(run)


def bare(text: str) -> str:
    """The page without its own script, style and data."""
    return re.sub(r"<(script|style)\b.*?</\1>", "", text, flags=re.S)


def test_the_page_loads_nothing(page: str) -> None:
    assert not re.search(r"(src|srcset|action|data)\s*=\s*[\"']?\w", bare(page))
    assert set(re.findall(r'href="([^"]*)"', page)) <= {f"#{name}" for name in re.findall(r'id="([\w-]+)"', page)}
    assert "url(" not in page
    assert "@import" not in page
    assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|sendBeacon|importScripts|eval)\b", page)


def test_only_the_pages_own_script_and_style_may_run(page: str) -> None:
    policy = html.unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', page).group(1))  # type: ignore[union-attr]
    assert policy.startswith("default-src 'none'")
    for tag, what in (("script", "script-src"), ("style", "style-src")):
        texts = re.findall(rf"<{tag}>(.*?)</{tag}>", page, flags=re.S)
        digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts]
        allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
        assert f"{what} {allowed};" in policy
    assert "unsafe" not in policy


def test_the_table_needs_no_script(page: str) -> None:
    text = bare(page)
    assert re.findall(r'<th scope="row">([^<]*)<', text) == ["None", "Shallow fusion", "zero"]
    assert "<noscript><p" in text
    assert text.count(">loading…<") == 6
    assert "@media (scripting: none) { .pending" in page  # without scripts nothing says "loading…" forever
    assert "tuned on †" in text
    assert "1 of 25 test transcripts are in the language model&#x27;s text" in text


def test_the_headline_names_the_best_method_by_the_set_that_was_tuned_on(tmp_path: Path) -> None:
    def row(method: str, tuned: float, test: float, p: float | None) -> dict[str, object]:
        return {
            "method": method,
            "name": method.upper(),
            "tune_wer": tuned,
            "wer": {"test": {"wer": test, "p_vs_sf": p}},
        }

    rows = [row("sf", 8.0, 10.0, None), row("zero", 6.0, 9.0, 0.3), row("dr", 7.0, 5.0, 0.001)]
    value = {"title": "T", "tuned_on": "dev", "sets": ["test"], "rows": rows}
    (tmp_path / "results.json").write_text(json.dumps(value))
    text = re.sub(r"<[^>]*>", "", bare(make_page(tmp_path)))
    assert "the best method is ZERO" in text  # though another one was luckier on the test set
    assert "10 % fewer errors than sf (10.00 %); the difference may be chance" in text
    assert "To be used: ZERO, the best on dev." in text


def test_a_set_on_which_the_lm_does_harm_does_not_look_like_a_success(tmp_path: Path) -> None:
    def row(method: str, tuned: float, *rates: tuple[float, float | None]) -> dict[str, object]:
        wer = {name: {"wer": rate, "p_vs_sf": p, "p_vs_none": p} for name, (rate, p) in zip("ab", rates, strict=True)}
        return {"method": method, "name": method, "tune_wer": tuned, "wer": wer, "converged": method != "zero"}

    rows = [row("none", 30.0, (28.0, None), (28.0, None)), row("sf", 20.0, (20.0, 0.001), (90.0, 0.001))]
    rows.append(row("zero", 15.0, (14.0, 0.001), (70.0, 0.001)))
    value = {"title": "T", "tuned_on": "dev", "sets": ["a", "b"], "rows": rows}
    (tmp_path / "results.json").write_text(json.dumps(value))
    page = make_page(tmp_path)
    gain, harm = re.findall(r'<li class="(\w*)">[ab]<strong>(.*?)</li>', page)
    assert (gain[0], harm[0]) == ("good", "bad")
    assert "50 % fewer errors than no LM (28.00 %)" in gain[1]
    assert "30 % fewer errors than sf (20.00 %)" in gain[1]
    assert "150 % more errors than no LM (28.00 %)" in harm[1]
    assert "Not converged within the decodes of tuning: zero." in page


def test_the_data_hold_surfaces_curves_and_attention(run: Path, page: str) -> None:
    data = Unpacked.of_page(page)
    surface = Surface.load(run / "tuning" / "zero" / "surface.npz")
    packed = data.value["surfaces"]["zero"]["surface"]
    assert data.arrays[packed["errors"]].tolist() == surface.errors.reshape(-1).tolist()
    assert packed["words"] == surface.words.flat[0]
    assert packed["axes"][0] == surface.axes[0].tolist()
    tune = json.loads((run / "tuning" / "zero" / "tune.json").read_text())
    assert data.value["surfaces"]["zero"]["chosen"] == tune["parameters"]
    assert len(data.value["surfaces"]["zero"]["trials"]) == tune["decodes"]
    assert [curve["name"] for curve in data.value["curves"]] == ["aed", "density_ratio", "lm"]
    assert len(data.value["curves"][0]["series"]["dev"]) == 30
    attention = json.loads((run / "attention.json").read_text())["utterances"][0]
    first = data.value["attention"][0]
    levels = data.arrays[first["weights"]].reshape(len(first["labels"]), first["frames"])
    assert levels.tolist() == [[round(255 * weight) for weight in row] for row in attention["weights"]]


def test_the_same_run_gives_the_same_page(run: Path, page: str) -> None:
    assert make_page(run) == page


def test_texts_from_data_are_never_markup(tmp_path: Path) -> None:
    page = make_page(make_hostile_run(tmp_path))
    assert "<img" not in page
    assert page.count("</script>") == 3
    assert html.escape(HOSTILE) in page
    assert Unpacked.of_page(page).value["title"] == HOSTILE


def test_a_run_with_results_alone_has_a_page(tmp_path: Path, run: Path) -> None:
    (tmp_path / "results.json").write_text((run / "results.json").read_text())
    data = Unpacked.of_page(make_page(tmp_path))
    assert data.value["sets"] == []
    assert data.value["surfaces"] == {}


def test_wrong_folders_are_explained(tmp_path: Path) -> None:
    with pytest.raises(FewerError, match=r"no results\.json"):
        write_report(tmp_path)
    with pytest.raises(FewerError, match="not a folder"):
        write_report(tmp_path / "nowhere")


def test_attention_of_another_shape_is_explained(tmp_path: Path, run: Path) -> None:
    (tmp_path / "results.json").write_text((run / "results.json").read_text())
    wrong = {"utterances": [{"id": "u7", "text": "a b", "labels": ["a", "b"], "weights": [[1.0]]}]}
    (tmp_path / "attention.json").write_text(json.dumps(wrong))
    with pytest.raises(FewerError, match="utterance u7 has 2 labels"):
        make_page(tmp_path)


def test_the_command_writes_page_and_tables(run: Path, tmp_path: Path) -> None:
    out, tables = tmp_path / "page.html", tmp_path / "tables"
    answer = CliRunner().invoke(app, ["report", str(run), "--out", str(out), "--tables", str(tables), "--paper", "2"])
    assert answer.exit_code == 0, answer.output
    assert answer.stdout.strip() == str(out)
    assert "table 2 of Zeineldeen" in out.read_text()
    assert sorted(path.name for path in tables.iterdir()) == ["table.csv", "table.json", "table.md", "table.tex"]
