"""N-best lists as the page stores them: each text once with its alignment, and every term's scores as numbers.

The page ranks them anew as `Hypothesis.rescored` does. Hypotheses that cannot win anywhere within the range of the
sliders are left out, which changes no result.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewer.errors import FewerError
from fewer.evaluation.alignment import Rules, align
from fewer.evaluation.network import Edit, items
from fewer.evaluation.normalise import Normaliser
from fewer.report.blob import Blob
from fewer.search.nbest import Header, Hypothesis, NBest, read_header, read_nbest
from fewer.tuning.pool import Metric, Pool
from fewer.tuning.surface import beaten

HIGHEST_SCALE, SCALE_STEP = 1.5, 0.01  # of the sliders
EXPONENTS = tuple(round(0.05 * step, 2) for step in range(31))  # 0 to 1.5
REWARDS = (-2.0, 4.0)
SUBTRACTED = ("ilm",)


@dataclass
class TextStore:
    """The utterances of a set and the distinct texts that any method has for them, aligned with the reference."""

    normaliser: Normaliser
    ids: list[str] = field(default_factory=list)
    refs: list[str] = field(default_factory=list)
    speakers: list[str] = field(default_factory=list)
    texts: list[dict[str, int]] = field(default_factory=list)  # of each utterance: text -> its number
    edits: list[list[tuple[Edit, ...]]] = field(default_factory=list)  # of each text: its alignment
    place: dict[str, int] = field(default_factory=dict)  # utterance id -> its number

    @property
    def rules(self) -> Rules:
        """How errors are counted: as experiments do."""
        return "hubscr" if self.normaliser.glm else "plain"

    def utterance(self, nbest: NBest, path: Path, known: bool) -> int:
        """The number of an utterance; `known`: the set is complete, so that it must be there."""
        if nbest.ref is None:
            raise FewerError(f"{path}: utterance {nbest.id} has no reference, so it cannot be shown beside one")
        ref = self.normaliser.ref(nbest.ref)
        if nbest.id not in self.place:
            if known:
                raise FewerError(f"{path}: utterance {nbest.id} is not in the other methods' files of this set")
            self.place[nbest.id] = len(self.ids)
            self.ids.append(nbest.id)
            self.refs.append(ref)
            self.speakers.append(nbest.speaker or "")
            self.texts.append({})
            self.edits.append([])
        index = self.place[nbest.id]
        if self.refs[index] != ref:
            raise FewerError(f"{path}: utterance {nbest.id} has another reference than in the other methods' files")
        return index

    def text(self, index: int, hypothesis: Hypothesis) -> int:
        """The number, within its utterance, of a hypothesis's text."""
        text = self.normaliser.hyp(hypothesis.text)
        texts = self.texts[index]
        if text not in texts:
            texts[text] = len(texts)
            self.edits[index].append(align(self.refs[index], text, self.rules))
        return texts[text]

    def pack(self, name: str, blob: Blob) -> dict[str, Any]:
        """`edits` has one of =SDI for each column of an alignment, from which the plain rules' columns follow.

        Where references have alternatives, `items` are the words and groups of each, and `columns` says of each edit
        which item it belongs to, the hypothesis's word, and whether it stands before that item.
        """
        starts = np.cumsum([0, *(len(texts) for texts in self.texts)])
        alignments = [edits for texts in self.edits for edits in texts]
        plain = self.rules == "plain"
        return {
            "ids": self.ids,
            "refs": self.refs,
            "speakers": self.speakers if any(self.speakers) else None,
            "texts": [text for texts in self.texts for text in texts],
            "edits": ["".join(edit.kind for edit in edits) for edits in alignments],
            "items": None if plain else [items(ref) for ref in self.refs],
            "columns": None if plain else [[(e.position, e.hyp, e.ref is None) for e in edits] for edits in alignments],
            "starts": blob.add(f"{name}/starts", starts, "i32", delta=True),
        }


@dataclass(frozen=True)
class Ranges:
    """How far the sliders of one list go. All are as the user sees them, the subtracted term's positive."""

    scales: dict[str, tuple[float, float]]  # of each term that has a slider
    exponents: tuple[float, ...]  # a single one if the reward has the slider
    rewards: tuple[float, float]  # lowest and highest; equal if the exponent has the slider

    @classmethod
    def of(cls, header: Header) -> "Ranges":
        scales = {
            term: (0.0, max(HIGHEST_SCALE, sign(term) * header.scales.get(term, 0.0)))
            for term in header.terms
            if term in ("lm", *SUBTRACTED)
        }
        length = header.length
        if length.reward != 0.0 or length.exponent == 0.0:
            rewards = (min(REWARDS[0], length.reward), max(REWARDS[1], length.reward))
            return cls(scales, (length.exponent,), rewards)
        return cls(scales, tuple(sorted({*EXPONENTS, length.exponent})), (0.0, 0.0))


def sign(term: str) -> float:
    return -1.0 if term in SUBTRACTED else 1.0


def pack_list(path: Path, name: str, store: TextStore, blob: Blob) -> tuple[dict[str, Any], NDArray[np.int64]]:
    """One method's N-best lists of a set, with what the page must know to rank them; also the lengths that occur."""
    header = read_header(path)
    pool = Pool.load(path, Metric(store.normaliser))  # its counts of errors are not used
    ranges = Ranges.of(header)
    kept = pool.arrays().valid & ~_never_best(pool, header, ranges)  # (U, H)
    known = bool(store.ids)
    lists = {store.utterance(nbest, path, known): (nbest, row) for nbest, row in zip(pool.lists(), kept, strict=True)}
    _check_complete(lists.keys(), store, path)
    found = [h for index in range(len(store.ids)) for h in _survivors(*lists[index])]
    texts = [store.text(i, h) for i in range(len(store.ids)) for h in _survivors(*lists[i])]
    counts = [int(lists[index][1].sum()) for index in range(len(store.ids))]
    terms = summing_order(header)
    scores = np.array([[h.scores[term] for h in found] for term in terms])  # (terms, hypotheses)
    lengths = np.array([h.length for h in found])
    packed = {
        "terms": terms,
        "scales": [header.scales.get(term, 0.0) for term in terms],
        "exponent": header.length.exponent,
        "reward": header.length.reward,
        "ranges": {term: list(ends) for term, ends in ranges.scales.items()},
        "exponents": list(ranges.exponents),
        "rewards": list(ranges.rewards),
        "hypotheses": len(pool),
        "counts": blob.add(f"{name}/counts", np.array(counts), "i32"),
        "texts": blob.add(f"{name}/texts", np.array(texts), "i32"),
        "lengths": blob.add(f"{name}/lengths", lengths, "i32"),
        "scores": blob.add(f"{name}/scores", scores, "f64"),
    }
    return packed, np.unique(lengths)


def summing_order(header: Header) -> list[str]:
    """The terms in the order in which `fewer score` adds them up: the order changes the last bit of a sum."""
    return [*header.scales, *(term for term in header.terms if term not in header.scales)]


def pack_best(path: Path, name: str, store: TextStore, blob: Blob) -> str:
    """The texts that a search put first. (U,)"""
    known = bool(store.ids)
    best = {store.utterance(nbest, path, known): nbest.hypotheses[0] for nbest in read_nbest(path) if nbest.hypotheses}
    _check_complete(best.keys(), store, path)
    texts = [store.text(index, best[index]) for index in range(len(store.ids))]
    return blob.add(f"{name}/best", np.array(texts), "i32")


def pack_powers(lists: Iterable[dict[str, Any]], lengths: NDArray[np.int64], blob: Blob) -> dict[str, Any]:
    """length^exponent for every length and exponent that can occur, by Python's own power.

    A browser's power may differ in the last bit, and then so might a ranking.
    """
    exponents = sorted({exponent for one in lists for exponent in one["exponents"]})
    values = np.array([[int(n) ** exponent for n in lengths] for exponent in exponents], dtype=float)
    return {
        "exponents": exponents,
        "lengths": blob.add("powers/lengths", lengths, "i32", delta=True),
        "values": blob.add("powers/values", values, "f64"),
    }


def _never_best(pool: Pool, header: Header, ranges: Ranges) -> NDArray[np.bool_]:
    """(U, H): hypotheses that another one beats wherever the sliders stand."""
    coefficients = []
    for term in pool.terms:
        fixed = np.array([header.scales.get(term, 0.0)])
        coefficients.append(sign(term) * np.array(ranges.scales[term]) if term in ranges.scales else fixed)
    return beaten(pool, coefficients, np.array(ranges.rewards), np.array(ranges.exponents))


def _survivors(nbest: NBest, kept: NDArray[np.bool_]) -> list[Hypothesis]:
    return [h for h, keep in zip(nbest.hypotheses, kept, strict=False) if keep]


def _check_complete(found: Iterable[int], store: TextStore, path: Path) -> None:
    missing = sorted(set(range(len(store.ids))) - set(found))
    if missing:
        raise FewerError(
            f"{path}: utterance {store.ids[missing[0]]} is missing, which other methods have; decode the same set"
        )
