"""The script of the demo corpus: which sentences belong to which part, who says them, how and where."""

import functools
import hashlib
import itertools
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from pydantic import Field, NonNegativeInt, PositiveInt

from fewer.config import Config
from fewer.data.synthesis.domains import dictation, domain
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
HELD_OUT = ("source-test", "target-test", "source-dev", "target-dev")
APART = 4  # words that a sentence needs so that it may not stand inside one of another part; fewer are anywhere
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
    train: PositiveInt = 7500  # utterances of each set
    source_dev: PositiveInt = 200
    source_test: PositiveInt = 220
    target_dev: PositiveInt = 220
    target_test: PositiveInt = 350
    target_text: PositiveInt = 30_000  # sentences of the target domain, as text only
    words: WholeRange = (4, 14)  # shortest and longest sentence
    dictated: float = Field(default=0.55, ge=0, le=1)  # share of the source's utterances that are answers and notes
    sample_rate: PositiveInt = 16_000  # per second
    rate: WholeRange = (155, 225)  # words per minute, drawn per utterance
    pitch: WholeRange = (25, 75)  # 50: the voice's own
    range: WholeRange = (30, 70)  # of the intonation, 50: the voice's own
    train_room: RoomConfig = RoomConfig()
    test_room: RoomConfig = RoomConfig()

    @classmethod
    def quick(cls) -> "DemoCorpusConfig":
        """A few hundred utterances: enough to see everything run, not to see it work."""
        return cls(train=160, source_dev=16, source_test=16, target_dev=20, target_test=24, target_text=1500)


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
    """An endless stream of the sentences of one part, as often as they are said there."""
    seed = (config.seed, PARTS.index(part))
    if part.startswith("target"):
        return _of_part(part, _of_length(domain("target").sentences(np.random.default_rng(seed)), config.words))
    return _of_part(part, _at_home(seed, config))


def _at_home(seed: tuple[int, ...], config: DemoCorpusConfig) -> Iterator[str]:
    """Sentences of the source domain, among them answers and notes of any length."""
    said, dictated, which = (np.random.default_rng((*seed, stream)) for stream in range(3))
    whole, loose = _of_length(domain("source").sentences(said), config.words), dictation().sentences(dictated)
    while True:
        yield next(loose if which.random() < config.dictated else whole)


def _of_length(drawn: Iterator[str], words: tuple[int, int]) -> Iterator[str]:
    rejected = 0
    for sentence in drawn:
        if words[0] <= sentence.count(" ") + 1 <= words[1]:
            yield sentence
            rejected = 0
        elif (rejected := rejected + 1) > 10_000:
            raise FewerError(f"hardly any sentence has {words[0]} to {words[1]} words; widen `words`")


def _of_part(part: str, drawn: Iterator[str]) -> Iterator[str]:
    return (sentence for sentence in drawn if part_of(sentence) == part)


def text_of(part: str, config: DemoCorpusConfig) -> list[str]:
    """The sentences of one part. None contains a sentence of a dev or test set or stands in one; those differ."""
    return list(_text_of(part, config))


@functools.cache
def _text_of(part: str, config: DemoCorpusConfig) -> tuple[str, ...]:
    count = getattr(config, part.replace("-", "_"))
    before = HELD_OUT[: HELD_OUT.index(part)] if part in HELD_OUT else HELD_OUT
    stream = _apart(sentences(part, config), [text for other in before for text in _text_of(other, config)])
    if part not in HELD_OUT:
        return tuple(itertools.islice(stream, count))
    different: dict[str, None] = {}
    while len(different) < count:
        different[next(stream)] = None
    return tuple(different)


def _apart(drawn: Iterator[str], others: list[str]) -> Iterator[str]:
    """Without sentences that contain one of the others, or stand inside one."""
    whole = {other for other in others if _pieces(other)}
    inside = {piece for other in others for piece in _pieces(other)}
    return (text for text in drawn if text not in inside and whole.isdisjoint(_pieces(text)))


def _pieces(sentence: str) -> list[str]:
    """Itself and all that stands inside it, if it is not too short."""
    words = sentence.split()
    ends = range(APART, len(words) + 1)
    return [" ".join(words[start:end]) for end in ends for start in range(end - APART + 1)]


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
