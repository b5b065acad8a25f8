"""Encoded sets: batches by length, encoded when they are asked for, or once for many searches."""

import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from fewer.compute.engines.engine import Engine, Local, Work
from fewer.compute.memory import Halving
from fewer.data.batches import Batch, UtteranceConfig
from fewer.data.manifest import Manifest
from fewer.data.plan import Items
from fewer.decoding.system import System
from fewer.errors import FewerError
from fewer.files import fingerprint
from fewer.models.encoded import Encoded, joined
from fewer.progress import Bar
from fewer.recognisers.recogniser import Recogniser
from fewer.store.kept import KeptTensors

MEMORY = 1 << 30  # bytes of encoder states that are held for many searches
BATCH = UtteranceConfig(max_size=16_000, max_sequences=32, order="blocks", bin_size=4096, allow_unknown=True)


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
    """The batches of a set, each encoded whenever it is asked for, unless it is kept.

    Used as a context manager, all are encoded at once, by the engine: searches then need not.
    """

    def __init__(
        self,
        recogniser: Recogniser,
        manifest: Manifest,
        kept: KeptTensors,
        groups: Sequence[Items] | None = None,
        engine: Engine = Local(),
    ):
        """groups: the utterances of each batch, if they were planned before."""
        self.recogniser, self.manifest, self.kept, self.engine = recogniser, manifest, kept, engine
        recogniser.build_cache(manifest, engine)
        self.batches = recogniser.batches(manifest, BATCH)
        self.groups = [items for group in self.batches.plan(1) for items in group] if groups is None else groups
        self.marks = fingerprint(recogniser.encoded_by, manifest.path)
        self.halving = Halving()
        self.ahead: dict[int, Future[Batch]] = {}  # batches that are being read

    def __len__(self) -> int:
        return len(self.groups)

    def __getitem__(self, index: Any) -> Any:
        items = self.groups[index]
        utterances = [_utterance(item, self.manifest[item]) for item in items.tolist()]
        ids = [utterance.id for utterance in utterances]
        key = fingerprint(self.marks, *ids)[:32]
        kept = self.kept.get(key, lambda: self._encode(index).tensors())
        encoded = Encoded.of(kept, self.recogniser.device)
        for id, frames in zip(ids, encoded.lengths.tolist(), strict=True):
            if frames < 1:
                raise FewerError(f"utterance {id} is too short: the encoder leaves no frame of it")
        return EncodedBatch(utterances, encoded)

    def read_ahead(self, indices: Sequence[int]) -> Iterator[EncodedBatch]:
        """Some batches; while a GPU encodes and searches one, the next one is read."""
        with ThreadPoolExecutor(1) as reading:
            for place, index in enumerate(indices):
                if self.recogniser.device.type != "cpu":
                    for soon in indices[place : place + 2]:
                        if soon not in self.ahead:
                            self.ahead[soon] = reading.submit(self._load, self.groups[soon])
                batch = self[index]
                self.ahead.pop(index, None)
                yield batch

    def _encode(self, index: int) -> Encoded:
        """The batch was read ahead, perhaps."""
        ready = self.ahead.pop(index, None)
        batch = self._load(self.groups[index]) if ready is None else ready.result()

        def encode(items: Items) -> Encoded:
            return self.recogniser.encode(batch if len(items) == len(batch.ids) else self._load(items))

        return joined(list(self.halving(encode, self.groups[index])))

    def _load(self, items: Items) -> Batch:
        return self.batches.load(items, 1)

    def __getstate__(self) -> dict[str, Any]:
        """For another process, which is given shards by the engine and has none itself."""
        return {**self.__dict__, "ahead": {}, "engine": Local()}

    def __enter__(self) -> "EncodedSet":
        with Bar(f"encoding {self.manifest.path.stem}", len(self)) as bar:
            for _ in self.engine.map(_Encoding(self), range(len(self))):
                bar.advance()
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the files; if the process is killed before, they serve the next one."""
        self.engine.wait()
        if self.kept.folder is not None and self.engine.first:
            shutil.rmtree(self.kept.folder, ignore_errors=True)


class _Encoding(Work):
    """Encodes the batches of a set, which are kept."""

    def __init__(self, encoded: EncodedSet):
        self.encoded, self.device = encoded, encoded.recogniser.device

    def __call__(self, shard: int, *_: Any) -> None:
        self.encoded[shard]

    def name(self, shard: int) -> str:
        return named(self.encoded, self.encoded.groups[shard])


def named(encoded: EncodedSet, items: Items) -> str:
    """Some utterances, for people."""
    count = f" and {len(items) - 1} others" if len(items) > 1 else ""
    return f"{encoded.manifest.path}: utterance {encoded.manifest.id(int(items[0]))}{count}"


def encode_set(system: System, manifest: Manifest) -> EncodedSet:
    """Run the encoder over a set."""
    return EncodedSet(system.recogniser, manifest, KeptTensors())


def hold_set(
    recogniser: Recogniser, manifest: Manifest, folder: Path, memory: int = MEMORY, engine: Engine = Local()
) -> EncodedSet:
    """The same for many searches: encoded once, in memory up to a budget, the others in files of a folder.

    A recogniser that keeps its encoder states on disk anyway needs no other files. What several workers encode is in
    files, so that all of them find it.
    """
    kept = KeptTensors(folder if recogniser.encodings is None else None, memory if isinstance(engine, Local) else 0)
    return EncodedSet(recogniser, manifest, kept, engine=engine)


def _utterance(index: int, cut: Any) -> Utterance:
    spoken = cut.supervisions[0] if cut.supervisions else None
    return Utterance(index, cut.id, spoken and spoken.text, spoken and spoken.speaker)
