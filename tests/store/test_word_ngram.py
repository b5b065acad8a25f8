"""Word-level ARPA files over the labels of all kinds of tokenizers."""

import math
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from fewer.data.subword_nmt import SubwordNmtTokenizer
from fewer.data.tokenizer import Tokenizer
from fewer.data.tokenizers import CharacterTokenizer, WordTokenizer, train_sentencepiece
from fewer.errors import FewerError
from fewer.models.ngram import NGram
from fewer.models.word_ngram import Piece, WordNGram, WordNGramConfig
from fewer.store.ngram_files import load_ngram, save_ngram
from fewer.store.word_ngram import (
    WordStyle,
    label_pieces,
    load_any_ngram,
    load_word_ngram,
    read_word_lm,
    save_word_lm,
)
from fewer.training.ngram import estimate

ARPA = r"""\data\
ngram 1=6
ngram 2=3

\1-grams:
-1 <unk>
-99 <s> -0.2
-1 </s>
-0.5 it's -0.3
-0.8 well -0.1
-0.9 café

\2-grams:
-0.3 <s> it's
-0.4 it's well
-0.2 well </s>

\end\
"""
TOTAL = -0.3 - 0.4 - 0.2  # log10 P of: it's well
CAFE = -0.2 - 0.9 - 1  # log10 P of: café


class GPT2Like:
    """Byte-level labels as GPT-2 and Whisper have them; the end label is not 0."""

    labels = ("Ġit", "'s", "ĠIt", "Ġwell", "Well", ",", ".", "ĠcafÃ", "©", "<|en|>", "<|end|>", "-", 'Ġ"', "Ġ")
    end = 10

    def word_start(self, id: int) -> bool:
        return self.labels[id].startswith("Ġ")

    def word_end(self, id: int) -> bool:
        return False


@pytest.fixture
def arpa(tmp_path: Path) -> Path:
    path = tmp_path / "words.arpa"
    path.write_text(ARPA, encoding="utf-8")
    return path


def total(arpa: Path, tokenizer: Tokenizer | GPT2Like, labels: Sequence[int]) -> float:
    """log10 score of a sentence."""
    scores = load_word_ngram(arpa, tokenizer).score(torch.tensor([[*labels, tokenizer.end]]))
    return scores.sum().item() / math.log(10)


def tokenizers() -> list[Tokenizer]:
    subword = ["</s>", "it@@", "'@@", "s", "we@@", "l@@", "l", "café", "i@@"]
    return [
        train_sentencepiece(["it's well well café it's"] * 3, 22),
        CharacterTokenizer(["</s>", *" it'swelcafé"]),
        WordTokenizer(["</s>", "<unk>", "it's", "well", "café"]),
        SubwordNmtTokenizer(subword, [("i", "t"), ("w", "e"), ("c", "a"), ("ca", "f"), ("caf", "é</w>")], True),
    ]


@pytest.mark.parametrize("tokenizer", tokenizers(), ids=lambda tokenizer: tokenizer.kind)
def test_a_sentence_scores_as_in_the_word_model(arpa: Path, tokenizer: Tokenizer) -> None:
    assert total(arpa, tokenizer, tokenizer.encode("it's well")) == pytest.approx(TOTAL, abs=1e-5)
    assert total(arpa, tokenizer, tokenizer.encode("café")) == pytest.approx(CAFE, abs=1e-5)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([0, 1, 3], TOTAL),
        ([2, 1, 3, 6], TOTAL),  # It's well.
        ([12, 2, 1, 5, 3], TOTAL),  # "It's, well
        ([12, 4], -0.2 - 0.8 - 0.2),  # "Well: a word after a mark
        ([9, 2, 1, 3, 9], TOTAL),  # special labels write nothing
        ([7, 8], CAFE),  # a character in two halves
        ([2, 1, 11, 4], TOTAL),  # It's-Well: a hyphen separates words
        ([2, 3], -0.2 - 1 - 0.8 - 0.2),  # It well: an unknown word takes <unk>
    ],
)
def test_cased_and_punctuated_labels_find_plain_words(arpa: Path, labels: list[int], expected: float) -> None:
    assert total(arpa, GPT2Like(), labels) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("words", "style"),
    [
        (["it", "well-known"], WordStyle("lower", punctuation=False, hyphens=True)),
        (["IT", "WELL"], WordStyle("upper", punctuation=False, hyphens=False)),
        (["It", "well,", "-"], WordStyle("mixed", punctuation=True, hyphens=False)),
        (["1", "2"], WordStyle("mixed", punctuation=False, hyphens=False)),
    ],
)
def test_the_style_of_an_lm_is_seen_in_its_words(words: list[str], style: WordStyle) -> None:
    assert WordStyle.of(words) == style


def test_labels_write_what_they_say() -> None:
    class Labels(GPT2Like):
        labels = ("</s>", "▁The", "<0xC3>", "s", "▁")
        end = 0

        def word_start(self, id: int) -> bool:
            return self.labels[id].startswith("▁")

    pieces = [Piece(b""), Piece(b"THE", True), Piece(b"\xc3"), Piece(b"S"), Piece(b"", True)]
    assert label_pieces(Labels(), WordStyle("upper")) == pieces


def test_without_unk_an_unknown_word_is_as_likely_as_the_least_likely(arpa: Path) -> None:
    arpa.write_text(ARPA.replace("-1 <unk>\n", "").replace("ngram 1=6", "ngram 1=5"), encoding="utf-8")
    assert total(arpa, GPT2Like(), [2, 3]) == pytest.approx(-1 - 0.8 - 0.2, abs=1e-5)  # as </s>, whatever is before
    assert load_word_ngram(arpa, GPT2Like(), WordNGramConfig(unknown=-8)).ahead[-1] == -8


def test_the_compact_form_scores_alike(arpa: Path, tmp_path: Path) -> None:
    save_word_lm(tmp_path / "words.safetensors", read_word_lm(arpa))
    assert total(tmp_path / "words.safetensors", GPT2Like(), [2, 1, 3, 6]) == pytest.approx(TOTAL, abs=1e-5)
    with pytest.raises(FewerError, match=r"is of format fewer-word-ngram/1, but fewer-ngram/1 is needed"):
        load_ngram(tmp_path / "words.safetensors", GPT2Like.labels)
    with pytest.raises(FewerError, match=r"must end in \.safetensors"):
        save_word_lm(tmp_path / "words.arpa", read_word_lm(arpa))


def test_an_lm_without_words_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.arpa"
    path.write_text("\\data\\\nngram 1=2\n\n\\1-grams:\n-99 <s>\n-0.1 </s>\n\n\\end\\\n")
    with pytest.raises(FewerError, match="no words"):
        load_word_ngram(path, GPT2Like())


def test_a_file_of_labels_and_one_of_words_are_told_apart(arpa: Path, tmp_path: Path) -> None:
    assert isinstance(load_any_ngram(arpa, GPT2Like()), WordNGram)
    tokenizer = tokenizers()[0]
    assert isinstance(load_any_ngram(arpa, tokenizer), WordNGram)
    assert isinstance(load_any_ngram(arpa, WordTokenizer(["</s>", "<unk>", "it's", "well", "café"])), NGram)
    own = estimate(torch.tensor([*tokenizer.encode("it's well"), tokenizer.end]), 2, tokenizer.size, tokenizer.end)
    for name in ("labels.arpa", "labels.safetensors"):
        save_ngram(tmp_path / name, own, tokenizer.labels)
        assert isinstance(load_any_ngram(tmp_path / name, tokenizer), NGram)
    save_word_lm(tmp_path / "words.safetensors", read_word_lm(arpa))
    assert isinstance(load_any_ngram(tmp_path / "words.safetensors", tokenizer), WordNGram)
    with pytest.raises(FewerError, match=r"labels\.arpa is over labels of another tokenizer"):
        load_any_ngram(tmp_path / "labels.arpa", GPT2Like())


def test_without_the_end_label_the_last_word_still_counts(arpa: Path) -> None:
    whole = load_word_ngram(arpa, GPT2Like())
    labels = torch.tensor([[0, 1, 3, GPT2Like.end]])
    assert whole.without_end().score(labels).sum().item() / math.log(10) == pytest.approx(TOTAL + 0.2, abs=1e-5)
    assert whole.score(labels).sum().item() / math.log(10) == pytest.approx(TOTAL, abs=1e-5)
