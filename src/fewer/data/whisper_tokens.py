"""Whisper's byte-pair tokens behind fewer's `Tokenizer`."""

import json
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from fewer.config import shown
from fewer.data.spelling import fold_space
from fewer.data.tokenizer import Tokenizer
from fewer.errors import FewerError
from fewer.files import fingerprint, read_json_object
from fewer.hugging_face import loading

WORD_MARK = "Ġ"  # how byte-level labels spell a blank
END_LABEL, NO_TIMESTAMPS = "<|endoftext|>", "<|notimestamps|>"
NEEDED = "Whisper's tokenizer needs transformers: pip install 'fewer[hf]'"
FILE = "tokenizer.json"  # in model folders of transformers
TIMESTAMP = 0.02  # seconds from one timestamp label to the next


class WhisperTokenizer(Tokenizer):
    """Labels are Whisper's token ids; text is written as Whisper writes it, cased and punctuated."""

    kind = "whisper"
    unknown = None  # bytes spell everything

    def __init__(self, tokens: Any, size: int, leading_space: bool = True):
        """tokens: a `tokenizers.Tokenizer`. size: of the model's output, which has labels that a tokenizer may lack.

        leading_space: a transcript starts with a blank, as in all languages that have blanks between words.
        """
        end = tokens.token_to_id(END_LABEL)
        if end is None or tokens.token_to_id(NO_TIMESTAMPS) is None:
            raise ValueError(f"this is not Whisper's tokenizer: it has no {END_LABEL} or no {NO_TIMESTAMPS}")
        if tokens.get_vocab_size() > size:
            raise ValueError(f"the tokenizer has {tokens.get_vocab_size()} tokens, but the model {size}")
        self.tokens, self.end, self.leading_space = tokens, end, leading_space
        self.tokens.encode_special_tokens = True  # text cannot say that it ends
        first_timestamp = tokens.token_to_id(NO_TIMESTAMPS) + 1
        self.labels = [
            label if (label := tokens.id_to_token(id)) is not None else _lacking(id, first_timestamp)
            for id in range(size)
        ]

    @classmethod
    def from_pretrained(cls, folder: str | Path, size: int, leading_space: bool = True) -> "WhisperTokenizer":
        """From a folder (or hub name) that transformers can read; a tokenizer.json, without it."""
        if (Path(folder) / FILE).is_file():
            with loading(folder, f"cannot load Whisper's tokenizer from {folder}/{FILE}"):
                return cls(_tokenizers().Tokenizer.from_file(str(Path(folder) / FILE)), size, leading_space)
        try:
            from transformers import AutoTokenizer
        except ImportError as error:
            raise FewerError(NEEDED) from error
        with loading(folder, f"cannot load Whisper's tokenizer from {folder}/tokenizer.json and its configuration"):
            tokens = AutoTokenizer.from_pretrained(folder, trust_remote_code=False).backend_tokenizer
            return cls(tokens, size, leading_space)

    @classmethod
    def beside_model(cls, path: Path) -> "WhisperTokenizer":
        """From the tokenizer.json of a model folder of transformers."""
        size = read_json_object(path.parent / "config.json").get("vocab_size")
        if not isinstance(size, int) or not 0 < size < 1 << 24:
            raise FewerError(
                f"{path.parent / 'config.json'}: vocab_size should be a number of labels (found {shown(size)})"
            )
        return cls.from_pretrained(path.parent, size)

    def encode(self, text: str) -> list[int]:
        text = fold_space(text)
        return self.tokens.encode(" " + text if self.leading_space and text else text, add_special_tokens=False).ids

    def decode(self, ids: Iterable[int]) -> str:
        ids = [int(id) for id in ids]
        self.spelled(ids)  # complains of labels that are none
        return fold_space(self.tokens.decode([id for id in ids if id < self.end], skip_special_tokens=True))

    def word_start(self, id: int) -> bool:
        return self.labels[id].startswith(WORD_MARK)

    def word_end(self, id: int) -> bool:
        return False

    def to_json(self) -> dict[str, Any]:
        return {
            "size": self.size,
            "leading_space": self.leading_space,
            "tokens": json.loads(self.tokens.to_str()),
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        try:
            tokens = _tokenizers().Tokenizer.from_str(json.dumps(value["tokens"]))
        except Exception as error:  # the library raises no narrower kind
            raise ValueError(f"tokens: {error}") from error
        if not isinstance(value["size"], int) or not 0 < value["size"] < 1 << 24:
            raise ValueError(f"size: not a number of labels (found {shown(value['size'])})")
        if not isinstance(value["leading_space"], bool):
            raise ValueError(f"leading_space: neither true nor false (found {shown(value['leading_space'])})")
        return cls(tokens, value["size"], value["leading_space"])

    @cached_property
    def fingerprint(self) -> str:
        """By the labels alone: how a library spells its file, and which timestamps it lists, does not matter."""
        merges = json.loads(self.tokens.to_str())["model"]["merges"]
        pairs = [" ".join(pair) if isinstance(pair, list) else pair for pair in merges]
        return fingerprint(self.kind, json.dumps([self.labels, pairs, self.end, self.leading_space]))


def _tokenizers() -> Any:
    try:
        import tokenizers
    except ImportError as error:
        raise FewerError(NEEDED) from error
    return tokenizers


def is_hugging_face(value: Any) -> bool:
    """Whether this is the content of a tokenizer.json of Hugging Face."""
    return isinstance(value, dict) and "kind" not in value and {"model", "added_tokens"} <= value.keys()


def _lacking(id: int, first_timestamp: int) -> str:
    """The spelling of a label that the tokenizer's file does not list: a timestamp, in older files."""
    return f"<|{(id - first_timestamp) * TIMESTAMP:.2f}|>" if id >= first_timestamp else f"<|unused{id}|>"
