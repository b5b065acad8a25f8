"""NIST's global mapping files (.glm), which make spellings that mean the same equal before scoring.

    ;; a comment; the first line's first word is the comment mark
    * case_sensitive = 'F'
    UH-HUH   => %BCACK              / [ ] __ [ ]
    [CAN'T]  => [{CAN NOT / CANNOT}] / [ ] __ [ ]
    T.       => TEE                 / __ [ SHIRT]
    ;; INPUT_DEPENDENT_APPLICATION = "ctm"      what follows is for hypotheses only

A rule `A => B / C __ D` writes B for A between C and D. As in NIST's rfilter1, rules are tried in the file's order at
each character from left to right, sides are literal strings (brackets or quotes keep their blanks), contexts look at
the text as it was, and what a rule wrote is not read again. Around it is csrfilt -dh: upper case, hyphens inside words
become blanks, and (two words) in parentheses become (two) (words). A rule that rfilter1 misreads without a word
(no blank after =>, alternatives outside brackets, an unfinished bracket or context) is an error as soon as it would
apply, but does no harm before: NIST's own files have such slips.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from fewer.config import shown
from fewer.data.lines import read_lines
from fewer.errors import FewerError

Side = Literal["ref", "hyp"]
INPUTS = {"ref": ("stm", "ref"), "hyp": ("ctm", "hyp")}  # what csrfilt calls each side's format and purpose
SECTION = re.compile(r';;\s+INPUT_DEPENDENT_APPLICATION\s*=\s*"([^"]*)"')


@dataclass(frozen=True)
class Rule:
    """`source` becomes `target` where `left` precedes and `right` follows."""

    source: str
    target: str
    left: str = ""
    right: str = ""
    problem: str = ""  # where and why it cannot be read


class Glm:
    """The rules of one file for references and for hypotheses."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        lines = list(read_lines(path))
        self.rules = {side: _read_rules(self.path, lines, inputs) for side, inputs in INPUTS.items()}
        self.case_sensitive = _case_sensitive(self.path, lines)
        self._by_first = {side: _by_first(rules, self.case_sensitive) for side, rules in self.rules.items()}

    def __call__(self, text: str, side: Side) -> str:
        """Filter one transcript as csrfilt does."""
        text = _upper(" ".join(text.split()))
        _check_parentheses(text)
        text = re.sub(r"\(", "( ", text)
        text = re.sub(r"\)", " )", text)
        text = self.map(f" {text} ", side)
        text = re.sub(r"([^( ])-(?=[^) ])", r"\1 ", text)
        text = _one_word_each(text)
        text = re.sub(r"\(\s+", "(", text)
        text = re.sub(r"\s+\)", ")", text)
        return " ".join(text.split())

    def map(self, text: str, side: Side) -> str:
        """Apply the rules alone, as rfilter1 does."""
        matched = text if self.case_sensitive else _upper(text)
        by_first = self._by_first[side]
        done: list[str] = []
        at = 0
        while at < len(text):
            for rule in by_first.get(matched[at], ()):
                end = at + len(rule.source)
                if (
                    matched.startswith(rule.source, at)
                    and matched.startswith(rule.right, end)
                    and at >= len(rule.left)
                    and matched.startswith(rule.left, at - len(rule.left))
                ):
                    if rule.problem:
                        raise FewerError(f"{shown(text.strip())} needs the rule in {rule.problem}; mend it")
                    done.append(rule.target)
                    at = end
                    break
            else:
                done.append(text[at])
                at += 1
        return "".join(done)


def _by_first(rules: Iterable[Rule], case_sensitive: bool) -> dict[str, list[Rule]]:
    """Rules by the first character of their source, in the file's order, in the case they are compared in."""
    found: dict[str, list[Rule]] = {}
    for rule in rules:
        if not case_sensitive:
            rule = replace(rule, source=_upper(rule.source), left=_upper(rule.left), right=_upper(rule.right))
        found.setdefault(rule.source[0], []).append(rule)
    return found


def _upper(text: str) -> str:
    """ASCII letters in upper case; the length stays."""
    return re.sub("[a-z]+", lambda match: match[0].upper(), text)


def _comment_mark(path: Path, lines: list[str]) -> str:
    mark = re.match(r"[!-~]*", lines[0])[0] if lines else ""  # type: ignore[index]
    if not mark or mark == "*":
        raise FewerError(f"{path}, line 1: a mapping file starts with a comment, whose first word (;;) marks comments")
    return mark


def _read_rules(path: Path, lines: list[str], inputs: tuple[str, str]) -> list[Rule]:
    mark = _comment_mark(path, lines)
    rules: list[Rule] = []
    applies = True
    for number, line in enumerate(lines, start=1):
        if section := SECTION.match(line):
            applies = any(re.search(section[1].lower(), name) for name in inputs)
        text = line.partition(mark)[0].strip()
        if number > 1 and applies and text and not line.startswith("*"):
            rules.append(_rule(text, f"{path}, line {number}"))
    return rules


def _case_sensitive(path: Path, lines: list[str]) -> bool:
    """Read the header lines, which start with *."""
    sensitive = True
    for number, line in enumerate(lines, start=1):
        if not line.startswith("*"):
            continue
        value = re.search(r"[\"']([^\"']*)[\"']", line)
        if value is None:
            raise FewerError(f"{path}, line {number}: a line that starts with * needs a value in quotes")
        name = line[1:].strip().lower()
        if name.startswith("format") and value[1] != "NIST1":
            raise FewerError(f"{path}, line {number}: format '{value[1]}' is not known; only NIST1 is")
        if name.startswith("copy_no_hit") and not value[1].upper().startswith("T"):
            raise FewerError(f"{path}, line {number}: copy_no_hit = '{value[1]}', which drops text, is not supported")
        if name.startswith("case_sensitive"):
            sensitive = value[1].upper().startswith("T")
    return sensitive


def _rule(text: str, where: str) -> Rule:
    """Parse `A => B` or `A => B / C __ D`."""
    source, arrow, rest = text.partition("=>")
    source = _unquote(source.strip())
    if not arrow or not source:
        raise FewerError(f"{where}: expected 'A => B / [C] __ [D]', found {shown(text)}")
    if rest and not rest[0].isspace():
        return Rule(source, "", problem=f"{where}: no blank after =>")
    quoted = re.fullmatch(r"(\[[^\]]*\]|\"[^\"]*\")\s*(/.*)?", rest.strip())
    if quoted:
        target, context = quoted[1], quoted[2]
    else:
        target, slash, context = rest.strip().rpartition("/")
        target, context = (target.strip(), slash + context) if slash else (context, None)
        if re.search(r"[][{}]", target):
            return Rule(source, "", problem=f"{where}: an unfinished bracket, or alternatives without [ ] around them")
    if not context:
        return Rule(source, _unquote(target))
    side = r"(\[[^]]*\]|\"[^\"]*\"|[^][\s_]*)"
    sides = re.fullmatch(rf"/\s*{side}\s*_+\s*{side}", context)
    if sides is None or "_" in sides[1]:
        return Rule(source, "", problem=f"{where}: a context other than '/ [left] __ [right]'")
    return Rule(source, _unquote(target), _unquote(sides[1]), _unquote(sides[2]))


def _unquote(text: str) -> str:
    """Without the brackets or quotes around it; what they hold counts with its blanks."""
    if len(text) >= 2 and text[0] + text[-1] in ("[]", '""'):
        return text[1:-1]
    return text


def _check_parentheses(text: str) -> None:
    if re.search(r"[()]", re.sub(r"\([^()]+\)", " ", text)):
        raise FewerError(f"parentheses, which mark words that may be deleted, do not pair up: '{text:.120}'")


def _one_word_each(text: str) -> str:
    """( A B ) becomes ( A ) ( B )."""
    return re.sub(r"\(([^()]*)\)", lambda match: " ".join(f"( {word} )" for word in match[1].split()), text)
