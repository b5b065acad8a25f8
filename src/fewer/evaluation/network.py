"""Alignment by NIST sclite's rules, for references and hypotheses with alternatives.

A transcript is a small network: `i've { um / uh / @ } as far` has three ways through it, `@` being the empty word. As
in sclite, a substitution costs 4, an insertion or deletion 3, and a tie goes to the substitution first, then to the
insertion. Two options are hubscr's: words in parentheses may be deleted at no error (sclite -D), and a fragment such
as `wor-` matches every word that starts so (sclite -F). Letter case does not count.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fewer.errors import FewerError

SUBSTITUTION, INDEL = 4000, 3000  # sclite's costs in thousandths
OPTIONAL = 2000  # deleting or inserting an optionally deletable word
EMPTY, BOTH_EMPTY = 1, 1000  # skipping the empty word @; pairing two of them
NOTHING = "@"  # the empty word


class Edit(NamedTuple):
    """One column of an alignment."""

    ref: str | None  # None: inserted
    hyp: str | None  # None: deleted
    kind: str  # "=" correct, "S" substitution, "D" deletion, "I" insertion
    position: int  # the reference item it belongs to; for an insertion the item that follows


@dataclass(frozen=True)
class Arc:
    """One word of a transcript network."""

    word: str  # as shown
    key: str  # as compared
    position: int  # index of the word or group of alternatives in its transcript
    before: tuple[int, ...]  # arcs that may precede it; 0 is the start
    optional: bool = False
    fragment: bool = False

    @property
    def empty(self) -> bool:
        return self.key == NOTHING

    @property
    def skip_cost(self) -> int:
        return EMPTY if self.empty else OPTIONAL if self.optional else INDEL


@dataclass(frozen=True)
class Network:
    """The ways through a transcript."""

    arcs: tuple[Arc, ...]  # arcs[0] is the start, not a word
    ends: tuple[int, ...]  # arcs that may be the last
    items: int  # number of words and groups of alternatives


def parse(text: str, hubscr: bool = False, characters: bool = False) -> Network:
    """Read words and `{ a / b c / @ }` groups. `hubscr` gives (word) and wor- their meaning."""
    return _Parser(text, hubscr, characters).network()


class _Parser:
    def __init__(self, text: str, hubscr: bool, characters: bool):
        self.text, self.hubscr, self.characters = text, hubscr, characters
        self.tokens = _tokens(text)
        self.next = 0
        self.arcs = [Arc("", "", -1, ())]

    def network(self) -> Network:
        ends: tuple[int, ...] = (0,)
        position = 0
        while self.next < len(self.tokens):
            if self.tokens[self.next] == "}":
                raise FewerError(f"'}}' without '{{' in the transcript: {self.text:.200}")
            ends = self.item(ends, position)
            position += 1
        return Network(tuple(self.arcs), ends, position)

    def item(self, before: tuple[int, ...], position: int) -> tuple[int, ...]:
        """Read one word or one group; returns the arcs it may end with."""
        token = self.tokens[self.next]
        self.next += 1
        if token != "{":
            return self.word(token, before, position)
        ends: list[int] = []
        while True:
            ends.extend(self.alternative(before, position))
            self.next += 1
            if self.tokens[self.next - 1] == "}":
                return tuple(ends)

    def alternative(self, before: tuple[int, ...], position: int) -> tuple[int, ...]:
        """Read up to, not including, the next / or }."""
        ends, words = before, 0
        while self.next < len(self.tokens) and self.tokens[self.next] not in ("/", "}"):
            ends = self.item(ends, position)
            words += 1
        if self.next == len(self.tokens):
            raise FewerError(f"'{{' without '}}' in the transcript: {self.text:.200}")
        if not words:
            raise FewerError(f"an empty alternative in the transcript (write @ for no word): {self.text:.200}")
        return ends

    def word(self, word: str, before: tuple[int, ...], position: int) -> tuple[int, ...]:
        shown = word[:-1] if len(word) > 1 and word.endswith("*") else word
        key = shown.lower()
        optional = self.hubscr and len(key) > 2 and key[0] == "(" and key[-1] == ")"
        inner = key[1:-1] if optional else key
        if self.characters and inner != NOTHING:
            letters = shown[1:-1] if optional else shown
            for letter in letters:
                self.arcs.append(Arc(letter, letter.lower(), position, before, optional))
                before = (len(self.arcs) - 1,)
            return before
        fragment = self.hubscr and (key[0] == "-" or key[-1] == "-" or (optional and inner[-1] == "-"))
        self.arcs.append(Arc(shown, inner, position, before, optional, fragment))
        return (len(self.arcs) - 1,)


def items(text: str) -> list[str]:
    """The words and groups of alternatives of a transcript, as written."""
    found: list[str] = []
    depth = 0
    for token in _tokens(text):
        if depth:
            found[-1] += f" {token}"
        else:
            found.append(token)
        depth += {"{": 1, "}": -1}.get(token, 0)
    return found


def _tokens(text: str) -> list[str]:
    """Words and braces; a slash separates only inside braces, so that `and/or` is a word."""
    tokens: list[str] = []
    depth = 0
    for token in re.findall(r"[{}]|[^\s{}]+", text):
        depth += {"{": 1, "}": -1}.get(token, 0)
        tokens.extend(part for part in re.split(r"(/)", token) if part) if depth > 0 else tokens.append(token)
    return tokens


def align(ref: Network, hyp: Network) -> list[Edit]:
    """The cheapest alignment of any way through `ref` with any way through `hyp`."""
    start = [0] * len(hyp.arcs)
    start_back = [(0, 0)] * len(hyp.arcs)
    for b, arc in enumerate(hyp.arcs[1:], start=1):
        start[b], start_back[b] = min((start[p] + arc.skip_cost, (0, p)) for p in arc.before)
    costs, backs = [start], [start_back]
    for a, arc in enumerate(ref.arcs[1:], start=1):
        row, back = _row(a, arc, hyp.arcs, costs)
        costs.append(row)
        backs.append(back)
    _, a, b = min((costs[a][b], a, b) for a in ref.ends for b in hyp.ends)
    return _trace(ref, hyp, a, b, backs)


def _row(a: int, ref: Arc, hyps: Sequence[Arc], costs: list[list[int]]) -> tuple[list[int], list[tuple[int, int]]]:
    """Cost and back pointer of ending with reference arc `a` and each hypothesis arc."""
    above, source = costs[ref.before[0]], [ref.before[0]] * len(hyps)
    if len(ref.before) > 1:
        pairs = [min((costs[p][b], p) for p in ref.before) for b in range(len(hyps))]
        above, source = [cost for cost, _ in pairs], [p for _, p in pairs]
    skip, key, plain = ref.skip_cost, ref.key, not ref.fragment
    row, back = [above[0] + skip], [(source[0], 0)]
    for b in range(1, len(hyps)):
        hyp = hyps[b]
        if len(hyp.before) == 1:
            p = q = hyp.before[0]
        else:
            p = min(hyp.before, key=above.__getitem__)
            q = min(hyp.before, key=row.__getitem__)
        if plain and not hyp.fragment and key != NOTHING:
            pair = 0 if key == hyp.key else SUBSTITUTION
        else:
            pair = _pair_cost(ref, hyp)
        substitution, deletion, insertion = above[p] + pair, above[b] + skip, row[q] + hyp.skip_cost
        if substitution <= deletion and substitution <= insertion:
            row.append(substitution)
            back.append((source[p], p))
        elif deletion < insertion:
            row.append(deletion)
            back.append((source[b], b))
        else:
            row.append(insertion)
            back.append((a, q))
    return row, back


def _pair_cost(ref: Arc, hyp: Arc) -> int:
    if ref.empty and hyp.empty:
        return BOTH_EMPTY
    return 0 if _same(ref, hyp) else SUBSTITUTION


def _same(ref: Arc, hyp: Arc) -> bool:
    """Whether two words count as equal; a fragment equals what starts (or, if it begins with -, ends) like it."""
    if ref.fragment or hyp.fragment:
        for part, whole in ((ref.key, hyp.key), (hyp.key, ref.key)):
            if len(part) > 1 and part[0] == "-":
                return whole.endswith(part[1:])
            if len(part) > 1 and part[-1] == "-":
                return whole.startswith(part[:-1])
    return ref.key == hyp.key


def _trace(ref: Network, hyp: Network, a: int, b: int, backs: list[list[tuple[int, int]]]) -> list[Edit]:
    edits: list[Edit] = []
    following = ref.items
    while a or b:
        before_a, before_b = backs[a][b]
        r, h = ref.arcs[a], hyp.arcs[b]
        if before_a == a:
            if not h.empty:
                edits.append(Edit(None, h.word, "=" if h.optional else "I", following))
        elif before_b == b:
            following = r.position
            if not r.empty:
                edits.append(Edit(r.word, None, "=" if r.optional else "D", r.position))
        else:
            following = r.position
            if not (r.empty and h.empty):
                edits.append(Edit(r.word, h.word, "=" if _same(r, h) else "S", r.position))
        a, b = before_a, before_b
    return edits[::-1]
