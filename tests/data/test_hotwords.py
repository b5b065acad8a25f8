"""Lists of names and terms."""

from pathlib import Path

import pytest

from fewer.data.hotwords import Term, read_terms, spellings, variants
from fewer.data.subword_nmt import SubwordNmtTokenizer
from fewer.data.tokenizers import CharacterTokenizer, WordTokenizer
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


def test_a_term_of_one_case_may_be_written_in_any() -> None:
    assert variants("new york") == {"new york", "New york", "New York", "NEW YORK"}
    assert variants("NATO") == {"NATO", "nato", "Nato"}
    assert variants("iPhone") == {"iPhone", "IPhone"}


def test_a_term_is_spelled_as_at_the_start_and_as_behind_a_word(tmp_path: Path) -> None:
    path = written(tmp_path / "words.txt", "AB\t2\n")
    assert spellings(path, CharacterTokenizer(["</s>", " ", "A", "B"])) == {(2, 3): 2.0, (1, 2, 3): 2.0}
    assert spellings(path, SubwordNmtTokenizer(["</s>", "A@@", "B"], [], False)) == {(1, 2): 2.0}
    with pytest.raises(FewerError, match=r"line 1: the recogniser's vocabulary cannot spell 'AB'"):
        spellings(path, WordTokenizer(["</s>", "<unk>", "A"]))
