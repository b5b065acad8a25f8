"""A system as a method of tuning: something that can be decoded at any scales."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from fewer.compute.engines.engine import Job
from fewer.decoding.decode import Searching
from fewer.decoding.encoding import EncodedBatch
from fewer.decoding.system import System
from fewer.search.beam import SearchOptions
from fewer.search.forced import add_terms
from fewer.search.nbest import NBest
from fewer.tuning.methods import Method
from fewer.tuning.space import Scales


def tuning_method(
    name: str,
    system: System,
    batches: Sequence[EncodedBatch],
    search: SearchOptions,
    marks: Callable[[System], str],
    ends: bool = False,
) -> Method:
    """A system that can be decoded at any scales, and score what another one's search has found.

    marks: its `identity`. ends: it can also be decoded with other terms scoring the end label.
    """
    scorers = system.scorers()
    work = Searching(system, batches, scorers)

    def decode(scales: Scales) -> Job:
        return Job(work, range(len(batches)), (dict(scales.terms), replace(search, length=scales.length)))

    def rescore(lists: list[NBest]) -> list[NBest]:
        scored = lists[0].hypotheses[0].scores
        lacking = [scorer for scorer in scorers if not scored.keys() >= set(scorer.terms)]
        depends = {"aed"} if system.centred else set()
        depends |= {"ilm"} if system.share else set()
        needed = [scorer for scorer in scorers if scorer in lacking or depends & set(scorer.terms)]
        encoded = (([utterance.id for utterance in batch.utterances], batch.encoded) for batch in batches)
        return add_terms(system.fusion({}, needed), encoded, lists)

    own = {"ilm", "lm"} if system.share and system.ilm is not None else {"ilm"}  # an LM that is mixed is not common
    terms = system.fusion({}, scorers).terms
    others = []
    usual = tuple(system.end_by(terms))
    for end_by in other_ends(terms, usual) if ends else ():
        other = replace(system, end_scored_by=end_by)
        others.append(tuning_method(name, other, batches, search, marks))
    method = Method(name, terms, decode, rescore, frozenset(own), identity=marks(system))
    return replace(method, end_by=usual, other_ends=tuple(others))


def other_ends(terms: Sequence[str], usual: Sequence[str]) -> list[tuple[str, ...]]:
    """Whom else the end label can be scored by: the recogniser, its LM as well, or its internal LM too."""
    rest = [term for term in terms if term not in ("lm", "ilm")]
    rules = [tuple(term for term in terms if term in (*rest, *by)) for by in ((), ("lm",), ("lm", "ilm"))]
    return [rule for rule in dict.fromkeys(rules) if set(rule) != set(usual)]
