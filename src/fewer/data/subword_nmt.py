"""Byte-pair encoding with the files of subword-nmt: codes (the merges) and a vocabulary, as RETURNN setups have them.

A label that ends in "@@" goes on with the next label; one without ends a word.
"""

import ast
import json
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

from fewer.data.lines import read_lines
from fewer.data.spelling import fold_space
from fewer.data.tokenizer import END, END_LABEL, Tokenizer
from fewer.errors import FewerError

CONTINUES = "@@"
WORD_END = "</w>"  # ends the last symbol of a word in the codes
END_NAMES = (END_LABEL, "<eos>", "<sb>", "<s>")  # how vocabularies call the end label
UNKNOWN_NAMES = ("<unk>", "<UNK>", "[UNKNOWN]", "[UNK]")
Merge = tuple[str, str]


class SubwordNmtTokenizer(Tokenizer):
    """Applies the merges in the order in which they were learnt; what the vocabulary lacks is split again."""

    kind = "subword_nmt"

    def __init__(self, labels: list[str], merges: list[Merge], mark_joined: bool):
        """mark_joined: the end mark is part of a word's last character (codes of version 0.2), not a symbol (0.1)."""
        self.labels, self.merges, self.mark_joined = labels, merges, mark_joined
        self.ids = {label: id for id, label in enumerate(labels)}
        if not labels or len(self.ids) != len(labels) or not all(isinstance(label, str) for label in labels):
            raise ValueError("labels must be different strings")
        self.ids.pop(labels[END])
        self.unknown = next((self.ids[name] for name in UNKNOWN_NAMES if name in self.ids), None)
        self.ranks = {merge: rank for rank, merge in reversed(list(enumerate(merges)))}
        self.parts = {first + second: (first, second) for first, second in reversed(merges)}
        self._encode_word = lru_cache(1 << 16)(self._encode_new_word)

    @classmethod
    def from_files(cls, codes: str | Path, vocabulary: str | Path) -> Self:
        """Read subword-nmt's codes and a vocabulary; the end label becomes label 0 and is added if it is missing."""
        merges, mark_joined = read_codes(codes)
        return cls(with_end_first(read_vocabulary(vocabulary)), merges, mark_joined)

    def encode(self, text: str) -> list[int]:
        return [id for word in text.split() for id in self._encode_word(word)]

    def decode(self, ids: Iterable[int]) -> str:
        text = " ".join(self.spelled(ids)) + " "
        return fold_space(text.replace(CONTINUES + " ", ""))

    def word_start(self, id: int) -> bool:
        return False

    def word_end(self, id: int) -> bool:
        return id != self.end and not self.labels[id].endswith(CONTINUES)

    def to_json(self) -> dict[str, Any]:
        merges = [list(merge) for merge in self.merges]
        return {"labels": self.labels, "merges": merges, "mark_joined": self.mark_joined}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        merges = [(str(first), str(second)) for first, second in value["merges"]]
        return cls(value["labels"], merges, bool(value["mark_joined"]))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_json, (self.to_json(),)

    def pieces(self, word: str) -> list[str]:
        """The labels that the merges make of a word, whether the vocabulary has them or not."""
        return [_spelled(piece) for piece in self._pieces(word)]

    def _encode_new_word(self, word: str) -> tuple[int, ...]:
        return tuple(id for piece in self._pieces(word) for id in self._label(piece, word))

    def _pieces(self, word: str) -> list[str]:
        symbols = self._merge([*word[:-1], word[-1] + WORD_END] if self.mark_joined else [*word, WORD_END])
        pieces = [symbol for symbol in symbols if symbol != WORD_END]
        if symbols[-1] == WORD_END:
            pieces[-1] += WORD_END
        return pieces

    def _merge(self, symbols: list[str]) -> list[str]:
        """Join the pair that was learnt first, wherever it stands, until no pair was learnt."""
        while len(symbols) > 1:
            pairs = list(pairwise(symbols))
            best = min(pairs, key=lambda pair: self.ranks.get(pair, len(self.ranks)))
            if best not in self.ranks:
                break
            joined, position = [], 0
            while position < len(symbols):
                width = 2 if tuple(symbols[position : position + 2]) == best else 1
                joined.append("".join(symbols[position : position + width]))
                position += width
            symbols = joined
        return symbols

    def _label(self, piece: str, word: str) -> list[int]:
        """A piece's label; if there is none, the labels of the two pieces that it was merged from."""
        label = _spelled(piece)
        if label in self.ids:
            return [self.ids[label]]
        if halves := self._halves(piece):
            return self._label(halves[0], word) + self._label(halves[1], word)
        if self.unknown is None:
            raise FewerError(f"{label!r} is not in the vocabulary, which has no unknown label; it is in word {word!r}")
        return [self.unknown]

    def _halves(self, piece: str) -> Merge | None:
        halves = self.parts.get(piece)
        if self.mark_joined or not piece.endswith(WORD_END) or (halves and halves[1] != WORD_END):
            return halves
        stem = self.parts.get(piece.removesuffix(WORD_END))  # the mark, a symbol of its own, stays with the second half
        return stem and (stem[0], stem[1] + WORD_END)


def _spelled(piece: str) -> str:
    """How the vocabulary spells a piece."""
    return piece.removesuffix(WORD_END) if piece.endswith(WORD_END) else piece + CONTINUES


def read_codes(path: str | Path) -> tuple[list[Merge], bool]:
    """The merges of a codes file, and whether its version joins the end mark to a word's last character."""
    merges: list[Merge] = []
    mark_joined = False
    for number, line in enumerate(read_lines(path), start=1):
        if number == 1 and line.startswith("#version:"):
            version = line.removeprefix("#version:").strip()
            if version not in ("0.1", "0.2"):
                raise FewerError(f"{path}: codes of version {version!r}; versions 0.1 and 0.2 are known")
            mark_joined = version == "0.2"
            continue
        if not line.strip():
            continue
        symbols = line.strip("\r\n ").split(" ")
        if len(symbols) != 2 or not all(symbols):
            raise FewerError(f"{path}, line {number}: expected two symbols to merge, found {line!r:.80}")
        merges.append((symbols[0], symbols[1]))
    return merges, mark_joined


def read_vocabulary(path: str | Path) -> dict[str, int]:
    """Label to id, from a Python or JSON dict or list, from lines "label id", "label frequency" or just "label".

    Without ids, labels are numbered in the order of the file.
    """
    lines = list(read_lines(path))
    ids = _structured("\n".join(lines)) or _columns(
        path, [(n, line) for n, line in enumerate(lines, 1) if line.strip()]
    )
    if not ids:
        raise FewerError(f"{path}: no labels found")
    if set(ids.values()) != set(range(max(ids.values()) + 1)):
        missing = next(id for id in range(len(ids) + 1) if id not in ids.values())
        raise FewerError(f"{path}: label ids must run from 0 on without gaps, but there is no label {missing}")
    return ids


def with_end_first(ids: dict[str, int]) -> list[str]:
    """Labels in the order of their ids, but the end label first; further names of the end label are dropped."""
    end_name = next((name for name in END_NAMES if name in ids), None)
    labels = [END_LABEL]
    for label, id in sorted(ids.items(), key=lambda entry: entry[1]):
        if end_name is not None and id == ids[end_name]:
            if label not in END_NAMES:
                raise FewerError(f"labels {end_name!r} and {label!r} have the same id {id}")
        else:
            labels.append(label)
    if len(labels) - 1 != len({id for label, id in ids.items() if end_name is None or id != ids[end_name]}):
        raise FewerError("two labels of the vocabulary have the same id")
    return labels


def _structured(text: str) -> dict[str, int] | None:
    """The vocabulary as a dict or list, if the text is one."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    value: Any = None
    for parse in (json.loads, ast.literal_eval):
        try:
            value = parse(text.strip())
            break
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    if isinstance(value, list) and all(isinstance(label, str) for label in value):
        value = {label: id for id, label in enumerate(value)}
    if isinstance(value, dict) and all(isinstance(k, str) and type(v) is int and v >= 0 for k, v in value.items()):
        return value
    return None


def _columns(path: str | Path, lines: list[tuple[int, str]]) -> dict[str, int]:
    """Lines of a label each, with an id or a frequency behind it or not."""
    rows = [(number, line.strip(" \t").split()) for number, line in lines]
    for number, row in rows:
        if len(row) != len(rows[0][1]) or len(row) > 2 or (len(row) == 2 and not row[1].isdecimal()):
            raise FewerError(f'{path}, line {number}: expected "label" or "label number", as in line {rows[0][0]}')
    numbers = [int(row[1]) for _, row in rows if len(row) == 2]
    if set(numbers) != set(range(max(numbers, default=-1) + 1)) or not numbers:  # frequencies
        numbers = list(range(len(rows)))
    ids: dict[str, int] = {}
    for (number, row), id in zip(rows, numbers, strict=True):
        if row[0] in ids:
            raise FewerError(f"{path}, line {number}: label {row[0]!r} was there before")
        ids[row[0]] = id
    return ids
