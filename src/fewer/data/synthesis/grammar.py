"""Weighted grammars in a notation close to JSGF, and the drawing of sentences from them.

    # A comment.
    <order>  = /3/ bring me <number> <fruit> | bring [some] <fruit> (now | at once) ;
    <fruit>  ~ apples | pears | plums ;

`/3/` weighs an alternative (1 unless said), `[x]` is `x` half of the time, an empty alternative says nothing.
A rule written with `~` is a list in order of frequency: the r-th alternative weighs 1 / sqrt(r).
"""

import itertools
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np

from fewer.errors import FewerError

TOKEN = re.compile(r"<\w+>|/[\d.]+/|[=~|;()\[\]]|[a-z']+")


@dataclass(frozen=True)
class Choice:
    """Alternatives, each a sequence of words, rule names in angle brackets and inner choices."""

    options: tuple[tuple["str | Choice", ...], ...]
    cumulative: tuple[float, ...]  # running sums of the options' probabilities, the last one exactly 1


class Grammar:
    """Rules read from text; sentences are drawn from the rule `<sentence>`."""

    def __init__(self, *texts: tuple[str, str]):
        """Each text is a pair of its name, for messages, and its rules; they share one set of rules."""
        self.rules: dict[str, Choice] = {}
        for source, text in texts:
            _Parser(source, text).read_rules(self.rules)
        self._check(" + ".join(source for source, _ in texts))

    @classmethod
    def load(cls, *paths: Path) -> "Grammar":
        """Read the rules of several files as one grammar."""
        return cls(*((path.name, path.read_text(encoding="utf-8")) for path in paths))

    def sentences(self, rng: np.random.Generator) -> Iterator[str]:
        """An endless stream of independently drawn sentences."""
        numbers = itertools.chain.from_iterable(rng.random(4096).tolist() for _ in itertools.count())
        dice = numbers.__next__
        while True:
            words: list[str] = []
            self._draw(self.rules["<sentence>"], dice, words)
            yield " ".join(words)

    def _draw(self, choice: Choice, dice: Callable[[], float], words: list[str]) -> None:
        for part in choice.options[bisect_right(choice.cumulative, dice())]:
            if isinstance(part, Choice):
                self._draw(part, dice, words)
            elif part[0] == "<":
                self._draw(self.rules[part], dice, words)
            else:
                words.append(part)

    def vocabulary(self) -> set[str]:
        """Every word that some sentence may contain."""
        return {part for choice in self._choices() for part in _parts(choice) if part[0] != "<"}

    def _choices(self) -> Iterator[Choice]:
        waiting = list(self.rules.values())
        while waiting:
            choice = waiting.pop()
            yield choice
            waiting += [part for option in choice.options for part in option if isinstance(part, Choice)]

    def _check(self, source: str) -> None:
        """Every rule named must exist, be reachable from <sentence>, and not contain itself."""
        missing = {part for choice in self._choices() for part in _parts(choice) if part[0] == "<"} - set(self.rules)
        if "<sentence>" not in self.rules:
            missing.add("<sentence>")
        if missing:
            raise FewerError(f"{source}: no rule for {', '.join(sorted(missing))}")
        reached: set[str] = set()
        self._reach("<sentence>", (), reached, source)
        if unused := set(self.rules) - reached:
            raise FewerError(f"{source}: never used: {', '.join(sorted(unused))}")

    def _reach(self, name: str, above: tuple[str, ...], reached: set[str], source: str) -> None:
        if name in above:
            raise FewerError(f"{source}: {name} contains itself; sentences might never end")
        if name not in reached:
            for part in _parts(self.rules[name], deep=True):
                if part[0] == "<":
                    self._reach(part, (*above, name), reached, source)
            reached.add(name)


def _parts(choice: Choice, deep: bool = False) -> Iterator[str]:
    """Words and rule names of all alternatives; with `deep`, of the inner choices too."""
    for option in choice.options:
        for part in option:
            if isinstance(part, str):
                yield part
            elif deep:
                yield from _parts(part, deep)


class _Parser:
    """Reads rules from one text; complaints name the line."""

    def __init__(self, source: str, text: str):
        self.source, self.at = source, 0
        self.tokens: list[tuple[str, int]] = []
        for number, line in enumerate(text.splitlines(), start=1):
            line = line.partition("#")[0]
            if strange := re.sub(r"\s+", "", TOKEN.sub("", line)):
                raise FewerError(f"{source}, line {number}: cannot read {strange!r}")
            self.tokens += [(token, number) for token in TOKEN.findall(line)]
        self.tokens.append(("", len(text.splitlines())))

    def read_rules(self, rules: dict[str, Choice]) -> None:
        """Add every rule of the text to `rules`."""
        while self.tokens[self.at][0]:
            name = self.take()
            if name[0] != "<" or name in rules:
                self.complain(f"{name} is already defined" if name in rules else f"expected <rule> =, found {name!r}")
            sign = self.take()
            if sign not in ("=", "~"):
                self.complain(f"expected = or ~ after {name}, found {sign!r}")
            rules[name] = self.read_choice(ranked=sign == "~")
            self.expect(";")

    def read_choice(self, ranked: bool = False, optional: bool = False) -> Choice:
        """Alternatives up to the closing token, which is left to the caller."""
        options: list[tuple[str | Choice, ...]] = []
        weights: list[float] = []
        while True:
            weight = (len(options) + 1) ** -0.5 if ranked else 1.0
            if self.tokens[self.at][0].startswith("/"):
                weight *= float(self.take().strip("/"))
            options.append(tuple(self.read_option()))
            weights.append(weight)
            if self.tokens[self.at][0] != "|":
                break
            self.take()
        if optional:
            options.append(())
            weights.append(sum(weights))
        running = np.cumsum(weights) / np.sum(weights)
        return Choice(tuple(options), (*running[:-1].tolist(), 1.0))

    def read_option(self) -> Iterator["str | Choice"]:
        while (token := self.tokens[self.at][0]) and token not in "|;)]":
            self.take()
            if token in "([":
                yield self.read_choice(optional=token == "[")
                self.expect(")" if token == "(" else "]")
            elif token[0] in "/=~":
                self.complain(f"{token!r} does not belong here")
            else:
                yield token

    def take(self) -> str:
        token = self.tokens[self.at][0]
        self.at += 1
        return token

    def expect(self, wanted: str) -> None:
        if (found := self.take()) != wanted:
            self.complain(f"expected {wanted!r}, found {found or 'the end of the file'!r}")

    def complain(self, problem: str) -> NoReturn:
        raise FewerError(f"{self.source}, line {self.tokens[min(self.at, len(self.tokens)) - 1][1]}: {problem}")
