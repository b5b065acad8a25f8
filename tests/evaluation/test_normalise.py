"""Text normalisers."""

import importlib.util
import json
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewer.data.spelling import capitals, fold_space
from fewer.errors import FewerError
from fewer.evaluation.normalise import basic, load_normaliser

needs_transformers = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="Hugging Face transformers is not installed"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Don’t stop, Mr. O'Brien!", "DON'T STOP MR O'BRIEN"),
        ("'tis the boys' well-known café", "'TIS THE BOYS' WELL KNOWN CAFE"),
        ("a ' b '' c", "A B C"),
        ("Straße naïve", "STRASSE NAIVE"),
        ("", ""),
    ],
)
def test_librispeech_has_capitals_and_apostrophes_alone(text: str, expected: str) -> None:
    assert capitals(text) == expected


@given(st.text())
@settings(deadline=None, max_examples=100)
def test_librispeech_is_done_after_once(text: str) -> None:
    once = capitals(text)
    assert capitals(once) == once
    assert set(once) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZ' ")
    assert once == " ".join(once.split())


@given(st.text())
@settings(deadline=None, max_examples=100)
def test_none_folds_space_alone(text: str) -> None:
    normaliser = load_normaliser("none")
    assert normaliser.ref(text) == normaliser.hyp(text) == " ".join(text.split()) == fold_space(fold_space(text))


@needs_transformers
def test_english_is_whispers() -> None:
    normalise = load_normaliser("english").ref
    assert normalise("Um, Mr. Smith won't pay $20 — it's [noise] twenty-five colours.") == (
        "mister smith will not pay $20 it is 25 colours"
    )


@needs_transformers
def test_english_joins_spellings_that_a_table_gives(tmp_path: Path) -> None:
    (tmp_path / "normalizer.json").write_text(json.dumps({"colour": "color"}))
    for path in (tmp_path, tmp_path / "normalizer.json"):
        assert load_normaliser(f"english:{path}").hyp("The Colour") == "the color"
    (tmp_path / "other.json").write_text("[]")
    with pytest.raises(FewerError, match="expected a JSON object of spellings"):
        load_normaliser(f"english:{tmp_path / 'other.json'}")


def test_english_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers.models.whisper.english_normalizer", None)
    with pytest.raises(FewerError, match=r"pip install 'fewer\[hf\]'"):
        load_normaliser("english")


def test_glm_has_two_sides(tmp_path: Path) -> None:
    path = tmp_path / "x.glm"
    path.write_text(';;\nA => B\n;; INPUT_DEPENDENT_APPLICATION = "ctm"\nC => D\n')
    normaliser = load_normaliser(f"glm:{path}")
    assert (normaliser.ref("a c"), normaliser.hyp("a c"), normaliser.glm) == ("B C", "B D", True)


@pytest.mark.parametrize("name", ["upper", "glm", "glm:", "none:x", "english:"])
def test_unknown_names_are_an_error(name: str) -> None:
    with pytest.raises(FewerError, match="there are none, librispeech, basic, english"):
        load_normaliser(name)


def test_basic_leaves_letters_and_digits() -> None:
    basic = load_normaliser("basic")
    assert basic.ref("Où est-elle? (rires) [bruit] L’été 2024 !") == "où est elle l été 2024"


def test_basic_makes_every_mark_a_blank() -> None:
    text = "Déjà-vu, [noise] it\u2019s 5\u00a0% (quiet) e\u0301t\u00e9 \U0001f600 ＡＢ <unk>"
    slow = "".join(
        " " if unicodedata.category(sign)[0] in "MSP" else sign
        for sign in unicodedata.normalize("NFKC", "déjà-vu,  it\u2019s 5\u00a0%  e\u0301t\u00e9 \U0001f600 ａｂ ")
    )
    assert basic(text) == basic(text) == " ".join(slow.split())
