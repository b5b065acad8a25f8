"""Lists of names and terms."""

import string
from pathlib import Path

import pytest
import torch

from fewer.data.hotwords import Term, read_terms, spellings, variants
from fewer.data.subword_nmt import SubwordNmtTokenizer
from fewer.data.tokenizers import CharacterTokenizer, WordTokenizer
from fewer.decoding.system import load_hotwords
from fewer.errors import FewerError


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_lines_hold_terms_and_perhaps_weights(tmp_path: Path) -> None:
    path = written(tmp_path / "words.txt", "# names\nQuilter\nNew  York\t2.5\n\nÆsop\t\n")
    assert read_terms(path) == [Term("Quilter", 1.0, 2), Term("New York", 2.5, 3), Term("Æsop", 1.0, 5)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\nb\tmuch\n", r"words\.txt, line 2: the weight 'much' is not a number above 0"),
        ("a\t-1\n", "line 1: the weight '-1' is not a number above 0"),
        ("\t2\n", "line 1: a weight without a term"),
        ("# none\n", "holds no terms"),
    ],
)
def test_what_is_no_list_of_terms_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(FewerError, match=message):
        read_terms(written(tmp_path / "words.txt", text))


def test_a_term_of_a_list_without_case_may_be_written_in_any() -> None:
    assert variants("new york", False) == {"new york", "New york", "New York", "NEW YORK"}
    assert variants("NATO", False) == {"NATO", "nato", "Nato"}


def test_a_term_of_a_list_with_case_is_written_as_it_is_or_begins_a_sentence() -> None:
    assert variants("NATO", True) == {"NATO"}
    assert variants("iPhone", True) == {"iPhone", "IPhone"}
    assert variants("myocardial infarction", True) == {"myocardial infarction", "Myocardial infarction"}


@pytest.mark.parametrize(
    ("listed", "rewarded", "not_rewarded"),
    [
        ("NATO\niPhone\nstent\n", ["NATO", "iPhone", "IPhone", "stent", "Stent"], ["nato", "Nato", "Iphone", "STENT"]),
        ("nato\nstent\n", ["NATO", "nato", "Nato", "STENT", "stent", "Stent"], ["sTENT", "nATO"]),
        ("NATO\nSTENT\n", ["NATO", "nato", "Nato", "STENT", "stent", "Stent"], ["sTENT", "nATO"]),
    ],
)
def test_the_case_of_a_list_decides_what_is_rewarded(
    tmp_path: Path, listed: str, rewarded: list[str], not_rewarded: list[str]
) -> None:
    tokenizer = CharacterTokenizer(["</s>", " ", ".", *string.ascii_letters])
    hotwords = load_hotwords(written(tmp_path / "words.txt", listed), tokenizer)

    def reward(text: str) -> float:
        labels = [*tokenizer.encode(text), tokenizer.end]
        scores = hotwords.log_probs(torch.tensor([labels]))[0]
        return float(scores[range(len(labels)), labels].sum())

    for word in rewarded:
        assert reward(word) >= len(word)  # at the start of a text, …
        assert reward(f"a {word}.") >= len(word)  # … and in a sentence
    for word in not_rewarded:
        assert reward(word) == reward(f"a {word}.") == 0.0


def test_a_term_is_spelled_as_at_the_start_and_as_behind_a_word(tmp_path: Path) -> None:
    path = written(tmp_path / "words.txt", "AB\t2\n")
    assert spellings(path, CharacterTokenizer(["</s>", " ", "A", "B"])) == {(2, 3): 2.0, (1, 2, 3): 2.0}
    assert spellings(path, SubwordNmtTokenizer(["</s>", "A@@", "B"], [], False)) == {(1, 2): 2.0}
    with pytest.raises(FewerError, match=r"line 1: the recogniser's vocabulary cannot spell 'AB'"):
        spellings(path, WordTokenizer(["</s>", "<unk>", "A"]))


def test_a_vocabulary_of_one_case_spells_a_list_with_case(tmp_path: Path) -> None:
    path = written(tmp_path / "words.txt", "Ab\n")
    assert spellings(path, CharacterTokenizer(["</s>", " ", "A", "B"])) == {(2, 3): 1.0, (1, 2, 3): 1.0}
