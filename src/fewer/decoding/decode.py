"""Decoding a set: batches by length, in shards that any engine does, N-best lists in the manifest's order."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from fewer.compute.engines.engine import Engine, Job, Local, Work
from fewer.compute.memory import Halving
from fewer.data.manifest import Manifest
from fewer.decoding.encoding import EncodedBatch, EncodedSet, named
from fewer.decoding.identity import identity
from fewer.decoding.parts import Parts, Share, merge
from fewer.decoding.system import System
from fewer.errors import FewerError
from fewer.files import check_output
from fewer.locks import exclusive
from fewer.progress import Bar, say
from fewer.search.beam import SearchError, SearchOptions, beam_search
from fewer.search.nbest import Header, NBest
from fewer.search.scorer import Scorer
from fewer.store.hf_words import WordwiseLm
from fewer.store.kept import KeptTensors
from fewer.version import __version__


class Searching(Work):
    """Finds the N-best lists of batches, at any scales."""

    def __init__(self, system: System, batches: Sequence[EncodedBatch], scorers: list[Scorer] | None = None):
        self.system, self.batches, self.device = system, batches, system.recogniser.device
        self.scorers, self.halving = scorers or system.scorers(), Halving()

    def __call__(self, shard: int, *arguments: Any) -> Any:
        """arguments: scales and options of the search."""
        return list(self.found(self.batches[shard], *arguments))

    def found(
        self, batch: EncodedBatch, scales: Mapping[str, float], options: SearchOptions
    ) -> Iterator[tuple[int, NBest]]:
        """N-best lists with their line in the manifest."""
        for lists in self.halving(partial(self._search, batch, scales, options), range(len(batch.utterances))):
            yield from lists

    def _search(
        self, whole: EncodedBatch, scales: Mapping[str, float], options: SearchOptions, places: Sequence[int]
    ) -> list[tuple[int, NBest]]:
        batch, recogniser = whole.part(places), self.system.recogniser
        fusion, limits = self.system.fusion(scales, self.scorers), recogniser.max_lengths(batch.encoded)
        try:
            lists = beam_search(fusion, batch.encoded, limits, options, recogniser.tokenizer.decode)
        except SearchError as error:
            raise FewerError(f"utterance {batch.utterances[error.index].id}: {error.problem}") from error
        pairs = zip(batch.utterances, lists, strict=True)
        return [(u.index, NBest(u.id, hypotheses, u.ref, u.speaker)) for u, hypotheses in pairs]

    def name(self, shard: int) -> str:
        batches = self.batches
        return named(batches, batches.groups[shard]) if isinstance(batches, EncodedSet) else f"batch {shard}"


def search_set(
    system: System,
    batches: Sequence[EncodedBatch],
    scales: Mapping[str, float],
    options: SearchOptions,
    scorers: list[Scorer] | None = None,
    engine: Engine = Local(),
) -> Iterator[tuple[int, NBest]]:
    """N-best lists with their line in the manifest, batch by batch."""
    work = Searching(system, batches, scorers)
    for _, lists in engine.map(work, range(len(batches)), dict(scales), options):
        yield from lists


class _Decoding(Searching):
    """Writes the N-best lists of shards, each into a file of its own."""

    def __init__(self, system: System, encoded: EncodedSet, parts: Parts):
        super().__init__(system, encoded)
        self.encoded, self.parts = encoded, parts

    def __call__(self, shard: int, *arguments: Any) -> Any:
        """The number of utterances."""
        batches = self.encoded.read_ahead(self.parts.batches(shard))
        return self.parts.write(shard, (found for batch in batches for found in self.found(batch, *arguments)))

    def count(self, shards: Sequence[int]) -> int:
        """Their utterances."""
        return sum(len(self.parts.items(shard)) for shard in shards)

    def name(self, shard: int) -> str:
        items = self.parts.items(shard)
        return f"shard {shard} ({named(self.encoded, items)})"


def header(system: System, scales: Mapping[str, float], options: SearchOptions, info: dict[str, Any]) -> Header:
    fusion = system.fusion(scales)
    return Header(fusion.terms, fusion.scales, options.length, {**system.names, "beam": options.beam, **info})


@dataclass(frozen=True)
class Decode:
    """What is decoded into an N-best file."""

    system: System
    manifest: Path
    out: Path
    scales: Mapping[str, float]
    options: SearchOptions
    info: Mapping[str, Any]  # what the file's header should say besides


def decode(
    system: System,
    manifest: str | Path,
    out: str | Path,
    scales: Mapping[str, float],
    options: SearchOptions = SearchOptions(),
    engine: Engine = Local(),
    info: Mapping[str, Any] | None = None,
    share: Share | None = None,
) -> int:
    """One of `decode_all`."""
    return decode_all([Decode(system, Path(manifest), Path(out), scales, options, info or {})], engine, share)


def decode_all(decodes: Sequence[Decode], engine: Engine = Local(), share: Share | None = None) -> int:
    """Decode manifests into N-best files, each complete or absent. Their shards are done side by side.

    Shards that are done lie beside a file until all are, so that the same call goes on where it was. share: do only
    these shards, and leave them for `merge`. Returns the number of utterances that were asked for.
    """
    with ExitStack() as locks:
        works = [_begin(one, engine, share, locks) for one in decodes]
        asked = [[shard for shard in work.parts.shards if share is None or share.has(shard)] for work in works]
        jobs = [
            Job(work, [shard for shard in shards if not work.parts.has(shard)], (dict(one.scales), one.options))
            for one, work, shards in zip(decodes, works, asked, strict=True)
        ]
        left = engine.same([job.shards for job in jobs])
        jobs = [replace(job, shards=shards) for job, shards in zip(jobs, left, strict=True)]
        missing = [len(shards) for shards in left]

        def finish(number: int) -> None:
            if not missing[number] and share is None and engine.first:
                merge(decodes[number].out)

        for number in range(len(jobs)):
            finish(number)  # of a run that was stopped, perhaps
        sets = ", ".join(dict.fromkeys(one.manifest.stem for one in decodes))
        with Bar(f"decoding {sets}", sum(map(_Decoding.count, works, left))) as bar:
            for number, done in engine.side_by_side(jobs):
                bar.advance(done)
                missing[number] -= 1
                finish(number)
        engine.wait()
    for lm in {id(one.system.lm): one.system.lm for one in decodes}.values():
        if isinstance(lm, WordwiseLm) and lm.asked.words:
            say(str(lm.asked))
    return sum(map(_Decoding.count, works, asked))


def _begin(one: Decode, engine: Engine, share: Share | None, locks: ExitStack) -> _Decoding:
    """Lock the file, and divide the work unless that was done before. locks: what is undone at the end."""
    opened, system = Manifest(one.manifest, transcripts=False), one.system
    check_output(one.out)
    head = header(system, one.scales, one.options, {"set": one.manifest.stem, **one.info})
    marks = identity(system, one.options, opened.path, repr(sorted(one.scales.items())), repr(head), __version__)
    locks.enter_context(exclusive(one.out.parent, f".{one.out.name}{share or ''}.lock", engine.first))
    encoded = EncodedSet(system.recogniser, opened, KeptTensors(), groups=(), engine=engine)
    if engine.first:
        plan = partial(encoded.batches.plan, 1)
        Parts.begin(one.out, marks, head, plan, system.recogniser.device.type != "cpu", share is not None)
    engine.wait()
    parts = Parts.open(one.out)
    locks.callback(parts.remove_if_empty)
    encoded.groups = parts.groups
    return _Decoding(system, encoded, parts)
