"""Rows of a table that do not search: they rank anew what the searches of other rows have found.

The hypotheses of those rows, together, are scored by the row's own internal LM, exactly as its search would score
them. Scales are tuned on such lists of the dev set and used once on those of every set that is reported.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import islice

from fewer.decoding.encoding import EncodedBatch
from fewer.decoding.forced import context_scores
from fewer.decoding.system import System
from fewer.errors import FewerError
from fewer.models.encoded import Encoded
from fewer.search.forced import add_terms
from fewer.search.nbest import Hypothesis, NBest
from fewer.tuning.methods import Method
from fewer.tuning.space import Scales

TOGETHER = 16  # utterances whose hypotheses an n-gram scores at once

Encode = Callable[[], Iterable[EncodedBatch]]


def united(lists: Sequence[Sequence[NBest]], without: str = "ilm") -> list[NBest]:
    """All hypotheses that any of several searches of the same set found, without the term of their own ILMs."""
    found = []
    for same in zip(*lists, strict=True):
        if len({nbest.id for nbest in same}) > 1:
            raise FewerError(f"lists of different sets cannot be one: {', '.join(nbest.id for nbest in same)}")
        hypotheses: dict[tuple[tuple[int, ...], bool], Hypothesis] = {}
        for hypothesis in (h for nbest in same for h in nbest.hypotheses):
            scores = {term: score for term, score in hypothesis.scores.items() if term != without}
            hypotheses.setdefault((hypothesis.tokens, hypothesis.ended), replace(hypothesis, scores=scores))
        found.append(replace(same[0], hypotheses=tuple(hypotheses.values())))
    return found


def with_ilm(system: System, lists: list[NBest], encode: Encode) -> list[NBest]:
    """The lists with the scores of the system's internal LM. encode: the set's encoder states, if they are needed."""
    ilm, recogniser = system.ilm, system.recogniser
    if ilm is None:
        return lists
    if ilm.separate is not None:
        fusion = system.fusion({}, [scorer for scorer in system.scorers() if "ilm" in scorer.terms])
        return add_terms(fusion, ((ids, ids) for ids in _groups([nbest.id for nbest in lists])), lists)
    assert ilm.context is not None
    by_id = {nbest.id: nbest for nbest in lists}
    heard: Iterable[tuple[str, Encoded | None, int]] = ((id, None, 0) for id in list(by_id))
    if ilm.context.needs_encoder:
        heard = ((u.id, batch.encoded, place) for batch in encode() for place, u in enumerate(batch.utterances))
    end_scored = bool(system.end_by(["ilm"]))
    for id, encoded, place in heard:
        found = by_id[id].hypotheses
        scores = context_scores(recogniser, ilm.context, found, encoded, place, end_scored=end_scored)
        scored = [replace(h, scores=h.scores | {"ilm": score}) for h, score in zip(found, scores, strict=True)]
        by_id[id] = replace(by_id[id], hypotheses=tuple(scored))
    return [by_id[nbest.id] for nbest in lists]


def reranked(lists: Iterable[NBest], scales: Scales) -> list[NBest]:
    """The lists in the order of these scales."""
    result = []
    for nbest in lists:
        scored = [replace(h, score=h.rescored(scales.terms, scales.length)) for h in nbest.hypotheses]
        result.append(replace(nbest, hypotheses=tuple(sorted(scored, key=lambda h: -h.score))))
    return result


def second_pass_method(name: str, system: System, lists: list[NBest], identity: str) -> Method:
    """A method of tuning whose decodes rank the same lists, which are its own: no other method can share them."""
    terms = system.fusion({}).terms
    return Method(name, terms, lambda scales: reranked(lists, scales), own=frozenset(terms), identity=identity)


def _groups(ids: Sequence[str]) -> Iterable[list[str]]:
    rest = iter(ids)
    while group := list(islice(rest, TOGETHER)):
        yield group
