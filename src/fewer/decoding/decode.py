"""Decoding a set: batches by length, in shards that any engine does, N-best lists in the manifest's order."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fewer.compute.engines.engine import Engine, Local, Work
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
    return search_by(engine, Searching(system, batches, scorers), scales, options)


def search_by(
    engine: Engine, work: Searching, scales: Mapping[str, float], options: SearchOptions
) -> Iterator[tuple[int, NBest]]:
    """The same of work that is there: workers that have it from another search need not get it again."""
    for _, lists in engine.map(work, range(len(work.batches)), dict(scales), options):
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

    def name(self, shard: int) -> str:
        items = self.parts.items(shard)
        return f"shard {shard} ({named(self.encoded, items)})"


def header(system: System, scales: Mapping[str, float], options: SearchOptions, info: dict[str, Any]) -> Header:
    fusion = system.fusion(scales)
    return Header(fusion.terms, fusion.scales, options.length, {**system.names, "beam": options.beam, **info})


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
    """Decode a manifest into an N-best file, complete or absent.

    Shards that are done lie beside it until all are, so that the same call goes on where it was. share: do only these
    shards, and leave them for `merge`. info: what the file's header should say besides. Returns the number of
    utterances that were asked for.
    """
    opened, out = Manifest(manifest, transcripts=False), Path(out)
    check_output(out)
    head = header(system, scales, options, {"set": Path(manifest).stem, **(info or {})})
    marks = identity(system, options, opened.path, repr(sorted(scales.items())), repr(head), __version__)
    lock = f".{out.name}{share or ''}.lock"
    with exclusive(out.parent, lock, engine.first):
        encoded = EncodedSet(system.recogniser, opened, KeptTensors(), groups=(), engine=engine)
        if engine.first:
            plan = partial(encoded.batches.plan, 1)
            Parts.begin(out, marks, head, plan, system.recogniser.device.type != "cpu", share is not None)
        engine.wait()
        parts = Parts.open(out)
        shards = [shard for shard in parts.shards if share is None or share.has(shard)]
        count = sum(len(parts.items(shard)) for shard in shards)
        todo = [shard for shard in shards if not parts.has(shard)]
        encoded.groups = parts.groups
        try:
            with Bar(f"decoding {Path(manifest).stem}", sum(len(parts.items(shard)) for shard in todo)) as bar:
                for _, done in engine.map(_Decoding(system, encoded, parts), todo, dict(scales), options):
                    bar.advance(done)
        finally:
            parts.remove_if_empty()
        if share is None and engine.first:
            merge(out)
        engine.wait()
    if isinstance(system.lm, WordwiseLm) and system.lm.asked.words:
        say(str(system.lm.asked))
    return count
