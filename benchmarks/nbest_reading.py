"""How long it takes to read N-best files: as fewer does it (pydantic), and by msgspec into the same classes.

pip install msgspec; python benchmarks/nbest_reading.py [UTTERANCES]
"""

import random
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
from machine import cpu_seconds

from fewer.data.lines import read_raw_lines
from fewer.search.nbest import Header, Hypothesis, NBest, check_terms, read_nbest, write_nbest

HYPOTHESES, WORDS = 12, 20
TERMS = ("aed", "lm", "ilm")
Score = Annotated[float, msgspec.Meta(ge=-1e30, le=1e30)]


@dataclass(frozen=True)
class MsgspecHypothesis:
    """As `Hypothesis`, with its limits as msgspec writes them."""

    text: str
    tokens: tuple[int, ...]
    scores: dict[str, Score]
    length: Annotated[int, msgspec.Meta(ge=0, le=1 << 30)]
    score: Score
    ended: bool = True


@dataclass(frozen=True)
class MsgspecLine:
    id: Annotated[str, msgspec.Meta(min_length=1)]
    nbest: tuple[MsgspecHypothesis, ...]
    ref: str | None = None
    speaker: str | None = None


class StructHypothesis(msgspec.Struct, frozen=True, gc=False):
    """The same as a class of msgspec's own, which it makes faster than a dataclass."""

    text: str
    tokens: tuple[int, ...]
    scores: dict[str, Score]
    length: Annotated[int, msgspec.Meta(ge=0, le=1 << 30)]
    score: Score
    ended: bool = True


class StructLine(msgspec.Struct, frozen=True, gc=False):
    id: Annotated[str, msgspec.Meta(min_length=1)]
    nbest: tuple[StructHypothesis, ...]
    ref: str | None = None
    speaker: str | None = None


def lists(utterances: int) -> Iterator[NBest]:
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 9))) for _ in range(5000)]
    for number in range(utterances):
        hypotheses = []
        for _ in range(HYPOTHESES):
            tokens = tuple(rng.randrange(10_000) for _ in range(2 * WORDS))
            scores = {term: -100 * rng.random() for term in TERMS}
            text = " ".join(rng.choices(words, k=WORDS))
            hypotheses.append(Hypothesis(text, tokens, scores, len(tokens) + 1, -rng.random()))
        yield NBest(f"u{number}", tuple(hypotheses), hypotheses[0].text, f"s{number % 40}")


def by_msgspec(path: Path, kind: type[MsgspecLine | StructLine], converted: bool = False) -> int:
    """converted: into the classes that everything else uses."""
    decoder, count = msgspec.json.Decoder(kind), 0
    lines = read_raw_lines(path)
    next(lines)
    for number, line in enumerate(lines, start=2):
        for one in decoder.decode(line).nbest:
            hypothesis: Any = one
            if converted:
                hypothesis = Hypothesis(one.text, one.tokens, one.scores, one.length, one.score, one.ended)
            check_terms(f"line {number}", hypothesis, TERMS)
        count += 1
    return count


def main() -> None:
    utterances = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "n.jsonl"
        write_nbest(path, Header(TERMS, dict.fromkeys(TERMS, 1.0)), lists(utterances))
        size = path.stat().st_size / 1e6
        ours = cpu_seconds(lambda: sum(1 for _ in read_nbest(path)), 3)
        ways = {"dataclass": (MsgspecLine, False), "Struct": (StructLine, False), "converted": (StructLine, True)}
        others = {name: cpu_seconds(partial(by_msgspec, path, *way), 3) for name, way in ways.items()}
        lines = cpu_seconds(lambda: sum(1 for _ in read_raw_lines(path)), 3)
    print(f"{utterances:,} utterances, {HYPOTHESES} hypotheses each, {size:.0f} MB; {lines:.2f} CPU-s to read lines")
    print(f"pydantic: {ours:.2f} CPU-s ({size / ours:.0f} MB/s)")
    for name, other in others.items():
        print(f"msgspec, {name}: {other:.2f} ({size / other:.0f} MB/s), {ours / other:.2f} times as fast")


if __name__ == "__main__":
    main()
