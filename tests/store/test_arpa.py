"""ARPA files: what is written comes back, and what is wrong is named with its line."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fewer.errors import FewerError
from fewer.store.arpa import arpa_words, read_arpa, write_arpa

GOOD = r"""made by hand

\data\
ngram 1=5
ngram 2=3
ngram 3=1

\1-grams:
-99 <s> -0.5
-1.0 </s>
-0.5 a -0.25
-0.7 b
-2 <unk>

\2-grams:
-0.1 <s> a -0.3
-0.2 a </s>
-0.4 a b

\3-grams:
-0.05 <s> a b

\end\
"""


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_is_read_over_its_own_words(tmp_path: Path) -> None:
    arpa = read_arpa(write(tmp_path / "x.arpa", GOOD))
    assert arpa.labels == ["</s>", "<unk>", "a", "b"]
    assert (arpa.end, arpa.unknown) == (0, 1)
    assert arpa.orders[1].labels.tolist() == [[0, 2], [2, 0], [2, 3]]
    np.testing.assert_allclose(arpa.orders[0].log_probs / np.log(10), [-1, -2, -0.5, -0.7])
    np.testing.assert_allclose(arpa.orders[0].backoffs / np.log(10), [-0.5, 0, -0.25, 0])  # <s> gives </s> its back-off
    np.testing.assert_allclose(arpa.orders[1].backoffs / np.log(10), [-0.3, 0, 0])
    assert arpa.first_lines == [9, 16, 21]


def test_a_file_is_read_over_given_labels_and_unknown_ones_take_unk(tmp_path: Path) -> None:
    arpa = read_arpa(write(tmp_path / "x.arpa", GOOD), ["b", "z", "a", "the end"], end=3)
    np.testing.assert_allclose(arpa.orders[0].log_probs / np.log(10), [-0.7, -2, -0.5, -1])
    assert arpa.orders[2].labels.tolist() == [[3, 2, 0]]
    assert arpa.unknown is None


labels = st.lists(st.text(st.characters(codec=None), max_size=4), min_size=1, max_size=8)


@given(labels, st.data())
def test_any_labels_are_spelled_differently_and_without_white_space(names: list[str], data: st.DataObject) -> None:
    end = data.draw(st.integers(0, len(names) - 1))
    words = arpa_words(names, end)
    assert len(set(words)) == len(names)
    assert words[end] == "</s>"
    for word in words:
        assert word.split() == [word]
        assert word.encode()
    assert all(word != "<s>" for word in words)


def test_labels_that_print_keep_their_spelling() -> None:
    assert arpa_words(["</s>", "▁the", "é", "Ġhi", "<unk>", " ", "\n", "a b", "", "\\n", "<s>", "é"], 0) == [
        "</s>", "▁the", "é", "Ġhi", "<unk>", r"\x20", r"\x0a", r"a\x20b", r"\e", r"\x5cn", r"\x3cs>", r"é\#11",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["x.arpa", "x.arpa.gz"])
def test_what_is_written_comes_back(tmp_path: Path, name: str) -> None:
    names = [" ", "</s>", "end", "\ud800", "▁a"]
    rng = np.random.default_rng(0)
    orders = [
        (np.arange(5)[:, None], -rng.random(5), -rng.random(5)),
        (np.array([[2, 0], [2, 4], [0, 2], [4, 1]]), -rng.random(4), -rng.random(4)),
        (np.array([[2, 4, 1], [4, 1, 2]]), -rng.random(2), np.zeros(2)),
    ]
    orders[1][2][2] = 0  # nothing follows the end
    write_arpa(tmp_path / name, orders, names, end=2)
    assert (tmp_path / name).read_bytes().startswith(b"\x1f\x8b" if name.endswith("gz") else b"\\data\\\nngram 1=6\n")
    arpa = read_arpa(tmp_path / name, names, end=2)
    for expected, found in zip(orders, arpa.orders, strict=True):
        np.testing.assert_array_equal(found.labels, expected[0])
        np.testing.assert_allclose(found.log_probs, expected[1], rtol=1e-6)
        np.testing.assert_allclose(found.backoffs, expected[2], rtol=1e-6)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("cut", range(4, len(GOOD.rstrip()) - 1, 7))
def test_a_file_cut_anywhere_is_refused(tmp_path: Path, cut: int) -> None:
    path = write(tmp_path / "cut.arpa", GOOD[:cut])
    with pytest.raises(FewerError, match=r"cut\.arpa, line \d+: "):
        read_arpa(path)


def test_a_compressed_file_that_is_cut_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.arpa.gz"
    path.write_bytes(gzip.compress(GOOD.encode())[:-20])
    with pytest.raises(FewerError, match="damaged or cut off"):
        read_arpa(path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("ngram 2=3", "ngram 2=4", "line 19: fewer 2-grams than the file's head tells"),
        ("ngram 2=3", "ngram 2=2", "line 18: more 2-grams than the 2 that"),
        ("ngram 2=3", "ngram 3=3", "line 5: expected `ngram 2=COUNT`"),
        ("ngram 2=3", "ngram 2=many", "line 5: expected `ngram 2=COUNT`"),
        ("-0.4 a b", "-0.4 a c", "line 18: 'c' is not in the vocabulary"),
        ("-0.4 a b", "-0.4 a b c d", r"line 18: expected a log-probability, 2 label\(s\)"),
        ("-0.4 a b", "-0.4 a", r"line 18: expected a log-probability, 2 label\(s\)"),
        ("-0.4 a b", "-0,4 a b", "line 18: log-probability '-0,4' is not a number"),
        ("-0.4 a b", "nan a b", "line 18: log-probability 'nan' is not finite"),
        ("-0.4 a b", "0.4 a b", "line 18: log-probability '0.4' is above 0"),
        ("-0.4 a b", "-0.4 a <s>", "line 18: '<s>' stands behind other labels"),
        ("-0.4 a b", "-0.4 </s> b", "line 18: '</s>' stands before other labels"),
        ("a -0.25", "a x", "line 11: back-off weight 'x' is not a number"),
        ("-0.7 b", "-0.7 a", "line 12: 'a' was given before, in line 11"),
        ("-1.0 </s>", "-1.0 c", "the unigrams lack </s>"),
        ("\\3-grams:", "\\4-grams:", r"line 20: expected \\3-grams:, found"),
        ("\\end\\", "", r"expected \\end\\; the file is cut off"),
        ("\\data\\", "data", "no .data. line; is this an ARPA file"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(FewerError, match=message):
        read_arpa(write(tmp_path / "bad.arpa", GOOD.replace(old, new)))


def test_labels_of_another_tokenizer_are_named(tmp_path: Path) -> None:
    with pytest.raises(FewerError, match="line 12: 'b' is not in the vocabulary; is this the LM of another tokenizer"):
        read_arpa(write(tmp_path / "x.arpa", GOOD), ["</s>", "a", "c"])
    without_unknown = GOOD.replace("-2 <unk>\n", "").replace("ngram 1=5", "ngram 1=4")
    with pytest.raises(FewerError, match="lack 1 of 4 labels and <unk>: 'c'"):
        read_arpa(write(tmp_path / "y.arpa", without_unknown), ["</s>", "a", "b", "c"])


def test_a_binary_file_of_kenlm_is_named_so(tmp_path: Path) -> None:
    path = tmp_path / "lm.bin"
    path.write_bytes(b"mmap lm http://kheafield.com/code format version 5\n\0" + bytes(range(256)))
    with pytest.raises(FewerError, match="a binary file of KenLM"):
        read_arpa(path)


def test_words_that_are_not_utf8_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.arpa"
    path.write_bytes(GOOD.replace("-0.7 b", "-0.7 \udcff").encode(errors="surrogateescape"))
    with pytest.raises(FewerError, match=r"line 12: .* is not UTF-8"):
        read_arpa(path)


def test_minus_infinity_is_read_as_the_usual_zero(tmp_path: Path) -> None:
    arpa = read_arpa(write(tmp_path / "x.arpa", GOOD.replace("-0.7 b", "-inf b")))
    assert arpa.orders[0].log_probs[3] == pytest.approx(-99 * np.log(10))
