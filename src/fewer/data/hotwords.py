"""Hotwords, names and terms that are rewarded: a file of lines `term`, or `term<TAB>weight`, and their labels."""

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from fewer.config import shown
from fewer.data.lines import read_lines
from fewer.data.spelling import fold_space
from fewer.data.tokenizer import Tokenizer
from fewer.errors import FewerError

LONGEST_TERM = 1000  # characters
LARGEST_WEIGHT = 1e4


class Term(NamedTuple):
    text: str
    weight: float  # natural logarithm that each of its labels is rewarded with
    line: int


def read_terms(path: str | Path) -> list[Term]:
    """The terms of a file; empty lines and those that begin with # say nothing."""
    terms = []
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        text, tab, given = line.partition("\t")
        weight = _weight(given, f"{path}, line {number}") if tab and given.strip() else 1.0
        if not fold_space(text):
            raise FewerError(f"{path}, line {number}: a weight without a term; write the term, a tab, the weight")
        if len(text) > LONGEST_TERM:
            raise FewerError(f"{path}, line {number}: a term of {len(text):,} characters; write one term on each line")
        terms.append(Term(fold_space(text), weight, number))
    if not terms:
        raise FewerError(f"{path} holds no terms; write one on each line")
    return terms


def _weight(text: str, where: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not 0 < weight <= LARGEST_WEIGHT:
        raise FewerError(f"{where}: the weight {shown(text.strip())} is not a number above 0, up to {LARGEST_WEIGHT:g}")
    return weight


def spellings(path: str | Path, tokenizer: Tokenizer) -> dict[tuple[int, ...], float]:
    """The labels of every term in every case that a text may write it in, with its weight."""
    found: dict[tuple[int, ...], float] = {}
    terms = read_terms(path)
    cased = not any(all(term.text == change(term.text) for term in terms) for change in (str.lower, str.upper))
    for text, weight, line in terms:
        spelled = _spelled(variants(text, cased), tokenizer)
        if cased and not spelled:  # a vocabulary of one case
            spelled = _spelled(variants(text, cased=False), tokenizer)
        if not spelled:
            raise FewerError(f"{path}, line {line}: the recogniser's vocabulary cannot spell {text!r}; leave it out")
        for labels in spelled:
            found[labels] = max(weight, found.get(labels, 0.0))
    return found


def variants(term: str, cased: bool) -> set[str]:
    """A term in the cases in which it may be written: as it is, at the start of a sentence, and, if its list is all
    upper or all lower case (not `cased`) and so says nothing about case, in lower and upper case and as a name."""
    chosen = {term, term[:1].upper() + term[1:]}
    if not cased:
        words = term.lower().split(" ")
        chosen |= {term.lower(), term.upper(), " ".join(word[:1].upper() + word[1:] for word in words)}
        chosen.add(term.lower()[:1].upper() + term.lower()[1:])
    return chosen


def _spelled(written: Iterable[str], tokenizer: Tokenizer) -> set[tuple[int, ...]]:
    return {labels for text in written for labels in _labels(text, tokenizer)}


def _labels(text: str, tokenizer: Tokenizer) -> Iterator[tuple[int, ...]]:
    """At the start of a text, and behind another word (where a blank may be a label)."""
    try:
        first, both = tokenizer.encode(text), tokenizer.encode(f"{text} {text}")
    except FewerError:
        return
    if first and tokenizer.unknown not in both:
        yield tuple(first)
        yield tuple(both[len(first) :])
