"""A system as a method of tuning: something that can be decoded at any scales."""

from collections.abc import Sequence
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
    identity: str,
    processes: int = 1,
) -> Method:
    """A system that can be decoded at any scales, and score what another one's search has found."""
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
    return Method(name, system.fusion({}, scorers).terms, decode, rescore, frozenset(own), identity=identity)


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
