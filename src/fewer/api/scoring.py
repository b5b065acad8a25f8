"""Measuring: `score`, `wer`. Neither needs torch, which takes longer to import than most sets take to score."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from fewer.api.arguments import check_choice, listed
from fewer.errors import FewerError
from fewer.evaluation.alignment import Rules
from fewer.evaluation.normalise import basic, load_normaliser
from fewer.evaluation.transcripts import Pairs, Ranking, load_pairs, with_oracle
from fewer.evaluation.wer import Comparison, Errors, Result, Unit, compare, word_errors
from fewer.evaluation.wer import listed as named
from fewer.evaluation.wer import score as score_pairs
from fewer.progress import warn

OTHER_STYLE = 0.05  # share of utterances that differ in case and punctuation alone, above which it is told


@dataclass(frozen=True)
class Score:
    """Word errors of a set, with their uncertainty. Rates are in percent."""

    system: str
    normaliser: str
    result: Result  # wer, low, high, errors, by_speaker(), alignments
    characters: Result | None  # the character error rate, if asked for
    pairs: Pairs  # what was compared, normalised
    against: "Score | None" = None
    comparison: Comparison | None = None  # with `against`
    oracle: Result | None = None  # of the best hypothesis in each N-best list, if asked for

    @property
    def wer(self) -> float:
        return self.result.wer

    @property
    def rates(self) -> list[Result]:
        """The word error rate and, if asked for, the character error rate."""
        return [self.result] if self.characters is None else [self.result, self.characters]

    def to_json(self, per_speaker: bool = False) -> dict[str, Any]:
        """What `fewer score --json` writes."""
        value: dict[str, Any] = {"system": self.system, "normaliser": self.normaliser, **self.result.to_json()}
        if self.characters is not None:
            value["cer"] = self.characters.to_json()
        if self.oracle is not None:
            value["oracle"] = self.oracle.to_json()
        if self.against is not None and self.comparison is not None:
            other = {"system": self.against.system, "result": self.against.result.to_json()}
            value["against"] = {**other, "comparison": self.comparison.to_json()}
        if per_speaker:
            speakers = self.result.by_speaker()
            value["speakers"] = {name: asdict(errors) | {"wer": errors.wer} for name, errors in speakers.items()}
        return value

    def __repr__(self) -> str:
        return f"<Score of {self.system}: WER {self.wer:.2f} % ({self.result.low:.2f} to {self.result.high:.2f})>"


class WordErrorRate(float):
    """A rate in percent, with the errors it comes from: `float(rate)`, `rate.errors.sub`."""

    errors: Errors  # sub, deletions, ins, words, sentences

    def __new__(cls, errors: Errors) -> "WordErrorRate":
        rate = super().__new__(cls, errors.wer)
        rate.errors = errors
        return rate

    def __repr__(self) -> str:
        found = self.errors
        return f"{float(self):.2f} % ({found.sub} sub, {found.deletions} del, {found.ins} ins of {found.words})"


def score(
    hypotheses: str | Path,
    ref: str | Path | None = None,
    *,
    against: str | Path | None = None,
    normalise: str = "none",
    rules: Rules | None = None,
    cer: bool = False,
    oracle: bool = False,
    missing: Literal["error", "deletions"] = "error",
    lm_scale: float | None = None,
    ilm_scale: float | None = None,
    scales: Mapping[str, float] | None = None,
    exponent: float | None = None,
    reward: float | None = None,
    segments: str | Path | None = None,
    speakers: str | Path | None = None,
    draw: Unit = "auto",
    seed: int = 0,
) -> Score:
    """Word error rate with substitutions, deletions, insertions, a bootstrap interval and significance.

        print(fewer.score("dev.nbest.jsonl").wer)

    Args:
        hypotheses: an N-best file (.jsonl), .trn, .ctm, or Kaldi's text file.
        ref: references: .trn, .stm, Kaldi's text, or any set that `fewer.decode` takes (a manifest, a table, a folder
            of audio and .txt files, …). Default: those in the N-best file.
        against: another system's hypotheses to compare with.
        normalise: none, librispeech, english (as for Whisper), english:NORMALIZER.JSON, basic or glm:FILE.
        rules: plain (fewest errors), sclite (NIST's costs) or hubscr. Default: hubscr with a glm, sclite for .trn and
            .stm references, else plain.
        cer: also give the character error rate.
        oracle: also give the word error rate of the best hypothesis in each N-best list: no ranking can do better.
        missing: whether a reference without hypothesis is an error, or has its words deleted.
        lm_scale, ilm_scale: rank the N-best lists anew with this λ1 and λ2 (positive: it is subtracted).
        scales: scales of any terms as they are multiplied, such as {"lm": 0.4, "ilm": -0.2}.
        exponent, reward: rank with another length exponent, or with this added for each token.
        segments: for .stm references: the manifest that was decoded, over whose segments words are spread evenly.
        speakers: Kaldi's utt2spk file.
        draw: what the bootstrap draws: "speaker", "utterance", or "auto": speakers if five or more are known.
        seed: of the bootstrap.
    """
    check_choice("missing", missing, ("error", "deletions"))
    check_choice("draw", draw, ("auto", "speaker", "utterance"))
    check_choice("rules", rules or "plain", ("plain", "sclite", "hubscr"))
    normaliser, ranking = load_normaliser(normalise), _ranking(lm_scale, ilm_scale, scales, exponent, reward)
    if normalise == "english":
        warn(
            "english without Whisper's table of spellings: British and American forms count as different words; "
            "english:PATH/normalizer.json (it comes with every Whisper model) joins them"
        )
    if against is not None and Path(against) == Path(hypotheses) and ranking is None:
        raise FewerError(f"{against} cannot be compared with itself, unless it is ranked by other scales")

    def load(path: str | Path, ranking: Ranking | None = None) -> Pairs:
        return load_pairs(path, ref, normaliser=normaliser, segments=segments, speakers=speakers, ranking=ranking)

    pairs = load(hypotheses, ranking)
    _warn_of_empty(pairs)
    if normalise == "none":
        _warn_of_style(pairs)
    chosen: Rules = rules or ("hubscr" if normaliser.glm else "sclite" if pairs.nist else "plain")

    def scored(system: str, pairs: Pairs) -> Score:
        word, *character = [
            score_pairs(
                pairs.refs, pairs.hyps, pairs.speakers,
                rules=chosen, characters=characters, missing=missing, unit=draw, seed=seed,
            )
            for characters in ([False, True] if cer else [False])
        ]  # fmt: skip
        return Score(system, normalise, word, character[0] if character else None, pairs)

    found = scored(f"{hypotheses} ({ranking})" if ranking else str(hypotheses), pairs)
    if oracle:
        found = replace(found, oracle=scored("", with_oracle(pairs, hypotheses, normaliser)).result)
    if against is None:
        return found
    other = scored(str(against), load(against))
    return replace(found, against=other, comparison=compare(found.result, other.result))


def wer(
    ref: str | Sequence[str], hyp: str | Sequence[str], *, normalise: str = "none", characters: bool = False
) -> WordErrorRate:
    """The word error rate of a text, or of several together, in percent.

        >>> fewer.wer("hello world", "hello duck")
        50.00 % (1 sub, 0 del, 0 ins of 2)

    The result is a float with the errors: `rate.errors.sub`, `.deletions`, `.ins`, `.words`.

    Args:
        ref: what was said: a text, or a list of texts.
        hyp: what was recognised: as many texts.
        normalise: what is made equal before words are compared, as in `fewer.score`.
        characters: count characters instead of words.
    """
    refs, hyps, normaliser = listed(ref), listed(hyp), load_normaliser(normalise)
    if len(refs) != len(hyps):
        raise FewerError(f"there are {len(refs)} references, but {len(hyps)} hypotheses; give one for each")
    pairs = zip(refs, hyps, strict=True)
    errors = (word_errors(normaliser.ref(ref), normaliser.hyp(hyp), characters) for ref, hyp in pairs)
    return WordErrorRate(sum(errors, Errors()))


def _ranking(
    lm_scale: float | None,
    ilm_scale: float | None,
    scales: Mapping[str, float] | None,
    exponent: float | None,
    reward: float | None,
) -> Ranking | None:
    """What the options change of an N-best file's ranking; None if nothing."""
    changed = dict(scales or {})
    for term, value in (("lm", lm_scale), ("ilm", None if ilm_scale is None else -ilm_scale)):
        if value is not None:
            if term in changed:
                raise FewerError(f"--{term}-scale and --scales {term}=… say the same thing; give one of them")
            changed[term] = value
    if not changed and exponent is None and reward is None:
        return None
    return Ranking(changed, exponent, reward)


def _warn_of_empty(pairs: Pairs) -> None:
    empty = [utterance for utterance, text in pairs.refs.items() if not text]
    if empty and len(empty) < len(pairs.refs):
        warn(f"{len(empty)} references are empty, so that all words there count as inserted: {named(empty)}")


def _warn_of_style(pairs: Pairs) -> None:
    """Of hypotheses that are written in another way than the references."""
    both = [(text, pairs.hyps[id]) for id, text in pairs.refs.items() if id in pairs.hyps]
    other = [text for text, hyp in both if text != hyp and basic(text) == basic(hyp)]
    if len(other) > OTHER_STYLE * len(pairs.refs):
        warn(
            f"{len(other)} of {len(pairs.refs)} utterances differ from their references in case and punctuation alone, "
            "which counts as errors; --normalise english (or basic) counts words"
        )
