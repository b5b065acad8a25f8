"""Word-level ARPA files that people already have, as language models over a recogniser's labels."""

import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from pydantic import TypeAdapter

from fewer.config import parse_json
from fewer.errors import FewerError
from fewer.models.ngram import NGram
from fewer.models.word_ngram import Piece, WordNGram, WordNGramConfig
from fewer.store.arpa import arpa_vocabulary, arpa_words, read_arpa
from fewer.store.ngram_files import (
    BINARY_SUFFIX,
    binary_format,
    load_ngram,
    ngram_of_arpa,
    read_binary,
    write_binary,
)

WORD_FORMAT = "fewer-word-ngram/1"
SENTENCEPIECE_MARK, GPT2_MARK, CONTINUES = "▁", "Ġ", "@@"
SPECIAL = re.compile(r"<\|.*\|>")  # labels that write nothing, as Whisper's tasks and time stamps


WORDS, UNKNOWN = TypeAdapter(list[str]), TypeAdapter(int | None)
ZERO = -100.0  # natural logarithm of a probability that stands for "never"


class Labels(Protocol):
    """What is needed of a tokenizer."""

    labels: list[str]
    end: int

    def word_start(self, id: int) -> bool: ...

    def word_end(self, id: int) -> bool: ...


@dataclass(frozen=True)
class WordStyle:
    """How an LM's words are written, so that a recogniser's cased and punctuated text can be looked up in it."""

    case: Literal["mixed", "lower", "upper"] = "mixed"  # mixed: letters are compared as they are
    punctuation: bool = True  # False: the LM has none, so marks inside or around words are ignored
    hyphens: bool = True  # False: the LM has none, so they separate words

    @classmethod
    def of(cls, words: Sequence[str]) -> "WordStyle":
        """The style that some words have in common; case does not count if there is only one."""
        lower = any(word != word.upper() for word in words)
        upper = any(word != word.lower() for word in words)
        case: Literal["mixed", "lower", "upper"] = "mixed" if lower == upper else "lower" if lower else "upper"
        marks = any(character in ",.?!;:" for word in words for character in word[-1:])
        return cls(case, marks, any("-" in word.strip("-") for word in words))

    def apply(self, text: str) -> str:
        """A part of a word in this style."""
        text = text.replace("’", "'")
        text = text.lower() if self.case == "lower" else text.upper() if self.case == "upper" else text
        return text if self.punctuation else "".join(c for c in text if c in "'-" or not _is_mark(c))


class WordLm(NamedTuple):
    """An n-gram model of words."""

    model: NGram
    words: list[str]
    unknown: int | None  # id of <unk>, if it has one


def read_word_lm(path: str | Path) -> WordLm:
    """Read a word-level ARPA file, or what `save_word_lm` made of one, which loads faster."""
    if str(path).endswith(BINARY_SUFFIX):
        model, metadata = read_binary(path, WORD_FORMAT)
        lm = WordLm(model, *_words_of(path, metadata, model.vocab_size))
    else:
        arpa = read_arpa(path)
        lm = WordLm(ngram_of_arpa(path, arpa).float(), arpa.labels, arpa.unknown)
    if len(lm.words) <= 1 + (lm.unknown is not None):
        raise FewerError(f"{path}: there are no words in this model")
    return lm


def _words_of(path: str | Path, metadata: dict[str, str], size: int) -> tuple[list[str], int | None]:
    """The words that a binary file lists, and which of them is <unk>."""
    try:
        words = parse_json(WORDS, metadata.get("words", ""), f"{path}, words")
        unknown = parse_json(UNKNOWN, metadata.get("unknown", ""), f"{path}, unknown")
    except FewerError as error:
        raise FewerError(f"{error}; make the file again") from error
    if len(words) != size or (unknown is not None and not 0 <= unknown < size):
        raise FewerError(f"{path} is not a usable n-gram model: it lists {len(words)} words, but has {size}")
    return words, unknown


def save_word_lm(path: str | Path, lm: WordLm) -> None:
    """Write the compact form (.safetensors)."""
    if not str(path).endswith(BINARY_SUFFIX):
        raise FewerError(f"{path}: the name must end in {BINARY_SUFFIX}")
    metadata = {"words": json.dumps(lm.words), "unknown": json.dumps(lm.unknown)}
    write_binary(path, lm.model, WORD_FORMAT, metadata)


def load_any_ngram(path: str | Path, tokenizer: Labels) -> NGram | WordNGram:
    """An n-gram file over a tokenizer's own labels, or over words, which are then scored where they end."""
    if str(path).endswith(BINARY_SUFFIX):
        of_words = binary_format(path) == WORD_FORMAT
    else:
        of_words = _is_of_words(path, tokenizer)
    return load_word_ngram(path, tokenizer) if of_words else load_ngram(path, tokenizer.labels, tokenizer.end)


def _is_of_words(path: str | Path, tokenizer: Labels) -> bool:
    """Whether an ARPA file is over words; an error if it is over the labels of another tokenizer."""
    words = arpa_vocabulary(path)
    marked, has_marks = any(map(_has_mark, words)), any(map(_has_mark, tokenizer.labels))
    known = set(arpa_words(tokenizer.labels, tokenizer.end))
    others = [word for word in words if word not in known]
    if marked == has_marks and not others:
        return False
    if sum(map(_has_mark, words)) > len(words) // 10:
        raise FewerError(
            f"{path} is over labels of another tokenizer than the recogniser's: {others[0]!r} is none of its labels; "
            "give text, or an LM over words or over the recogniser's own labels (`fewer ngram`)"
        )
    return True


def _has_mark(label: str) -> bool:
    return label.startswith((GPT2_MARK, SENTENCEPIECE_MARK)) or label.endswith(CONTINUES)


def load_word_ngram(
    path: str | Path, tokenizer: Labels, config: WordNGramConfig | None = None, style: WordStyle | None = None
) -> WordNGram:
    """A word-level LM's file as a model over the tokenizer's labels; `style` as its words show it by default.

    Without a probability of unknown words, they are as likely as the least likely word.
    """
    lm, config = read_word_lm(path), config or WordNGramConfig()
    if config.unknown is None and lm.unknown is None:
        unigrams = lm.model.node_log_probs[1 : 1 + lm.model.vocab_size]
        config = config.model_copy(update={"unknown": float(unigrams[unigrams > ZERO].min())})
    never = (lm.model.end, lm.unknown)
    written = [b"" if id in never else word.encode() for id, word in enumerate(lm.words)]
    style = style or WordStyle.of([word for id, word in enumerate(lm.words) if id not in never])
    return WordNGram(lm.model, written, label_pieces(tokenizer, style), tokenizer.end, lm.unknown, config)


def label_pieces(tokenizer: Labels, style: WordStyle) -> list[Piece]:
    """What each label of a tokenizer writes in an LM's style, and whether a word begins or ends with it."""
    byte_level = any(label.startswith(GPT2_MARK) for label in tokenizer.labels)
    pieces = []
    for id, label in enumerate(tokenizer.labels):
        starts, ends = tokenizer.word_start(id), tokenizer.word_end(id)
        if id == tokenizer.end or SPECIAL.fullmatch(label):
            pieces.append(Piece(b""))
            continue
        text = _text(label, byte_level)
        if isinstance(text, str):
            if not style.hyphens and set(text) <= set("-–—") and text:
                text, starts = "", True
            text = style.apply(text).encode()
        pieces.append(Piece(text, starts, ends))
    return pieces


def _text(label: str, byte_level: bool) -> str | bytes:
    """A label without its marks; bytes where it is only a part of a character."""
    if byte_level:
        alphabet = _gpt2_bytes()
        if not all(character in alphabet for character in label):
            return label.strip()
        raw = bytes(alphabet[character] for character in label)
        try:
            return raw.decode().strip()
        except UnicodeDecodeError:
            return raw.lstrip(b" ")
    if match := re.fullmatch(r"<0x([0-9A-F]{2})>", label):
        return bytes([int(match[1], 16)])
    return label.lstrip(SENTENCEPIECE_MARK).strip().removesuffix(CONTINUES)


@cache
def _gpt2_bytes() -> dict[str, int]:
    """The characters that stand for bytes in GPT-2's labels: printable ones for themselves, others from U+0100 on."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


def _is_mark(character: str) -> bool:
    return unicodedata.category(character).startswith("P")
