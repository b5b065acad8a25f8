"""The script of the demo corpus: which sentences belong to which part, who says them, how and where."""

import hashlib
import itertools
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from pydantic import NonNegativeInt, PositiveInt

from fewer.config import Config
from fewer.data.synthesis.domains import domain
from fewer.data.synthesis.room import RoomConfig, Scene, WholeRange, draw_scene
from fewer.data.synthesis.speech import Delivery, Voice, voices
from fewer.errors import FewerError

# Every sentence belongs to one part, by a hash of its words: whatever the seed and the sizes, no two parts share one.
SHARES = {  # part -> percent of all sentences
    "train": 40,
    "target-text": 40,
    "source-dev": 5,
    "source-test": 5,
    "target-dev": 5,
    "target-test": 5,
}
PARTS, ENDS = tuple(SHARES), tuple(itertools.accumulate(SHARES.values()))
SPOKEN = {  # the sets that are spoken -> the group of their voices
    "train": "train",
    "source-dev": "dev",
    "source-test": "test",
    "target-dev": "dev",
    "target-test": "test",
}


class DemoCorpusConfig(Config):
    """What to synthesise."""

    seed: NonNegativeInt = 1  # of sentences, voices, rooms
    train: PositiveInt = 3500  # utterances of each set
    source_dev: PositiveInt = 200
    source_test: PositiveInt = 300
    target_dev: PositiveInt = 300
    target_test: PositiveInt = 500
    target_text: PositiveInt = 60_000  # sentences of the target domain, as text only
    words: WholeRange = (4, 14)  # shortest and longest sentence
    heard: NonNegativeInt = 8  # half of the training sentences are picked until every word was heard so often
    sample_rate: PositiveInt = 16_000  # per second
    rate: WholeRange = (135, 205)  # words per minute, drawn per utterance
    pitch: WholeRange = (25, 75)  # 50: the voice's own
    range: WholeRange = (30, 70)  # of the intonation, 50: the voice's own
    train_room: RoomConfig = RoomConfig()
    test_room: RoomConfig = RoomConfig()

    @classmethod
    def quick(cls) -> "DemoCorpusConfig":
        """A few hundred utterances: enough to see everything run, not to see it work."""
        return cls(train=400, source_dev=30, source_test=30, target_dev=40, target_test=50, target_text=5000)


@dataclass(frozen=True)
class Utterance:
    """One sentence, who says it, how, and where."""

    id: str
    text: str
    voice: Voice
    delivery: Delivery
    room: RoomConfig
    scene: Scene
    seed: tuple[int, ...]  # of noise and room


def part_of(sentence: str) -> str:
    """The only part of the corpus that may contain a sentence."""
    place = int.from_bytes(hashlib.blake2b(sentence.encode(), digest_size=8).digest(), "big") % 100
    return PARTS[bisect_right(ENDS, place)]


def sentences(part: str, config: DemoCorpusConfig) -> Iterator[str]:
    """An endless stream of the sentences of one part, as often as the domain's grammar says them."""
    grammar = domain("target" if part.startswith("target") else "source")
    rng = np.random.default_rng((config.seed, PARTS.index(part)))
    rejected = 0
    for sentence in grammar.sentences(rng):
        if config.words[0] <= sentence.count(" ") + 1 <= config.words[1] and part_of(sentence) == part:
            yield sentence
            rejected = 0
        elif (rejected := rejected + 1) > 10_000:
            raise FewerError(f"hardly any sentence has {config.words[0]} to {config.words[1]} words; widen `words`")


def text_of(part: str, config: DemoCorpusConfig) -> list[str]:
    """The sentences of one part. Those of dev and test sets are all different."""
    count = getattr(config, part.replace("-", "_"))
    stream = sentences(part, config)
    if part == "train":
        return _training_text(stream, count, config.heard)
    if part == "target-text":
        return list(itertools.islice(stream, count))
    different: dict[str, None] = {}
    while len(different) < count:
        different[next(stream)] = None
    return list(different)


def _training_text(stream: Iterator[str], count: int, heard: int) -> list[str]:
    """Up to half of the sentences chosen for their rare words, until each was heard so often; the rest as they come."""
    pool = [sentence.split() for sentence in itertools.islice(stream, 10 * count)]
    times: Counter[str] = Counter()
    chosen: dict[int, str] = {}
    for level, needed in itertools.product(range(1, heard + 1), (3, 2, 1)):
        for index, words in enumerate(pool):
            if len(chosen) == count // 2:
                break
            if index not in chosen and sum(times[word] < level for word in words) >= needed:
                chosen[index] = " ".join(words)
                times.update(words)
    return [*chosen.values(), *itertools.islice(stream, count - len(chosen))]


def plan(part: str, config: DemoCorpusConfig) -> list[Utterance]:
    """The utterances of one spoken set."""
    number = PARTS.index(part)
    room = config.train_room if part == "train" else config.test_room
    speakers = voices(SPOKEN[part])
    utterances = []
    for index, text in enumerate(text_of(part, config)):
        seed = (config.seed, number, index)
        rng = np.random.default_rng(seed)
        voice = speakers[rng.integers(len(speakers))]
        rate, pitch, span = (
            int(rng.integers(*ends, endpoint=True)) for ends in (config.rate, config.pitch, config.range)
        )
        delivery = Delivery(rate, pitch, span, seed=int(rng.integers(1, 2**31)))
        utterances.append(
            Utterance(f"{part}-{index:05}", text, voice, delivery, room, draw_scene(room, rng), (*seed, 1))
        )
    return utterances
