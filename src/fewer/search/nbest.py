"""N-best lists with every term's own score, and the JSONL file that later steps read.

The first line is a header, each further line one utterance:

    {"format": "fewer-nbest/1", "terms": ["aed", "lm", "ilm"], "scales": {"aed": 1.0, "lm": 0.4, "ilm": -0.2}, …}
    {"id": "84-1-0", "ref": "A WORD", "speaker": "84", "nbest": [{"text": …, "tokens": […], "scores": {…}, …}, …]}

Scores are natural-log sums over a hypothesis's labels, unscaled; a scale is what the search multiplied a term by (so an
ILM's is negative). Search score = Σ scale·score [+ reward·length], divided by length^exponent when it is normalised.
The score of hotwords is what the search counted of it: less where a hypothesis is shorter than others (`search.beam`).
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from fewer.config import complaints, shortened
from fewer.data.lines import read_raw_lines
from fewer.errors import FewerError
from fewer.files import atomic_write

FORMAT = "fewer-nbest/1"
Score = Annotated[float, Field(ge=-1e30, le=1e30)]  # sums of scores stay finite
Scale = Annotated[float, Field(ge=-1e6, le=1e6)]
Term = Annotated[str, Field(min_length=1, max_length=100)]


def check_number(what: str, value: object) -> None:
    """Scales and the like are finite numbers, or nothing that follows means anything."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise FewerError(f"{what} is {value!r}; it must be a finite number")


@dataclass(frozen=True)
class LengthPolicy:
    """How hypotheses of unequal length compare: by score / length^exponent, or by score + reward·length."""

    exponent: float = 1.0  # 1: per-label average as in the paper's toolkit; 0: no normalisation
    reward: float = 0.0  # added for each label, end label included

    def __post_init__(self) -> None:
        check_number("the length exponent", self.exponent)
        check_number("the length reward", self.reward)

    def score(self, total: Any, length: Any) -> Any:
        """What hypotheses are ranked by: numbers, or tensors of them."""
        return (total + self.reward * length) / length**self.exponent


@dataclass(frozen=True)
class Hypothesis:
    """One way to transcribe an utterance."""

    text: str
    tokens: tuple[int, ...]  # without the end label
    scores: dict[str, Score]  # term -> its own log score, summed over labels, unscaled
    length: Annotated[int, Field(ge=0, le=1 << 30)]  # number of labels scored, the end label counted if there is one
    score: Score  # what the search ranked it by
    ended: bool = True  # False: reached the maximum length without an end label
    label_scores: dict[str, tuple[float, ...]] = field(default_factory=dict, repr=False, compare=False)  # if kept

    def rescored(self, scales: Mapping[str, float], policy: LengthPolicy) -> float:
        """The search score under other scales; terms without a scale do not count."""
        total = 0.0
        for term, scale in scales.items():  # in order and uncompensated: the report page's sum is the same to the bit
            total += scale * self.scores[term]
        return policy.score(total, max(self.length, 1))


@dataclass(frozen=True)
class NBest:
    """An utterance's hypotheses, best first."""

    id: str
    hypotheses: tuple[Hypothesis, ...]
    ref: str | None = None
    speaker: str | None = None


@dataclass(frozen=True)
class Header:
    """How an N-best file came about."""

    terms: tuple[str, ...]
    scales: dict[str, float]
    length: LengthPolicy = field(default_factory=LengthPolicy)
    info: dict[str, Any] = field(default_factory=dict)  # model, LM, ILM, beam, set, … as told by the decoder


def write_nbest(path: str | Path, header: Header, lists: Iterable[NBest]) -> int:
    """Write the file, complete or not at all; returns the number of utterances."""
    count = 0
    with atomic_write(path) as stream:
        print(header_line(header), file=stream)
        for nbest in lists:
            print(nbest_line(nbest), file=stream)
            count += 1
    return count


def header_line(header: Header) -> str:
    """The first line of an N-best file."""
    return json.dumps({"format": FORMAT, **asdict(header)}, ensure_ascii=False)


def nbest_line(nbest: NBest) -> str:
    """Any other line."""
    return json.dumps(_to_json(nbest), ensure_ascii=False)


def read_header(path: str | Path) -> Header:
    """The first line of an N-best file."""
    return _first(path, read_raw_lines(path))


def read_nbest(path: str | Path) -> Iterator[NBest]:
    """The utterances of an N-best file, one at a time; every hypothesis has the scores that the header speaks of."""
    lines = read_raw_lines(path)
    header = _first(path, lines)
    terms = dict.fromkeys((*header.terms, *header.scales))
    for number, line in enumerate(lines, start=2):
        where = f"{path}, line {number}"
        nbest = parse_nbest(line, where)
        for hypothesis in nbest.hypotheses:
            check_terms(where, hypothesis, terms)
        yield nbest


def parse_nbest(line: bytes | str, where: str) -> NBest:
    """One utterance from its line; `where` names the line in complaints."""
    try:
        value = _LINE.validate_json(line)
    except ValidationError as error:
        raise FewerError(complaints(error, where)) from error
    return NBest(value.id, value.nbest, value.ref, value.speaker)


def check_terms(where: str, hypothesis: Hypothesis, terms: Iterable[str]) -> None:
    """Every term has a finite score; `where` says whose hypothesis it is."""
    for term in terms:
        if term not in hypothesis.scores:
            found = ", ".join(hypothesis.scores) or "none"
            raise FewerError(
                f"{where}: the hypothesis '{shortened(hypothesis.text)}' has no score of the term '{term}'"
                f" (it has: {found}); decode or rescore with that term"
            )
        if not math.isfinite(hypothesis.scores[term]):
            raise FewerError(
                f"{where}: the score of the term '{term}' is {hypothesis.scores[term]} for the hypothesis"
                f" '{shortened(hypothesis.text)}'; the model or its features are broken for this utterance"
            )


def _to_json(nbest: NBest) -> dict[str, Any]:
    for hypothesis in nbest.hypotheses:
        if not all(math.isfinite(score) for score in (*hypothesis.scores.values(), hypothesis.score)):
            raise FewerError(f"utterance {nbest.id}: a score is not finite: {hypothesis.score}, {hypothesis.scores}")
    value: dict[str, Any] = {"id": nbest.id}
    value |= {} if nbest.ref is None else {"ref": nbest.ref}
    value |= {} if nbest.speaker is None else {"speaker": nbest.speaker}
    value["nbest"] = [_without_labels(hypothesis) for hypothesis in nbest.hypotheses]
    return value


def _without_labels(hypothesis: Hypothesis) -> dict[str, Any]:
    value = asdict(hypothesis)
    del value["label_scores"]
    return value


def _first(path: str | Path, lines: Iterator[bytes]) -> Header:
    for line in lines:
        return parse_header(path, line)
    raise FewerError(f"{path} is empty; an N-best file starts with a header line")


def parse_header(path: str | Path, line: bytes) -> Header:
    """The header from its line. path: the file that it is the first line of."""
    if FORMAT.encode() not in line:
        raise FewerError(f"{path}: the first line is not a {FORMAT} header; is this an N-best file of `fewer decode`?")
    try:
        value = _HeaderLine.model_validate_json(line)
    except ValidationError as error:
        raise FewerError(complaints(error, f"{path}, line 1")) from error
    policy = LengthPolicy(value.length.exponent, value.length.reward)
    return Header(value.terms, value.scales, policy, value.info)


_STRICT = ConfigDict(strict=True, allow_inf_nan=False, defer_build=True)  # prepared when first used


class _Length(BaseModel):
    model_config = _STRICT
    exponent: float = Field(default=1.0, ge=-100, le=100)
    reward: Scale = 0.0


class _HeaderLine(BaseModel):
    """The first line; of unknown fields nothing is known."""

    model_config = _STRICT
    format: str = Field(pattern=rf"^{FORMAT}$")
    terms: tuple[Term, ...]
    scales: dict[Term, Scale]
    length: _Length
    info: dict[str, Any] = Field(default={})


@dataclass(frozen=True)
class _Line:
    """Any further line. Read into these classes at once, it takes half the time of `json.loads` and a check."""

    __pydantic_config__ = _STRICT
    id: Annotated[str, Field(min_length=1)]
    nbest: tuple[Hypothesis, ...]
    ref: str | None = None
    speaker: str | None = None


_LINE = TypeAdapter(_Line)
