"""Decoding a set: batches by length, one search after another, N-best lists in the manifest's order."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from fewer.compute.memory import Halving
from fewer.compute.processes import divided
from fewer.compute.world import World, alone
from fewer.data.batches import Batch, UtteranceConfig
from fewer.data.manifest import Manifest
from fewer.data.plan import Items
from fewer.decoding.system import System
from fewer.errors import FewerError
from fewer.files import check_output, fingerprint
from fewer.models.encoded import Encoded, joined
from fewer.progress import Bar
from fewer.recognisers.recogniser import Recogniser
from fewer.search.beam import SearchError, SearchOptions, beam_search
from fewer.search.nbest import Header, NBest, parse_nbest, write_nbest
from fewer.search.scorer import Scorer
from fewer.store.kept import KeptTensors

MEMORY = 1 << 30  # bytes of encoder states that are held for many searches
BATCH = UtteranceConfig(max_size=16_000, max_sequences=32, order="sorted", allow_unknown=True)


@dataclass(frozen=True)
class Utterance:
    """What is known of an utterance besides its audio."""

    index: int  # line of the manifest
    id: str
    ref: str | None
    speaker: str | None


@dataclass(frozen=True)
class EncodedBatch:
    """Encoded utterances, ready for any number of searches."""

    utterances: list[Utterance]
    encoded: Encoded

    def part(self, places: Sequence[int]) -> "EncodedBatch":
        """Some of them."""
        if len(places) == len(self.utterances):
            return self
        return EncodedBatch([self.utterances[place] for place in places], self.encoded.select(torch.tensor(places)))


class EncodedSet(Sequence[EncodedBatch]):
    """The batches of (this process's share of) a set, each encoded whenever it is asked for, unless it is kept.

    Used as a context manager, all are encoded at once: processes that are forked then need not.
    """

    def __init__(self, recogniser: Recogniser, manifest: Manifest, world: World, kept: KeptTensors):
        self.recogniser, self.manifest, self.kept = recogniser, manifest, kept
        self.batches = recogniser.batches(manifest, BATCH)
        plan = self.batches.plan(1)
        groups = [items for step in range(len(plan)) for items in plan.group(step, world.rank, world.size)]
        self.groups = [items for items in groups if len(items)]
        self.marks = fingerprint(recogniser.encoded_by, manifest.path)
        self.halving = Halving()
        self.reading = ThreadPoolExecutor(1)
        self.ahead: dict[int, Future[Batch]] = {}  # batches that are being read

    def __len__(self) -> int:
        return len(self.groups)

    def __getitem__(self, index: Any) -> Any:
        items = self.groups[index]
        utterances = [_utterance(item, self.manifest[item]) for item in items.tolist()]
        ids = [utterance.id for utterance in utterances]
        key = fingerprint(self.marks, *ids)[:32]
        kept = self.kept.get(key, lambda: self._encode(index).tensors())
        encoded = Encoded(**{name: tensor.to(self.recogniser.device) for name, tensor in kept.items()})
        for id, frames in zip(ids, encoded.lengths.tolist(), strict=True):
            if frames < 1:
                raise FewerError(f"utterance {id} is too short: the encoder leaves no frame of it")
        return EncodedBatch(utterances, encoded)

    def _encode(self, index: int) -> Encoded:
        """The batch was read ahead, perhaps; while a GPU encodes it and searches, the next one is."""
        ready = self.ahead.pop(index, None)
        batch = self._load(self.groups[index]) if ready is None else ready.result()
        if self.recogniser.device.type != "cpu" and index + 1 < len(self):
            self.ahead[index + 1] = self.reading.submit(self._load, self.groups[index + 1])

        def encode(items: Items) -> Encoded:
            return self.recogniser.encode(batch if len(items) == len(batch.ids) else self._load(items))

        return joined(list(self.halving(encode, self.groups[index])))

    def _load(self, items: Items) -> Batch:
        return self.batches.load(items, 1)

    def __enter__(self) -> "EncodedSet":
        for index in range(len(self)):
            self[index]
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the files; if the process is killed before, they serve the next one."""
        if self.kept.folder is not None:
            shutil.rmtree(self.kept.folder, ignore_errors=True)


def encode_set(system: System, manifest: Manifest, world: World | None = None) -> EncodedSet:
    """Run the encoder over (this process's share of) a set."""
    return EncodedSet(system.recogniser, manifest, world or alone(), KeptTensors())


def hold_set(recogniser: Recogniser, manifest: Manifest, folder: Path, memory: int = MEMORY) -> EncodedSet:
    """The same for many searches: encoded once, in memory up to a budget, the others in files of a folder.

    A recogniser that keeps its encoder states on disk anyway needs no other files.
    """
    kept = KeptTensors(folder if recogniser.encodings is None else None, memory)
    return EncodedSet(recogniser, manifest, alone(), kept)


def _utterance(index: int, cut: Any) -> Utterance:
    spoken = cut.supervisions[0] if cut.supervisions else None
    return Utterance(index, cut.id, spoken and spoken.text, spoken and spoken.speaker)


def search_set(
    system: System,
    batches: Sequence[EncodedBatch],
    scales: Mapping[str, float],
    options: SearchOptions,
    scorers: list[Scorer] | None = None,
    processes: int = 1,
) -> Iterator[tuple[int, NBest]]:
    """N-best lists with their line in the manifest, batch by batch; several processes take turns with the batches."""
    fusion = system.fusion(scales, scorers)
    tokenizer = system.recogniser.tokenizer

    halving = Halving()

    def search(rank: int, size: int) -> Iterator[tuple[int, NBest]]:
        for place in range(rank, len(batches), size):
            batch = batches[place]
            for lists in halving(partial(found, batch), range(len(batch.utterances))):
                yield from lists

    def found(whole: EncodedBatch, places: Sequence[int]) -> list[tuple[int, NBest]]:
        batch = whole.part(places)
        limits = system.recogniser.max_lengths(batch.encoded)
        try:
            lists = beam_search(fusion, batch.encoded, limits, options, tokenizer.decode)
        except SearchError as error:
            raise FewerError(f"utterance {batch.utterances[error.index].id}: {error.problem}") from error
        pairs = zip(batch.utterances, lists, strict=True)
        return [(u.index, NBest(u.id, hypotheses, u.ref, u.speaker)) for u, hypotheses in pairs]

    if processes > 1 and system.recogniser.device.type != "cpu":
        raise FewerError(f"--processes {processes}: processes share a CPU; on a GPU, give 1")
    return divided(search, min(processes, len(batches)))


def header(system: System, scales: Mapping[str, float], options: SearchOptions, info: dict[str, Any]) -> Header:
    fusion = system.fusion(scales)
    return Header(fusion.terms, fusion.scales, options.length, {**system.names, "beam": options.beam, **info})


def decode(
    system: System,
    manifest: str | Path,
    out: str | Path,
    scales: Mapping[str, float],
    options: SearchOptions = SearchOptions(),
    world: World | None = None,
    processes: int = 1,
    info: Mapping[str, Any] | None = None,
) -> int:
    """Decode a manifest into an N-best file, complete or absent; under torchrun every process takes its share.

    info: what the file's header should say besides. Returns the number of utterances.
    """
    world = world or alone()
    opened = Manifest(manifest, transcripts=False)
    if not len(opened):
        raise FewerError(f"{manifest} holds no utterance")
    out = Path(out)
    check_output(out)
    head = header(system, scales, options, {"set": Path(manifest).stem, **(info or {})})
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as private:
        folder = Path(world.same(private))
        part = folder / f"part{world.rank}.jsonl"
        lines: list[int] = []

        def lists() -> Iterator[NBest]:
            with Bar(f"decoding {Path(manifest).stem}", len(opened) if world.size == 1 else None) as bar:
                batches = encode_set(system, opened, world)
                for index, nbest in search_set(system, batches, scales, options, processes=processes):
                    lines.append(index)
                    yield nbest
                    bar.advance()

        write_nbest(part, head, lists())
        parts = world.gather((str(part), lines))
        if world.first:
            write_nbest(out, head, _in_order(parts))
        world.wait()
    return len(opened)


def _in_order(parts: list[tuple[str, list[int]]]) -> Iterator[NBest]:
    """The utterances of all part files in the manifest's order, read one at a time."""
    places: list[tuple[int, str, int]] = []
    for path, lines in parts:
        with open(path, "rb") as stream:
            stream.readline()
            offset = stream.tell()
            for index in lines:
                places.append((index, path, offset))
                stream.readline()
                offset = stream.tell()
    with contextlib.ExitStack() as stack:
        streams = {path: stack.enter_context(open(path, "rb")) for path, _ in parts}
        for _, path, offset in sorted(places):
            streams[path].seek(offset)
            yield parse_nbest(streams[path].readline(), path)
