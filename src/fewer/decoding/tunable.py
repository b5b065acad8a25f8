"""A system as a method of tuning: something that can be decoded at any scales."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from fewer.decoding.decode import EncodedBatch, search_set
from fewer.decoding.system import System
from fewer.files import fingerprint
from fewer.ilm.registry import source_of
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
    processes: int = 1,
    ends: bool = False,
) -> Method:
    """A system that can be decoded at any scales, and score what another one's search has found.

    marks: its `identity`. ends: it can also be decoded with other terms scoring the end label.
    """
    scorers = system.scorers()

    def decode(scales: Scales) -> list[NBest]:
        options = replace(search, length=scales.length)
        found = dict(search_set(system, batches, scales.terms, options, scorers, processes))
        return [found[index] for index in sorted(found)]

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
    for end_by in other_ends(terms, system.end_by(terms)) if ends else ():
        other = replace(system, end_scored_by=end_by)
        others.append(replace(tuning_method(name, other, batches, search, marks, processes), end_by=end_by))
    return Method(name, terms, decode, rescore, frozenset(own), identity=marks(system), other_ends=tuple(others))


def other_ends(terms: Sequence[str], usual: Sequence[str]) -> list[tuple[str, ...]]:
    """Whom else the end label can be scored by: the recogniser, its LM as well, or its internal LM too."""
    rest = [term for term in terms if term not in ("lm", "ilm")]
    rules = [tuple(term for term in terms if term in (*rest, *by)) for by in ((), ("lm",), ("lm", "ilm"))]
    return [rule for rule in dict.fromkeys(rules) if set(rule) != set(usual)]


def identity(system: System, search: SearchOptions, *others: str | Path) -> str:
    """Names what a decode depends on: models by their weights, the search, and others such as the set or scales.

    An internal LM also by its options, and a method of the user's own by its code: some have no weights.
    """
    parts: list[str | Path] = [system.recogniser.encoded_by, repr(search), repr(system.ctc)]
    parts += [repr(system.end_scored_by), *others, *(["centred"] if system.centred else [])]
    parts += [f"share {system.share}"] if system.share else []
    for name in ("lm", "ilm", "words"):
        path = Path(system.names[name]) if name in system.names else None
        weights = [] if path is None else sorted([*path.glob("*.safetensors"), *path.glob("lm/*.safetensors")])
        parts += ["none"] if path is None else weights or [path if path.is_file() else str(path)]
    if system.ilm is not None:
        config = system.ilm.config
        parts += [config.model_dump_json(exclude={"encodings", "task"}), *source_of(config.method)]
    return fingerprint(*parts)
