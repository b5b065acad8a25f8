"""Tokenizers of Hugging Face models behind fewer's `Tokenizer`: byte-pairs and SentencePiece."""

import base64
import binascii
import json
import re
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import sentencepiece

from fewer.config import shown
from fewer.data.spelling import fold_space
from fewer.data.tokenizer import Tokenizer
from fewer.errors import FewerError
from fewer.files import fingerprint, read_json_object
from fewer.hugging_face import loading
from fewer.progress import quiet_loading

WORD_MARKS = ("▁", "Ġ")  # how labels spell a blank
NO_PIECE = "\ue000"  # stands for a mark of a blank in the text itself
SPECIAL = re.compile(r"<\|.*\|>|<lang:.*>")
NEEDED = "the tokenizer of this model needs transformers: pip install 'fewer[hf]'"
MOST = 1 << 24  # labels of a vocabulary


class _OfAModel(Tokenizer):
    """Labels are the model's token ids; some of them are special and write nothing."""

    def __init__(self, labels: Sequence[str], end: int, unknown: int | None, special: Collection[int]):
        if not 0 <= end < len(labels):
            raise ValueError(f"eos_token_id of generation_config.json: {end} is none of the {len(labels)} labels")
        self.labels, self.end, self.unknown = list(labels), end, unknown
        self.special = frozenset(special) | {end}

    def word_start(self, id: int) -> bool:
        return id not in self.special and self.labels[id].startswith(WORD_MARKS)

    def word_end(self, id: int) -> bool:
        return False

    def written(self) -> list[str]:
        """The labels that write something."""
        return [label for id, label in enumerate(self.labels) if id not in self.special and id != self.unknown]

    def decode(self, ids: Iterable[int]) -> str:
        ids = [int(id) for id in ids]
        self.spelled(ids)  # complains of labels that are none
        return fold_space(self.text([id for id in ids if id not in self.special]))

    def text(self, ids: list[int]) -> str:
        """What labels write."""
        raise NotImplementedError

    def facts(self) -> dict[str, Any]:
        return {"labels": self.labels, "end": self.end, "unknown": self.unknown, "special": sorted(self.special)}


class FastTokenizer(_OfAModel):
    """A tokenizer of the tokenizers library."""

    kind = "hugging_face"

    def __init__(self, tokens: Any, labels: Sequence[str], end: int, unknown: int | None, special: Collection[int]):
        """tokens: a `tokenizers.Tokenizer`."""
        super().__init__(labels, end, unknown, special)
        self.tokens = tokens
        self.tokens.encode_special_tokens = True  # text cannot say that it ends

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self.tokens.encode(fold_space(text).replace("▁", NO_PIECE), add_special_tokens=False).ids
        return ids

    def text(self, ids: list[int]) -> str:
        return self.tokens.decode(ids, skip_special_tokens=True)

    def to_json(self) -> dict[str, Any]:
        return {**self.facts(), "tokens": json.loads(self.tokens.to_str())}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        try:
            import tokenizers
        except ImportError as error:
            raise FewerError(NEEDED) from error
        try:
            tokens = tokenizers.Tokenizer.from_str(json.dumps(value["tokens"]))
        except Exception as error:  # the library raises no narrower kind
            raise ValueError(f"tokens: {error}") from error
        return cls(tokens, *_checked(value))

    @cached_property
    def fingerprint(self) -> str:
        """By labels and merges: how a library spells its file does not matter."""
        merges = json.loads(self.tokens.to_str())["model"].get("merges", [])
        pairs = [" ".join(pair) if isinstance(pair, list) else pair for pair in merges]
        return fingerprint(self.kind, json.dumps([self.facts(), pairs]))


class PieceTokenizer(_OfAModel):
    """A SentencePiece model whose pieces have the ids of a vocabulary beside it, as Speech2Text's."""

    kind = "pieces"

    def __init__(
        self,
        model: bytes,
        labels: Sequence[str],
        end: int,
        unknown: int | None,
        special: Collection[int],
        lower: bool = False,
        upper: bool = False,
    ):
        """lower: text is read in lower case. upper: it is written in upper case."""
        super().__init__(labels, end, unknown, special)
        try:
            self.processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError as error:
            raise ValueError("model: this is not a SentencePiece model") from error
        self.model, self.lower, self.upper = model, lower, upper
        self.ids = {label: id for id, label in enumerate(self.labels) if id not in self.special}

    def encode(self, text: str) -> list[int]:
        text = fold_space(text).replace("▁", NO_PIECE)
        pieces: list[str] = self.processor.encode(text.lower() if self.lower or self.upper else text, out_type=str)
        found = [self.ids.get(piece, self.unknown) for piece in pieces]
        if None in found:
            raise FewerError(
                f"{pieces[found.index(None)]!r} is not in the vocabulary; it is in the text: {text!r:.200}"
            )
        return [id for id in found if id is not None]

    def text(self, ids: list[int]) -> str:
        text: str = self.processor.decode([self.labels[id] for id in ids])
        return text.upper() if self.upper else text

    def to_json(self) -> dict[str, Any]:
        model = base64.b64encode(self.model).decode()
        return {**self.facts(), "model": model, "lower": self.lower, "upper": self.upper}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        try:
            model = base64.b64decode(value["model"], validate=True)
        except binascii.Error as error:
            raise ValueError(f"model: {error}") from error
        return cls(model, *_checked(value), lower=bool(value["lower"]), upper=bool(value["upper"]))


def _checked(value: dict[str, Any]) -> tuple[list[str], int, int | None, list[int]]:
    """The facts of a tokenizer's file."""
    labels, unknown, special = value["labels"], value["unknown"], value["special"]
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise ValueError("labels must be a list of strings")
    for name, id in [("end", value["end"]), *([] if unknown is None else [("unknown", unknown)])]:
        if not isinstance(id, int) or not 0 <= id < len(labels):
            raise ValueError(f"{name}: not one of the {len(labels)} labels (found {shown(id)})")
    if not isinstance(special, list) or not all(isinstance(id, int) for id in special):
        raise ValueError("special must be a list of labels")
    return labels, value["end"], unknown, special


def pretrained_tokenizer(source: str | Path, size: int, end: int) -> FastTokenizer | PieceTokenizer:
    """From a folder (or hub name) that transformers can read. size: of the model's output; end: its last label."""
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise FewerError(NEEDED) from error
    problem = f"cannot load the tokenizer of {source} (tokenizer.json or vocab.json, tokenizer_config.json)"
    with loading(source, problem), quiet_loading(source):
        theirs = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
        vocabulary: dict[str, int] = theirs.get_vocab()
        if vocabulary and max(vocabulary.values()) >= size:
            raise ValueError(f"the tokenizer has {max(vocabulary.values()) + 1} tokens, but the model {size}")
        labels = [f"<|unused{id}|>" for id in range(size)]
        for label, id in vocabulary.items():
            labels[id] = label
        special = {id for id, token in theirs.added_tokens_decoder.items() if token.special}
        special |= set(theirs.all_special_ids) | {id for id, label in enumerate(labels) if SPECIAL.fullmatch(label)}
        facts = (labels, end, theirs.unk_token_id, {id for id in special if 0 <= id < size} - {theirs.unk_token_id})
        if hasattr(theirs, "sp_model"):
            cases = bool(theirs.do_lower_case), bool(theirs.do_upper_case)
            return PieceTokenizer(theirs.sp_model.serialized_model_proto(), *facts, *cases)
        return FastTokenizer(theirs.backend_tokenizer, *facts)


def tokenizer_beside(config: Path) -> FastTokenizer | PieceTokenizer:
    """The tokenizer of a model folder of transformers, by its config.json."""
    values = read_json_object(config)
    size, end = values.get("vocab_size"), values.get("eos_token_id")
    end = end[0] if isinstance(end, list) and end else end
    if not isinstance(size, int) or not 0 < size < MOST:
        raise FewerError(f"{config}: vocab_size should be a number of labels (found {shown(size)})")
    if not isinstance(end, int) or not 0 <= end < size:
        raise FewerError(f"{config}: eos_token_id should be one of the {size} labels (found {shown(end)})")
    return pretrained_tokenizer(config.parent, size, end)
