r"""ARPA files: back-off n-gram models as text, plain or compressed.

A model's label appears under its own spelling, except that what an ARPA file cannot hold is escaped: blanks,
backslashes and characters that do not print become \xHH, \uHHHH or \UHHHHHHHH, an empty label \e, a label other than
the end label that is spelled <s> or </s> \x3cs> or \x3c/s>, and a label spelled like an earlier one gets \#ID at its
end. The end label is </s> where it is predicted and <s> as the first of a history.

Log-probabilities are natural logarithms here and decimal ones in the file. A file may list the n-grams of one length
in any order; -inf is read as -99, ARPA's usual zero.
"""

import gzip
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn, cast

import numpy as np

from fewer.data.lines import read_raw_lines
from fewer.errors import FewerError
from fewer.files import atomic_write

START, END, UNKNOWN = b"<s>", b"</s>", b"<unk>"
KENLM_BINARY = b"mmap lm http://kheafield.com/code"  # how KenLM's own files begin
ZERO = -99.0  # decimal logarithm of "never"
BLOCK = 1 << 17  # lines handled at a time


class NGrams(NamedTuple):
    """All n-grams of one length n."""

    labels: np.ndarray  # (L, n) int64; the end label first in a row is the start of a sentence
    log_probs: np.ndarray  # (L,) float64, natural log
    backoffs: np.ndarray  # (L,) float64, natural log; 0 where the file gives none


@dataclass(frozen=True)
class Arpa:
    """What an ARPA file says."""

    labels: list[str]  # the vocabulary: as asked for, or the words of the file
    end: int
    unknown: int | None  # id of <unk> if it is in the vocabulary
    orders: list[NGrams]  # by length; unigrams complete and in the order of the vocabulary
    first_lines: list[int]  # line number of the first n-gram of each length


def arpa_words(labels: Sequence[str], end: int) -> list[str]:
    """How each label is spelled in an ARPA file; all different, without white space."""
    words, seen = [], {START.decode(), END.decode()}
    for id, label in enumerate(labels):
        word = "".join(map(_escaped, label)) or r"\e"
        if id == end:
            word = END.decode()
        elif word in (START.decode(), END.decode()):
            word = r"\x3c" + word[1:]
        elif word in seen:
            word += rf"\#{id}"
        seen.add(word)
        words.append(word)
    return words


def _escaped(character: str) -> str:
    if character.isprintable() and character not in " \\":
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 1 << 8 else f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"


def write_arpa(path: str | Path, orders: Sequence[Iterable[Any]], labels: Sequence[str], end: int) -> None:
    """Write n-grams (labels (L, n), log P, log back-off) of each length; compressed if the name ends in .gz."""
    words = np.array(arpa_words(labels, end), dtype=object)
    levels = [NGrams(*(np.asarray(part) for part in level)) for level in orders]
    with atomic_write(path, "wb") as raw, _compressed(raw, str(path).endswith(".gz")) as stream:
        counts = [len(level.labels) for level in levels]
        counts[0] += 1  # the end label is listed twice: as <s> and as </s>
        header = "".join(f"ngram {n}={count}\n" for n, count in enumerate(counts, start=1))
        stream.write(f"\\data\\\n{header}".encode())
        for n, level in enumerate(levels, start=1):
            stream.write(f"\n\\{n}-grams:\n".encode())
            if n == 1:
                start_backoff = f"\t{_decimal(level.backoffs[end])}" if len(levels) > 1 else ""
                stream.write(f"{ZERO:g}\t<s>{start_backoff}\n".encode())
            has_backoff = (level.labels[:, -1] != end) & (n < len(levels))
            for begin in range(0, counts[n - 1], BLOCK):
                part = slice(begin, begin + BLOCK)
                stream.write(_lines(level, part, words, has_backoff[part], end).encode())
        stream.write(b"\n\\end\\\n")


def _lines(level: NGrams, part: slice, words: np.ndarray, has_backoff: np.ndarray, end: int) -> str:
    spelled = words[level.labels[part]]  # (L, n)
    if spelled.shape[1] > 1:
        spelled[level.labels[part, 0] == end, 0] = START.decode()
    probs = (level.log_probs[part] / math.log(10)).tolist()
    backoffs = (level.backoffs[part] / math.log(10)).tolist()
    rows = zip(probs, spelled.tolist(), backoffs, has_backoff.tolist(), strict=True)
    return "".join(f"{p:.7g}\t{' '.join(ngram)}" + (f"\t{b:.7g}\n" if more else "\n") for p, ngram, b, more in rows)


def _decimal(value: float) -> str:
    return f"{value / math.log(10):.7g}"


@contextmanager
def _compressed(raw: IO[bytes], compress: bool) -> Iterator[IO[bytes]]:
    if not compress:
        yield raw
        return
    with gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0) as stream:
        yield cast(IO[bytes], stream)


def read_arpa(path: str | Path, labels: Sequence[str] | None = None, end: int = 0) -> Arpa:
    """Read an ARPA file over the given labels, or over its own words (then </s> is 0, and <unk> 1 if it is there).

    Labels that the file lacks take the probability of its <unk>; without one, that is an error.
    """
    return _Reader(path, None if labels is None else list(labels), end).read()


def arpa_vocabulary(path: str | Path) -> list[str]:
    """The spellings of all unigrams of an ARPA file, without <s>, </s> and <unk>."""
    reader = _Reader(path, None, 0)
    counts = reader.header()
    words = [row[1] for _, block in reader.rows(1, counts[0]) for row in block]
    return [word.decode(errors="replace") for word in words if word not in (START, END, UNKNOWN, b"<UNK>")]


class _Reader:
    """Goes through a file section by section and counts lines for its complaints."""

    def __init__(self, path: str | Path, labels: list[str] | None, end: int):
        self.path, self.labels, self.end = path, labels, end
        self.lines = read_raw_lines(path)
        self.number = 0  # of the line read last
        self.ids: dict[bytes, int] = {}
        if labels is not None:
            words = arpa_words(labels, end)
            self.ids = {word.encode(): id for id, word in enumerate(words)}

    def read(self) -> Arpa:
        counts = self.header()
        orders, first_lines = [], []
        for n, count in enumerate(counts, start=1):
            first_lines.append(self.number + 1)
            orders.append(self.unigrams(count) if n == 1 else self.section(n, count))
            following = rf"\{n + 1}-grams:" if n < len(counts) else "\\end\\"
            line = self.next_line()
            if line[:1] not in (b"", b"\\"):
                self.fail(f"more {n}-grams than the {count} that the file's head tells")
            if line != following.encode():
                self.fail(f"expected {following}" + (f", found {_shown(line)}" if line else "; the file is cut off"))
        unknown = self.ids.get(UNKNOWN)
        return Arpa(cast(list[str], self.labels), self.end, unknown, orders, first_lines)

    def header(self) -> list[int]:
        """The number of n-grams of each length."""
        while (line := self.next_line()) != b"\\data\\":
            if line.startswith(KENLM_BINARY):
                self.fail("a binary file of KenLM; give the ARPA file that it was made from")
            if not line or self.number > 1000:
                self.fail("no \\data\\ line; is this an ARPA file?")
        counts: list[int] = []
        while not (line := self.next_line()).startswith(b"\\1-grams:"):
            match = re.fullmatch(rb"ngram\s+(\d+)\s*=\s*(\d+)", line)
            if match is None or int(match[1]) != len(counts) + 1:
                expected = f"expected `ngram {len(counts) + 1}=COUNT`" + (r" or \1-grams:" if counts else "")
                self.fail(expected + (f", found {_shown(line)}" if line else "; the file is cut off"))
            counts.append(int(match[2]))
        if not counts:
            self.fail("the file's head gives no numbers of n-grams")
        return counts

    def next_line(self) -> bytes:
        """The next line that is not blank, or nothing at the end of the file."""
        for raw in self.lines:
            self.number += 1
            if line := raw.strip():
                return line
        return b""

    def rows(self, n: int, count: int) -> Iterator[tuple[int, list[list[bytes]]]]:
        """The fields of the next `count` lines, block by block, with the number of the block's first line."""
        while count:
            block = [raw.split() for raw in islice(self.lines, min(count, BLOCK))]
            first = self.number + 1
            stop = next((i for i, row in enumerate(block) if not row or row[0].startswith(b"\\")), None)
            if stop is not None:
                self.fail(f"fewer {n}-grams than the file's head tells", first + stop)
            if len(block) < min(count, BLOCK):
                self.fail(f"the file is cut off within its {n}-grams", first + max(len(block) - 1, 0))
            if not {len(row) for row in block} <= {n + 1, n + 2}:
                bad = next(i for i, row in enumerate(block) if len(row) not in (n + 1, n + 2))
                self.fail(f"expected a log-probability, {n} label(s) and perhaps a back-off weight", first + bad)
            self.number += len(block)
            count -= len(block)
            yield first, block

    def numbers(self, fields: list[bytes], first: int, what: str) -> np.ndarray:
        """Decimal logs as natural logs."""
        try:
            values = np.array(list(map(float, fields)))
        except ValueError:
            bad = next(i for i, field in enumerate(fields) if not _is_number(field))
            self.fail(f"{what} {_shown(fields[bad])} is not a number", first + bad)
        values[values == -math.inf] = ZERO
        if not np.isfinite(values).all():
            bad = int(np.flatnonzero(~np.isfinite(values))[0])
            self.fail(f"{what} {_shown(fields[bad])} is not finite", first + bad)
        return values * math.log(10)

    def probabilities(self, block: list[list[bytes]], n: int, first: int) -> tuple[np.ndarray, np.ndarray]:
        log_probs = self.numbers([row[0] for row in block], first, "log-probability")
        backoffs = self.numbers([row[n + 1] if len(row) > n + 1 else b"0" for row in block], first, "back-off weight")
        positive = log_probs > 0
        if positive.any():
            bad = int(np.flatnonzero(positive)[0])
            self.fail(f"log-probability {_shown(block[bad][0])} is above 0", first + bad)
        return log_probs, backoffs

    def section(self, n: int, count: int) -> NGrams:
        start = len(self.ids)  # stands for <s>, which has no id of its own
        ids = {**self.ids, START: start, END: self.end}
        parts = []
        for first, block in self.rows(n, count):
            labels = np.array([ids.get(word, -1) for row in block for word in row[1 : n + 1]]).reshape(-1, n)
            for bad, complaint in (
                (labels == -1, "is not in the vocabulary"),
                (np.pad(labels[:, 1:] == start, ((0, 0), (1, 0))), "stands behind other labels"),
                (np.pad(labels[:, :-1] == self.end, ((0, 0), (0, 1))), "stands before other labels"),
            ):
                if bad.any():
                    row, column = (int(x) for x in np.argwhere(bad)[0])
                    self.fail(f"{_shown(block[row][1 + column])} {complaint}", first + row)
            labels[labels == start] = self.end
            parts.append(NGrams(labels, *self.probabilities(block, n, first)))
        if not parts:
            return NGrams(np.zeros((0, n), dtype=np.int64), np.zeros(0), np.zeros(0))
        return NGrams(*(np.concatenate([part[i] for part in parts]) for i in range(3)))

    def unigrams(self, count: int) -> NGrams:
        lines: dict[bytes, tuple[float, float, int]] = {}  # word -> log P, back-off, line
        for first, block in self.rows(1, count):
            for row in block:  # what stands for the probability of <s> has no meaning
                if row[1] == START:
                    row[0] = b"-99"
            values = self.probabilities(block, 1, first)
            for i, (row, log_prob, backoff) in enumerate(zip(block, *values, strict=True)):
                if row[1] in lines:
                    self.fail(f"{_shown(row[1])} was given before, in line {lines[row[1]][2]}", first + i)
                lines[row[1]] = float(log_prob), float(backoff), first + i
        if END not in lines:
            self.fail("the unigrams lack </s>")
        start_backoff = lines.pop(START)[1] if START in lines else 0.0
        if UNKNOWN not in lines and b"<UNK>" in lines:
            lines[UNKNOWN] = lines.pop(b"<UNK>")
        if self.labels is None:
            known = sorted(lines, key=lambda word: (word != END, word != UNKNOWN))
            self.ids, self.end = {word: id for id, word in enumerate(known)}, 0
            self.labels = [self.decoded(word, lines[word][2]) for word in known]
        unknown = lines.pop(UNKNOWN, None) if UNKNOWN not in self.ids else lines[UNKNOWN]
        for word, (_, _, number) in lines.items():
            if word not in self.ids:
                self.fail(f"{_shown(word)} is not in the vocabulary; is this the LM of another tokenizer?", number)
        missing = [word for word in self.ids if word not in lines]
        if missing and unknown is None:
            names = ", ".join(map(_shown, missing[:5])) + (", …" if len(missing) > 5 else "")
            self.fail(f"the unigrams lack {len(missing)} of {len(self.ids)} labels and <unk>: {names}")
        otherwise = unknown or (0.0, 0.0, 0)  # without <unk>, nothing is missing
        table = np.array([lines.get(word, otherwise)[:2] for word in self.ids])  # (V, 2)
        table[self.end, 1] = start_backoff
        return NGrams(np.arange(len(self.ids))[:, None], table[:, 0], table[:, 1])

    def decoded(self, word: bytes, number: int) -> str:
        try:
            return word.decode()
        except UnicodeDecodeError:
            self.fail(f"{_shown(word)} is not UTF-8 text; convert the file, for example with iconv", number)

    def fail(self, complaint: str, number: int | None = None) -> NoReturn:
        raise FewerError(f"{self.path}, line {self.number if number is None else number}: {complaint}")


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _shown(word: bytes) -> str:
    return repr(word.decode(errors="replace")) if len(word) < 60 else repr(word[:60].decode(errors="replace")) + "…"
