"""The kinds of tokenizers, read from a file or learnt from text.

tokenizer = load_tokenizer("model/tokenizer.json")
tokenizer.decode(tokenizer.encode("HELLO WORLD"))  # "HELLO WORLD"
"""

import base64
import binascii
import io
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import sentencepiece

from fewer.config import shown
from fewer.data.hf_tokens import FastTokenizer, PieceTokenizer, tokenizer_beside
from fewer.data.spelling import fold_space
from fewer.data.subword_nmt import SubwordNmtTokenizer
from fewer.data.tokenizer import END, END_LABEL, UNKNOWN_LABEL, VERSION, Tokenizer
from fewer.data.whisper_tokens import WhisperTokenizer, is_hugging_face
from fewer.errors import FewerError
from fewer.files import read_json, read_json_object
from fewer.progress import warn

TOKENIZER, MODEL = "tokenizer.json", "config.json"  # in model folders, the latter in those of transformers
WORD_MARK = "▁"  # begins the first piece of a word in sentencepiece's vocabularies
NO_PIECE = "\ue000"  # stands for a WORD_MARK in the text itself, which would be read as a blank
MOST_WORDS = 10_000_000  # different words that are counted; beyond it the rarest are forgotten


class _Listed(Tokenizer):
    """A tokenizer whose units are looked up in a list of labels."""

    def __init__(self, labels: Sequence[str]):
        self.labels = list(labels)
        self.ids = {label: id for id, label in enumerate(self.labels)}
        _check_labels(self.labels, self.ids)
        del self.ids[END_LABEL]  # text cannot say that it ends

    def to_json(self) -> dict[str, Any]:
        return {"labels": self.labels}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        return cls(_label_list(value["labels"]))


class CharacterTokenizer(_Listed):
    """Every character is a label, the blank included."""

    kind = "characters"

    def encode(self, text: str) -> list[int]:
        text = fold_space(text)
        try:
            return [self.ids[character] for character in text]
        except KeyError as error:
            raise FewerError(f"character {error} is not in the vocabulary; it is in the text: {text!r:.200}") from None

    def decode(self, ids: Iterable[int]) -> str:
        return fold_space("".join(self.spelled(ids)))

    def word_start(self, id: int) -> bool:
        return self.labels[id] == " "

    def word_end(self, id: int) -> bool:
        return False


class WordTokenizer(_Listed):
    """Every word is a label; other words are the unknown label."""

    kind = "words"
    unknown: int

    def __init__(self, labels: Sequence[str]):
        super().__init__(labels)
        if UNKNOWN_LABEL not in self.ids:
            raise ValueError(f"{UNKNOWN_LABEL} is missing among the labels")
        self.unknown = self.ids[UNKNOWN_LABEL]

    def encode(self, text: str) -> list[int]:
        return [self.ids.get(word, self.unknown) for word in text.split()]

    def decode(self, ids: Iterable[int]) -> str:
        return " ".join(self.spelled(ids))

    def word_start(self, id: int) -> bool:
        return id != self.end

    def word_end(self, id: int) -> bool:
        return id != self.end


class SentencePieceTokenizer(Tokenizer):
    """A sentencepiece model with the end label 0 and the unknown label 1."""

    kind = "sentencepiece"
    unknown = 1

    def __init__(self, model: bytes):
        try:
            self.processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError as error:
            raise ValueError("this is not a sentencepiece model") from error
        if (self.processor.eos_id(), self.processor.unk_id()) != (END, self.unknown):
            raise ValueError("a sentencepiece model must have the end label 0 (eos_id=0) and the unknown label 1")
        self.model = model
        self.labels = [self.processor.id_to_piece(id) for id in range(self.processor.vocab_size())]

    def encode(self, text: str) -> list[int]:
        return self.processor.encode(fold_space(text).replace(WORD_MARK, NO_PIECE))

    def decode(self, ids: Iterable[int]) -> str:
        return fold_space("".join(self.spelled(ids)).replace(WORD_MARK, " "))

    def word_start(self, id: int) -> bool:
        return self.labels[id].startswith(WORD_MARK)

    def word_end(self, id: int) -> bool:
        return False

    def to_json(self) -> dict[str, Any]:
        return {"model": base64.b64encode(self.model).decode()}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        try:
            return cls(base64.b64decode(value["model"], validate=True))
        except binascii.Error as error:
            raise ValueError(f"model: {error}") from error


def load_tokenizer(path: str | Path) -> Tokenizer:
    """Read a tokenizer file, that of a model folder, or the tokenizer of a model of transformers. They hold data only,
    so that files of strangers are safe to load."""
    kinds: list[type[Tokenizer]] = [SentencePieceTokenizer, CharacterTokenizer, WordTokenizer, SubwordNmtTokenizer]
    kinds += [WhisperTokenizer, FastTokenizer, PieceTokenizer]
    if Path(path).is_dir():
        if (Path(path) / MODEL).exists() and not (Path(path) / TOKENIZER).exists():
            return tokenizer_beside(Path(path) / MODEL)
        path = Path(path) / TOKENIZER
    value = read_json(path)
    if is_hugging_face(value):
        return _beside_model(Path(path))
    known = {kind.kind: kind for kind in kinds}
    if not isinstance(value, dict) or str(value.get("kind")) not in known:
        raise FewerError(f"{path} is not a tokenizer of fewer: its `kind` must be one of {', '.join(known)}")
    if value.get("version") != VERSION:
        raise FewerError(
            f"{path}: tokenizer version {shown(value.get('version'))}, but this fewer reads version {VERSION}"
        )
    try:
        return known[value["kind"]].from_json(value)
    except KeyError as error:
        raise FewerError(f"{path}: field {error} is missing") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise FewerError(f"{path}: not a usable {value['kind']} tokenizer: {error}") from error


def _beside_model(path: Path) -> Tokenizer:
    """From the tokenizer.json of a model folder of transformers."""
    config = path.parent / MODEL
    if not config.exists():
        raise FewerError(f"{path} is a file of Hugging Face, but its model's config.json is not beside it")
    whisper = read_json_object(config).get("model_type") == "whisper"
    return WhisperTokenizer.beside_model(path) if whisper else tokenizer_beside(config)


def train_sentencepiece(lines: Iterable[str], size: int, exact: bool = True) -> SentencePieceTokenizer:
    """Byte-pair encoding of `size` labels. Not `exact`: fewer labels if the text does not yield so many.

    Merges never cross words, so training on the counted words gives what training on the text would, in the memory
    that the different words need; sorted, they give the same model in whatever order the lines come.
    """
    counts = count_words(lines)
    for word in [word for word in counts if WORD_MARK in word or "\0" in word]:
        del counts[word]
    if not counts:
        raise FewerError("the text holds no words to train a tokenizer on")
    smallest = len({WORD_MARK}.union(*counts)) + 2
    if size < smallest:
        raise FewerError(f"{size} labels are too few: the text's characters and two special labels are {smallest}")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(f"{word}\t{count}" for word, count in sorted(counts.items())),
        input_format="tsv",
        model_writer=model,
        model_type="bpe",
        vocab_size=size,
        hard_vocab_limit=False,
        eos_id=END,
        unk_id=SentencePieceTokenizer.unknown,
        bos_id=-1,
        pad_id=-1,
        character_coverage=1.0,
        normalization_rule_name="identity",
        split_by_unicode_script=False,
        split_by_number=False,
        minloglevel=2,
    )
    tokenizer = SentencePieceTokenizer(model.getvalue())
    if exact and tokenizer.size < size:
        raise FewerError(f"{size} labels are too many: the text yields at most {tokenizer.size}; ask for fewer labels")
    return tokenizer


def train_characters(lines: Iterable[str]) -> CharacterTokenizer:
    """All characters of a text, the most frequent first."""
    counts: Counter[str] = Counter({" ": 0})
    for word, count in count_words(lines).items():
        for character in word:
            counts[character] += count
        counts[" "] += count
    return CharacterTokenizer([END_LABEL, *_by_frequency(counts)])


def train_words(lines: Iterable[str], size: int | None = None, min_count: int = 1) -> WordTokenizer:
    """The most frequent words of a text: at most `size` labels (end and unknown label included)."""
    if size is not None and size < 3:
        raise FewerError(f"{size} labels are too few: the end label, the unknown label and one word are 3")
    counts = count_words(lines)
    words = [word for word in _by_frequency(counts) if counts[word] >= min_count]
    words = [word for word in words if word not in (END_LABEL, UNKNOWN_LABEL)]
    return WordTokenizer([END_LABEL, UNKNOWN_LABEL, *words[: None if size is None else size - 2]])


def count_words(lines: Iterable[str]) -> Counter[str]:
    """How often each word occurs."""
    counts: Counter[str] = Counter()
    rarest = 1
    for line in lines:
        counts.update(line.split())
        if len(counts) > MOST_WORDS:
            warn(f"over {MOST_WORDS:,} different words: those seen {rarest} time(s) so far are forgotten")
            counts = Counter({word: count for word, count in counts.items() if count > rarest})
            rarest += 1
    return counts


def _by_frequency(counts: Counter[str]) -> list[str]:
    return sorted(counts, key=lambda unit: (-counts[unit], unit))


def _label_list(value: Any) -> list[str]:
    """The labels of a tokenizer's file."""
    if not isinstance(value, list) or not all(isinstance(label, str) for label in value):
        raise ValueError("labels must be a list of strings")
    return value


def _check_labels(labels: list[str], ids: dict[str, int]) -> None:
    if not labels or labels[END] != END_LABEL:
        raise ValueError(f"the first label must be {END_LABEL}")
    if not all(isinstance(label, str) for label in labels):
        raise ValueError("labels must be strings")
    if len(ids) != len(labels):
        twice = next(label for label, count in Counter(labels).items() if count > 1)
        raise ValueError(f"label {twice!r} is there twice")
