"""Learning byte-pair encoding as subword-nmt does, merge for merge.

Each merge joins the most frequent pair of neighbouring symbols; of equally frequent ones, the last in the alphabet. For
speed, rare pairs are set aside and looked at again only when the others have become as rare. Counts are kept as
subword-nmt keeps them, also where two different pairs make the same symbol (`ab c` and `a bc`).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from fewer.data.subword_nmt import WORD_END, Merge, SubwordNmtTokenizer, with_end_first
from fewer.errors import FewerError
from fewer.progress import Bar

UNKNOWN = "<unk>"
LEAST = 2  # a pair that occurs less often is not merged
TIDY = 100  # merges after which rare pairs are set aside


def learn_subword_nmt(lines: Iterable[str], merges: int) -> SubwordNmtTokenizer:
    """Learn so many merges. Labels: the end label, the unknown label and all pieces of the text, frequent ones first.

    How many labels that makes is known only afterwards: it is about as many as there are merges.
    """
    words = Counter(word for line in lines for word in line.split())
    if not words:
        raise FewerError("there is no text to learn a tokenizer from")
    learnt = learn_merges(words, merges)
    pieces = SubwordNmtTokenizer([""], learnt, mark_joined=True)
    frequencies: Counter[str] = Counter()
    for word, count in words.items():
        for piece in pieces.pieces(word):
            frequencies[piece] += count
    ranked = sorted(frequencies, key=lambda piece: -frequencies[piece])  # equally frequent ones as they first occur
    labels = with_end_first({label: id for id, label in enumerate([UNKNOWN, *ranked])})
    return SubwordNmtTokenizer(labels, learnt, mark_joined=True)


def learn_merges(words: Mapping[str, int], merges: int) -> list[Merge]:
    """The merges of a text that is given by how often each word occurs; fewer if nothing is left to merge."""
    text = _Text(words)
    learnt: list[Merge] = []
    if not text.frequent:
        return learnt
    threshold = max(text.frequent.values()) / 10
    with Bar("learning merges", merges) as bar:
        for number in range(merges):
            best = text.best()
            if best is None or (number and text.frequent[best] < threshold):
                text.set_aside(threshold)
                text.frequent = defaultdict(int, text.all)
                best = text.best()
                assert best is not None
                threshold = text.frequent[best] * number / (number + 10_000)
                text.set_aside(threshold)
            if text.frequent[best] < LEAST:
                break
            learnt.append(best)
            text.merge(best)
            if number % TIDY == 0:
                text.set_aside(threshold)
            bar.advance()
    return learnt


class _Text:
    """Words as symbols, and how often each pair of neighbouring symbols occurs."""

    def __init__(self, words: Mapping[str, int]):
        ranked = sorted(words.items(), key=lambda entry: -entry[1])
        self.words = [([*word[:-1], word[-1] + WORD_END], count) for word, count in ranked]
        self.frequent: defaultdict[Merge, int] = defaultdict(int)  # counts of pairs that are not set aside
        self.places: defaultdict[Merge, Counter[int]] = defaultdict(Counter)  # words that hold a pair, how many times
        for place, (symbols, count) in enumerate(self.words):
            for pair in pairwise(symbols):
                self._count(pair, place, count, 1)
        self.all = defaultdict(int, self.frequent)  # counts of all pairs; of those not set aside, old ones

    def best(self) -> Merge | None:
        return max(self.frequent, key=lambda pair: (self.frequent[pair], pair), default=None)

    def set_aside(self, threshold: float) -> None:
        for pair, count in [entry for entry in self.frequent.items() if entry[1] < threshold]:
            del self.frequent[pair]
            self.all[pair] = self.all[pair] + count if count < 0 else count

    def merge(self, pair: Merge) -> None:
        """Join the pair wherever it stands, and count its neighbours anew."""
        places = [place for place, times in self.places[pair].items() if times > 0]
        self.places[pair] = Counter()
        for place in places:
            old, count = self.words[place]
            new = joined(old, pair)
            self.words[place] = (new, count)
            for neighbours in _lost(old, pair):
                self._count(neighbours, place, -count, -1)
            for neighbours in _won(new, pair[0] + pair[1]):
                self._count(neighbours, place, count, 1)
        self.frequent[pair] = 0

    def _count(self, pair: Merge, place: int, count: int, times: int) -> None:
        self.frequent[pair] += count
        self.places[pair][place] += times


def _lost(symbols: list[str], pair: Merge) -> Iterator[Merge]:
    """Pairs of the symbols that are no more once `pair` is joined; of `B A` in `A B A B` one only."""
    position = 0
    while position < len(symbols) - 1:
        if (symbols[position], symbols[position + 1]) != pair:
            position += 1
            continue
        if position:
            yield symbols[position - 1], pair[0]
        following = symbols[position + 2 : position + 4]
        if following and tuple(following) != pair:
            yield pair[1], following[0]
        position += 2


def _won(symbols: list[str], symbol: str) -> Iterator[Merge]:
    """Pairs that each occurrence of `symbol` is in."""
    for position, here in enumerate(symbols):
        if here == symbol and position:
            yield symbols[position - 1], symbol
        if here == symbol and position < len(symbols) - 1 and symbols[position + 1] != symbol:
            yield symbol, symbols[position + 1]


def joined(symbols: list[str], pair: Merge) -> list[str]:
    """The symbols with the pair joined, from left to right."""
    result: list[str] = []
    position = 0
    while position < len(symbols):
        found = symbols[position] == pair[0] and symbols[position + 1 : position + 2] == [pair[1]]
        result.append(pair[0] + pair[1] if found else symbols[position])
        position += 2 if found else 1
    return result
