"""References and hypotheses from whatever file they are in, paired and normalised, ready to score.

| file | what it is |
|---|---|
| .jsonl, .jsonl.gz | an N-best file of `fewer decode`, or a manifest of lhotse cuts; its first line tells |
| .csv, .tsv, a folder, … | what `as_manifest` makes a manifest of |
| .trn, .stm, .ctm | NIST's formats |
| any other | Kaldi's text |

Words with times (ctm) are scored against segments (stm) as sclite does: by their middle. Hypotheses without times of
their own can be laid evenly over the segments that a manifest gives them.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from fewer.data.corpora.given import as_manifest
from fewer.data.cut_schema import ManifestCut, Supervision, check_line
from fewer.data.lines import read_lines, read_raw_lines
from fewer.data.spelling import fold_space
from fewer.errors import FewerError
from fewer.evaluation import formats
from fewer.evaluation.formats import Segment, Word
from fewer.evaluation.normalise import Function, Normaliser
from fewer.evaluation.wer import fewest, listed
from fewer.search.nbest import FORMAT, Header, Hypothesis, LengthPolicy, NBest, read_header, read_nbest

Kind = Literal["nbest", "manifest", "trn", "stm", "ctm", "text"]
Channel = tuple[str, str]  # file and channel
NO_NORMALISER = Normaliser("none", fold_space, fold_space)


@dataclass(frozen=True)
class Transcripts:
    """Texts by utterance id, and who speaks where that is known."""

    texts: dict[str, str]
    speakers: dict[str, str] = field(default_factory=dict)
    refs: dict[str, str] | None = None  # the references that an N-best file brings along


@dataclass(frozen=True)
class Pairs:
    """What is to be scored, normalised."""

    refs: dict[str, str]
    hyps: dict[str, str]
    speakers: dict[str, str]
    nist: bool  # from NIST's formats: to be scored by sclite's rules
    segments: tuple[Segment, ...] = ()  # of a stm, as scored; in the order of `refs`
    words: tuple[Word, ...] = ()  # the hypotheses' words with times, as scored


@dataclass(frozen=True)
class Ranking:
    """Other scales or another length policy than those an N-best file was made with."""

    scales: Mapping[str, float] = field(default_factory=dict)  # by term; the others keep the file's
    exponent: float | None = None
    reward: float | None = None

    def __str__(self) -> str:
        values = {**self.scales, "exponent": self.exponent, "reward": self.reward}
        return ", ".join(f"{name}={value:g}" for name, value in values.items() if value is not None)

    def complete(self, header: Header, path: str | Path) -> tuple[dict[str, float], LengthPolicy]:
        """The scale of every term and the policy to rank by."""
        for term in self.scales:
            if term not in header.terms:
                raise FewerError(f"{path} has no scores of a term '{term}'; its terms are {', '.join(header.terms)}")
        changed = {"exponent": self.exponent, "reward": self.reward}
        policy = replace(header.length, **{name: value for name, value in changed.items() if value is not None})
        return {**header.scales, **self.scales}, policy


def best(nbest: NBest, scales: Mapping[str, float], policy: LengthPolicy) -> Hypothesis:
    """The hypothesis with the highest `rescored` score, of equals the one that comes first."""
    return max(nbest.hypotheses, key=lambda hypothesis: hypothesis.rescored(scales, policy))


def kind_of(path: str | Path) -> Kind:
    """What a file is, by its name and, for JSON lines, its first line."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes if suffix.lower() != ".gz"]
    last = suffixes[-1] if suffixes else ""
    if last in (".trn", ".stm", ".ctm"):
        return last[1:]  # type: ignore[return-value]
    if Path(path).is_dir() or last in (".csv", ".tsv", ".json"):
        return "manifest"
    if last == ".jsonl":
        first = next(iter(read_lines(path)), "")
        return "nbest" if FORMAT in first else "manifest"
    return "text"


def read_transcripts(path: str | Path, ranking: Ranking | None = None) -> Transcripts:
    """Texts of any file but stm and ctm. `ranking` chooses anew among an N-best file's hypotheses."""
    kind = kind_of(path)
    if ranking is not None and kind != "nbest":
        raise FewerError(f"{path} is no N-best file, so there is nothing to rank by other scales")
    if kind == "nbest":
        return _read_nbest(path, ranking)
    if kind == "manifest":
        return _read_manifest(path)
    if kind == "trn":
        texts = formats.read_trn(path)
        speakers = {utterance: formats.trn_speaker(utterance) for utterance in texts}
        return Transcripts(texts, {utterance: name for utterance, name in speakers.items() if name})
    if kind == "text":
        return Transcripts(formats.read_text(path))
    raise FewerError(f"{path}: a {kind} file has times; score ctm hypotheses against an stm reference")


def _read_nbest(path: str | Path, ranking: Ranking | None) -> Transcripts:
    scales, policy = (ranking or Ranking()).complete(read_header(path), path)
    texts: dict[str, str] = {}
    refs: dict[str, str] = {}
    speakers: dict[str, str] = {}
    for nbest in read_nbest(path):
        if nbest.id in texts:
            raise FewerError(f"{path}: utterance {nbest.id} is there twice")
        if not nbest.hypotheses:
            raise FewerError(f"{path}: utterance {nbest.id} has no hypotheses")
        texts[nbest.id] = (best(nbest, scales, policy) if ranking else nbest.hypotheses[0]).text
        if nbest.ref is not None:
            refs[nbest.id] = nbest.ref
        if nbest.speaker is not None:
            speakers[nbest.id] = nbest.speaker
    return Transcripts(texts, speakers, refs)


def _read_manifest(path: str | Path) -> Transcripts:
    texts: dict[str, str] = {}
    speakers: dict[str, str] = {}
    for number, cut in _cuts(path):
        supervision = _supervision(cut)
        if supervision.text is None:
            raise FewerError(f"{path}, line {number}: cut {cut.id} has no transcript")
        if cut.id in texts:
            raise FewerError(f"{path}, line {number}: utterance {cut.id} is there twice")
        texts[cut.id] = supervision.text
        if supervision.speaker:
            speakers[cut.id] = supervision.speaker
    return Transcripts(texts, speakers)


def _cuts(path: str | Path) -> Iterable[tuple[int, ManifestCut]]:
    path = as_manifest(path, transcripts=False)
    for number, line in enumerate(read_raw_lines(path), start=1):
        cut = check_line(line, transcripts=False)
        if isinstance(cut, str):
            raise FewerError(f"{path}, line {number}: {cut}")
        yield number, cut


def _supervision(cut: ManifestCut) -> Supervision:
    return cut.supervisions[0] if cut.supervisions else Supervision()


def read_segments(path: str | Path) -> dict[str, Segment]:
    """Where each cut of a manifest lies: file, channel (0 is A, 1 is B), speaker and times."""
    segments: dict[str, Segment] = {}
    for number, cut in _cuts(path):
        if cut.recording is None or not cut.recording.id or not isinstance(cut.channel, int):
            raise FewerError(f"{path}, line {number}: cut {cut.id} is not of one channel of one recording")
        segments[cut.id] = Segment(
            file=cut.recording.id,
            channel=chr(ord("A") + cut.channel),
            speaker=_supervision(cut).speaker or cut.recording.id,
            start=cut.start,
            end=cut.start + cut.duration,
            text=cut.text,
        )
    return segments


def load_pairs(
    hypotheses: str | Path,
    references: str | Path | None = None,
    *,
    normaliser: Normaliser = NO_NORMALISER,
    segments: str | Path | None = None,
    speakers: str | Path | None = None,
    ranking: Ranking | None = None,
) -> Pairs:
    """Read what is to be scored. Without `references` an N-best file's own are taken."""
    if references is not None and kind_of(references) == "stm":
        words, decoded = _timed_words(hypotheses, segments, ranking)
        pairs = pair_by_time(words, formats.read_stm(references), normaliser, decoded)
    else:
        if segments is not None:
            raise FewerError("segments are for scoring against an stm reference")
        pairs = _pair_by_id(hypotheses, references, normaliser, ranking)
    if not pairs.refs:
        raise FewerError(f"{references or hypotheses} has no references")
    if speakers is not None:
        pairs = replace(pairs, speakers=formats.read_speakers(speakers))
    return pairs


def with_oracle(pairs: Pairs, hypotheses: str | Path, normaliser: Normaliser) -> Pairs:
    """The same references with those hypotheses of the N-best lists that have the fewest errors."""
    if kind_of(hypotheses) != "nbest":
        raise FewerError(f"{hypotheses} is no N-best file, so it has no oracle")
    if pairs.segments:
        raise FewerError("an oracle needs references of whole utterances, not an stm file")

    def fewest_errors(nbest: NBest) -> str:
        texts = _normalised({str(rank): one.text for rank, one in enumerate(nbest.hypotheses)}, normaliser.hyp)
        return min(texts.values(), key=lambda text: sum(fewest(pairs.refs.get(nbest.id, ""), text)[:3]))

    return replace(pairs, hyps={nbest.id: fewest_errors(nbest) for nbest in read_nbest(hypotheses)})


def _pair_by_id(
    hypotheses: str | Path, references: str | Path | None, normaliser: Normaliser, ranking: Ranking | None
) -> Pairs:
    hyps = read_transcripts(hypotheses, ranking)
    if references is not None:
        refs = read_transcripts(references)
        nist = kind_of(references) == "trn"
    elif hyps.refs is None:
        raise FewerError(f"{hypotheses} has no references of its own; name them by --ref")
    elif without := [utterance for utterance in hyps.texts if utterance not in hyps.refs]:
        raise FewerError(f"{hypotheses}: {len(without)} utterances have no reference: {listed(without)}")
    else:
        refs, nist = Transcripts(hyps.refs, hyps.speakers), False
    return Pairs(
        _normalised(refs.texts, normaliser.ref),
        _normalised(hyps.texts, normaliser.hyp),
        {**hyps.speakers, **refs.speakers},
        nist,
    )


def _normalised(texts: Mapping[str, str], function: Function) -> dict[str, str]:
    done: dict[str, str] = {}
    for utterance, text in texts.items():
        try:
            done[utterance] = function(text)
        except FewerError as error:
            raise FewerError(f"utterance {utterance}: {error}") from error
    return done


def _timed_words(
    hypotheses: str | Path, segments: str | Path | None, ranking: Ranking | None
) -> tuple[list[Word], set[Channel]]:
    """The words of the hypotheses, and which channels were decoded, be it to nothing."""
    if kind_of(hypotheses) == "ctm":
        words = formats.read_ctm(hypotheses)
        return words, {(word.file, word.channel) for word in words}
    if segments is None:
        raise FewerError(
            f"{hypotheses} has no times to be scored against an stm reference; give the manifest that it was decoded "
            "from by --segments, or a ctm file"
        )
    places = read_segments(segments)
    texts = read_transcripts(hypotheses, ranking).texts
    if unknown := [utterance for utterance in texts if utterance not in places]:
        raise FewerError(f"{segments}: {len(unknown)} utterances are not in it: {listed(unknown)}")
    laid = (_laid(text, places[utterance]) for utterance, text in texts.items())
    decoded = {(places[utterance].file, places[utterance].channel) for utterance in texts}
    return list(itertools.chain.from_iterable(laid)), decoded


def _laid(text: str, segment: Segment) -> list[Word]:
    return formats.spread(text, segment.file, segment.channel, segment.start, segment.end)


def pair_by_time(
    words: Sequence[Word], segments: Sequence[Segment], normaliser: Normaliser, decoded: set[Channel]
) -> Pairs:
    """Give the words to the segments. A segment's id is its file, channel and number in the channel."""
    assigned = formats.assign(words, segments)
    names = formats.segment_ids(segment for segment, _ in assigned)
    pairs = Pairs({}, {}, {}, nist=True)
    scored_segments, scored_words = [], []
    for name, (segment, theirs) in zip(names, assigned, strict=True):
        segment = replace(segment, text=normaliser.ref(segment.text))
        scored_segments.append(segment)
        pairs.refs[name] = segment.text
        pairs.speakers[name] = segment.speaker
        if (segment.file, segment.channel) in decoded:
            theirs = _normalised_words(theirs, normaliser)
            scored_words += theirs
            pairs.hyps[name] = " ".join(word.text for word in theirs)
    return replace(pairs, segments=tuple(scored_segments), words=tuple(scored_words))


def _normalised_words(words: Sequence[Word], normaliser: Normaliser) -> list[Word]:
    if normaliser.by_word or not words:
        mapped = [replace(word, text=normaliser.hyp(word.text)) for word in words]
        return [word for word in mapped if word.text]
    text = normaliser.hyp(" ".join(word.text for word in words))
    return formats.spread(text, words[0].file, words[0].channel, words[0].start, words[-1].start + words[-1].duration)


def parse_scales(text: str) -> dict[str, float]:
    """`lm=0.4,ilm=-0.2` as a dictionary."""
    scales: dict[str, float] = {}
    for part in text.split(","):
        term, equals, value = part.partition("=")
        try:
            scales[term.strip()] = float(value)
        except ValueError:
            equals = ""
        if not equals or not term.strip():
            raise FewerError(f"scales '{text}': write them as lm=0.4,ilm=-0.2")
    return scales


def write_references(path: str | Path, pairs: Pairs) -> None:
    """Write the references as they were scored: .trn, or .stm if they came from one."""
    kind = kind_of(path)
    if kind == "stm" and pairs.segments:
        formats.write_stm(path, pairs.segments)
    elif kind == "trn":
        formats.write_trn(path, pairs.refs, _all_speakers(pairs))
    else:
        raise FewerError(f"cannot write references to {path}: give a .trn file, or .stm if they come from an stm file")


def write_hypotheses(path: str | Path, pairs: Pairs) -> None:
    """Write the hypotheses as they were scored: .trn, or .ctm if they have times."""
    kind = kind_of(path)
    if kind == "ctm" and pairs.segments:
        formats.write_ctm(path, pairs.words)
    elif kind == "trn":
        formats.write_trn(path, {i: pairs.hyps.get(i, "") for i in pairs.refs}, _all_speakers(pairs))
    else:
        raise FewerError(
            f"cannot write hypotheses to {path}: give a .trn file, or .ctm if the reference is an stm file"
        )


def _all_speakers(pairs: Pairs) -> dict[str, str] | None:
    return pairs.speakers if all(utterance in pairs.speakers for utterance in pairs.refs) else None
