"""Audio files of any length into transcripts: windows cut at pauses, searched in batches, without invented text.

A recogniser that hears no speech may say something all the same, and now and then one falls into a loop. So a window
is empty if it is silent, or if the recogniser's probability of no speech is high and what it says is unlikely or
repeats itself; and a window in which it repeats itself or finds no end is cut in two, which are heard anew.

A search may skip speech. So what it found is compared with what is to be heard (`coverage`), and a window of which too
much is missing is searched again with the recogniser alone. What covers more is kept. So is a window whose text is
clearly of another kind than that of the language model (`foreign`), and one with a phrase that the recogniser alone
does not repeat as often. The recogniser alone skips speech, too: where much is still missing and something is said
there, the window is cut in two, which are heard anew; if they say as much more as could have been missing, they are
kept.
"""

import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from fewer.compute.memory import Halving
from fewer.decoding.identity import identity
from fewer.decoding.system import Search, System
from fewer.errors import FewerError
from fewer.models.encoded import Encoded
from fewer.progress import Bar, say, warn
from fewer.search.beam import beam_search
from fewer.search.nbest import Hypothesis
from fewer.transcription.confidence import with_confidences
from fewer.transcription.coverage import BETTER, DOUBTFUL, largest_gap, uncovered
from fewer.transcription.foreign import is_foreign
from fewer.transcription.journal import Journal, journal_of
from fewer.transcription.recording import Group, Recording, grouped, name_of, opened
from fewer.transcription.transcript import REASONS, Segment, Transcript, WithoutLm
from fewer.transcription.windows import Window, cut_windows, halves, is_silent, sounds
from fewer.transcription.word_times import spelled_words, within
from fewer.transcription.words import timed

BATCH = 8  # windows that are searched together
GROWTH = 4  # times as many as in the batch before
SHORTEST = 0.1  # seconds; nothing is said in less
DIVIDED = 8.0  # seconds at least of a window that may be cut in two
LABELS = 20  # for each second, and as many more, are no window's
GLANCE = 48  # labels after which a search in what is probably no speech stops for the first time
SKIPPED = 2.0  # seconds of sound that are not covered, from which on the halves of a window are heard
SPOKEN = 4  # labels at least that must be made out where speech seems to be missing
TOLD = 1.0  # labels more for each of these seconds that the halves must say: half of what slow speech has
PHRASE, OFTEN = 4, 3  # so many labels, said so often in a window, may be a loop that language models like
REPETITIVE = 2.4  # times that a text is longer than when it is compressed: openai/whisper's limit


@dataclass(frozen=True)
class TranscribeOptions:
    no_speech: float = 0.5  # where nobody speaks with a higher probability, …
    log_prob: float = -0.5  # … text counts only if its labels' mean log-probability is above this
    search: float | None = None  # a window ends at the quietest place of its last so many seconds; None: its last third
    longest: float | None = None  # seconds of a window at most; None: what the recogniser can hear
    confidences: bool = True  # say how sure the recogniser is of each word
    align: bool = True  # find out when each word was said, if the recogniser can; else in proportion to its length
    check: bool = True  # search again, without language models and in parts, where speech seems to be skipped


class Found(NamedTuple):
    """What a search made of a window."""

    hypothesis: Hypothesis
    times: list[tuple[float, float]] | None = None  # seconds of each label; None: not known
    missing: float = 0.0  # seconds of the window's sound that are not transcribed, as far as that can be told
    without_lm: WithoutLm | None = None  # why it is the recogniser's own


class Incomplete(FewerError):
    """Some files could not be transcribed, or not wholly."""

    def __init__(self, problems: Mapping[str, Sequence[str]]):
        """problems: of each file, if it has any."""
        bad = [problem for found in problems.values() for problem in found]
        count = sum(map(bool, problems.values()))
        listing = "\n".join(bad)
        super().__init__(f"{count} of {len(problems)} files could not be transcribed, or not wholly:\n{listing}")


class Transcriber:
    """A system that hears windows."""

    def __init__(
        self,
        search: Search,
        options: TranscribeOptions = TranscribeOptions(),
        journal: str | Path | None = None,
        group: int = 0,
    ):
        """journal: a file for the windows that are done, to go on with after a crash. group: what is done first."""
        self.search, self.options, self.languages = search, options, dict[str, Transcriber]()
        self.recogniser, self.beam = search.system.recogniser, search.options
        self.fusion = search.system.fusion(search.scales)
        alone = System(self.recogniser).fusion({})
        fused = any(scale for term, scale in self.fusion.scales.items() if term not in alone.terms)
        self.alone = alone if fused else None  # to search again with; None: no other models take part
        self.lm = search.system.lm if self.fusion.scales.get("lm") else None
        self.rate, able = self.recogniser.sampling_rate, self.recogniser.longest
        self.longest = able if options.longest is None else options.longest
        self.tail = self.longest / 3 if options.search is None else options.search
        if not 0 < self.tail < self.longest <= able:
            raise FewerError(
                f"windows of {self.longest:g} s, cut in their last {self.tail:g} s: "
                f"this recogniser hears up to {able:g} s at once, and the search must be shorter than the window"
            )
        self.halving = Halving("window")
        self.place = None if journal is None else Path(journal)
        self.journal = self._open_journal(group)

    def transcribe(self, recordings: Sequence[Recording]) -> Iterator[Transcript]:
        """The transcripts in order, each as soon as it is complete. Problems of a file are told in its transcript."""
        transcripts = [Transcript(name_of(recording)) for recording in recordings]
        given = 0
        for complete in self.stream(recordings, transcripts):
            yield from transcripts[given:complete]
            given = complete

    def stream(self, recordings: Sequence[Recording], transcripts: Sequence[Transcript]) -> Iterator[int]:
        """Put segments into the transcripts, in order; gives after each search how many transcripts are complete.

        The first window is searched by itself, so that the first segment comes soon; then ever more together.
        """
        groups = grouped(recordings)
        with Bar("seconds of audio", sum(group.seconds for group in groups) or None) as bar:
            for number, group in enumerate(groups):
                self.journal = self._open_journal(number) if number else self.journal
                yield from self.stream_group(group, recordings, transcripts, bar)

    def stream_group(
        self, group: Group, recordings: Sequence[Recording], transcripts: Sequence[Transcript], bar: Bar
    ) -> Iterator[int]:
        """The same of one group, whose windows are searched together with no others."""
        waiting: list[tuple[Transcript, Window]] = []
        size = 1
        for complete in range(group.first, group.last):
            for window in self._windows(recordings[complete], transcripts[complete]):
                waiting.append((transcripts[complete], window))
                if len(waiting) == size:
                    size = min(GROWTH * size, self._most())
                    bar.advance(self._flush(waiting))
                    yield complete
        if waiting:
            bar.advance(self._flush(waiting))
        yield group.last

    def _open_journal(self, number: int) -> Journal | None:
        if self.place is None:
            return None
        settings = (repr(self.search.scales), repr(self.options))
        return Journal(journal_of(self.place, number), identity(self.search.system, self.search.options, *settings))

    def _most(self) -> int:
        """Windows that are heard together."""
        together = self.recogniser.together(self.longest)
        return together if self.recogniser.device.type != "cpu" else min(BATCH, together)

    def _windows(self, recording: Recording, transcript: Transcript) -> Iterator[Window]:
        for window in cut_windows(self._blocks(recording, transcript), self.rate, self.longest, self.tail):
            transcript.duration = window.end / self.rate
            yield replace(window, language=transcript.language)

    def _blocks(self, recording: Recording, transcript: Transcript) -> Iterator[Tensor]:
        """What can be read of a recording; held back until its language is known, if that has to be detected."""
        held: list[Tensor] = []
        transcript.language = self.recogniser.language
        try:
            for block in opened(recording, self.rate):
                if self.recogniser.must_detect and transcript.language is None:
                    held.append(block)
                    if sum(map(len, held)) < self.recogniser.longest * self.rate:
                        continue
                    self._detect(torch.cat(held), transcript)
                    yield from held
                    held = []
                else:
                    yield block
        except FewerError as error:
            transcript.problems.append(str(error))
        if held and transcript.language is None:
            self._detect(torch.cat(held), transcript)
            yield from held

    def _detect(self, samples: Tensor, transcript: Transcript) -> None:
        """Find out what is spoken, from as much of the beginning as the recogniser hears at once. (T,)"""
        heard = samples[: int(self.recogniser.longest * self.rate)]
        ((language, probability),) = self.recogniser.detect_language(self.recogniser.listen([heard]))
        say(f"{transcript.file}: the language is {language} ({100 * probability:.0f} %)")
        self._in(language)
        transcript.language = language

    def _in(self, language: str | None) -> "Transcriber":
        """The same for a language that was detected."""
        if language == self.recogniser.language:
            return self
        assert language is not None
        if language not in self.languages:
            self.languages[language] = Transcriber(self.search.in_language(language), self.options)
        return self.languages[language]

    def _flush(self, waiting: list[tuple[Transcript, Window]]) -> int:
        """Put what was waiting into its transcripts; returns the seconds."""
        windows = [window for _, window in waiting]
        if self.journal is None:
            found = self.hear(windows)
        else:
            found = self.journal.get([transcript.file for transcript, _ in waiting], windows, self.hear)
        for (transcript, _), segments in zip(waiting, found, strict=True):
            transcript.segments += segments
            for segment in segments:
                where = f"{transcript.file}: {segment.start:.1f} to {segment.end:.1f} s"
                if segment.unclear:
                    warn(f"{where}: nothing could be made out")
                if segment.in_parts:
                    warn(f"{where}: the recogniser skipped speech; heard in parts")
                if segment.without_lm is not None:
                    warn(f"{where}: {REASONS[segment.without_lm]}; transcribed without them")
        seconds = sum(len(window.samples) for _, window in waiting) / self.rate
        waiting.clear()
        return round(seconds)

    def hear(self, windows: Sequence[Window]) -> list[list[Segment]]:
        """The segments of each window: one, or several if it had to be divided."""
        if not self.recogniser.must_detect:
            return [segments for part in self.halving(self._hear, windows) for segments in part]
        found: list[list[Segment]] = [[] for _ in windows]
        for language in dict.fromkeys(window.language for window in windows):
            places = [place for place, window in enumerate(windows) if window.language == language]
            heard = self._in(language).hear([windows[place] for place in places])
            for place, segments in zip(places, heard, strict=True):
                found[place] = segments
        return found

    def _hear(self, windows: Sequence[Window]) -> list[list[Segment]]:
        found = [[self._empty(window)] for window in windows]
        loud = [
            index
            for index, window in enumerate(windows)
            if len(window.samples) >= SHORTEST * self.rate and not is_silent(window.samples)
        ]
        if not loud:
            return found
        encoded = self.recogniser.listen([windows[index].samples for index in loud]).remembering()
        said = self.recogniser.no_speech(encoded)
        no_speech = None if said is None else said.cpu()
        seconds = torch.tensor([len(windows[index].samples) / self.rate for index in loud])
        limits = torch.minimum(self.recogniser.max_lengths(encoded).cpu(), (LABELS * (1 + seconds)).long())
        doubtful = torch.zeros(len(loud), dtype=torch.bool) if no_speech is None else no_speech > self.options.no_speech
        best = self._search(encoded, limits, doubtful)
        checked = self._checked([windows[index] for index in loud], best, encoded, limits)
        for place, index in enumerate(loud):
            probability = None if no_speech is None else float(no_speech[place])
            segments = self._judged(windows[index], checked[place], probability, _one(encoded, place))
            found[index] = self._complete(windows[index], checked[place], segments)
        return found

    def _complete(self, window: Window, found: Found, segments: list[Segment]) -> list[Segment]:
        """The segments, or those of the window's halves if these tell what was skipped."""
        whole = len(segments) == 1 and segments[0].hypothesis is not None
        if not whole or found.missing < SKIPPED or len(window.samples) < DIVIDED * self.rate:
            return segments
        if not self._skips(window, found):
            return segments
        parts = [segment for part in self.hear(halves(window, self.rate)) for segment in part]
        more = sum(_labels(segment) for segment in parts) - _labels(segments[0])
        return [replace(part, in_parts=True) for part in parts] if more >= TOLD * found.missing else segments

    def _skips(self, window: Window, found: Found) -> bool:
        """Whether anything is said where most is missing: there may be music, or noise."""
        first, last = (round(time * self.rate) for time in largest_gap(found.times or [], _heard(window, self.rate)))
        encoded = self.recogniser.listen([window.samples[first:last]])
        limits = self.recogniser.max_lengths(encoded).cpu().clamp_max(GLANCE)
        (hypothesis,) = self._best(encoded, limits)
        likely = hypothesis.scores["aed"] > 2 * self.options.log_prob * hypothesis.length  # it may begin within a word
        return likely and not is_repetitive(hypothesis.text) and len(hypothesis.tokens) >= SPOKEN

    def _checked(
        self, windows: Sequence[Window], best: Sequence[Hypothesis], encoded: Encoded, limits: Tensor
    ) -> list[Found]:
        """Where language models skipped speech, or know nothing of it, or loop, the recogniser's own. limits: (B,)"""
        found = [Found(hypothesis) for hypothesis in best]
        if not self.options.check:
            return found
        found = [self._aligned(windows[place], each, encoded, place) for place, each in enumerate(found)]
        if self.alone is None:
            return found
        again = [
            place
            for place, each in enumerate(found)
            if each.missing > DOUBTFUL
            or is_foreign(self.lm, each.hypothesis.tokens)
            or most_repeated(each.hypothesis.tokens) >= OFTEN
        ]
        if not again:
            return found
        rows, usual = torch.tensor(again), self.recogniser.defaults.search  # not the length policy of the LMs
        options = replace(usual, beam=self.beam.beam, n_best=1, label_scores=self.options.confidences)
        lists = beam_search(self.alone, encoded.select(rows), limits[rows], options, self.recogniser.tokenizer.decode)
        for place, (hypothesis, *_) in zip(again, lists, strict=True):
            if hypothesis.ended and not is_repetitive(hypothesis.text):
                other = self._aligned(windows[place], Found(hypothesis), encoded, place)
                gained = found[place].missing - other.missing
                if (reason := self._reason(found[place].hypothesis, hypothesis, gained)) is not None:
                    found[place] = other._replace(without_lm=reason)
        return found

    def _reason(self, fused: Hypothesis, alone: Hypothesis, gained: float) -> WithoutLm | None:
        """Why the recogniser's own hypothesis is better, if it is. gained: seconds that it covers in addition."""
        if gained > BETTER:
            return "skipped"
        if gained >= -BETTER and is_foreign(self.lm, fused.tokens):
            return "foreign"
        often = most_repeated(fused.tokens)
        if gained >= -BETTER and often >= OFTEN and most_repeated(alone.tokens) < often:
            return "repeated"
        return None

    def _aligned(self, window: Window, found: Found, encoded: Encoded, place: int) -> Found:
        """With the times of its labels and what they miss, if the recogniser can tell and it came to an end."""
        if not found.hypothesis.ended:
            return found
        times = self.recogniser.times(_one(encoded, place), found.hypothesis.tokens)
        if times is None:
            return found
        return found._replace(times=times, missing=uncovered(times, _heard(window, self.rate)))

    def _search(self, encoded: Encoded, limits: Tensor, doubtful: Tensor) -> list[Hypothesis]:
        """The best of each utterance; where it is doubtful that anybody speaks, at first of a few labels. (B,), (B,)"""
        short = torch.where(doubtful, limits.clamp_max(GLANCE), limits)
        best = self._best(encoded, short)
        again = [
            row
            for row, hypothesis in enumerate(best)
            if limits[row] > short[row] and not hypothesis.ended and not is_repetitive(hypothesis.text)
        ]
        if again:
            rows = torch.tensor(again)
            for row, hypothesis in zip(again, self._best(encoded.select(rows), limits[rows]), strict=True):
                best[row] = hypothesis
        return best

    def _best(self, encoded: Encoded, limits: Tensor) -> list[Hypothesis]:
        options = replace(self.beam, n_best=1, label_scores=self.options.confidences)
        lists = beam_search(self.fusion, encoded, limits, options, self.recogniser.tokenizer.decode)
        return [hypotheses[0] for hypotheses in lists]

    def _judged(self, window: Window, found: Found, no_speech: float | None, encoded: Encoded) -> list[Segment]:
        """What is to be believed of it. encoded: of this window."""
        hypothesis, times, _, without_lm = found
        mean, loops = hypothesis.scores["aed"] / hypothesis.length, is_repetitive(hypothesis.text)
        silent = no_speech is not None and no_speech > self.options.no_speech
        if silent and (mean < self.options.log_prob or loops):
            return [self._empty(window, no_speech)]
        if not hypothesis.ended or loops:
            if len(window.samples) >= DIVIDED * self.rate:
                return [segment for part in self.hear(halves(window, self.rate)) for segment in part]
            if not hypothesis.ended:
                return [replace(self._empty(window, no_speech), unclear=True)]
        heard = [
            ((window.start + first) / self.rate, (window.start + last) / self.rate)
            for first, last in sounds(window.samples, self.rate)
        ]
        start, end = heard[0][0], heard[-1][1]
        if self.options.align and times is None:
            times = self.recogniser.times(encoded, hypothesis.tokens)
        decode = self.recogniser.tokenizer.decode
        if times is None or not self.options.align:
            words = timed(hypothesis.text, start, end)
        else:
            offset = window.start / self.rate
            times = [(offset + first, offset + last) for first, last in times]
            words = within(spelled_words(hypothesis.tokens, times, decode), heard)
        if "aed" in hypothesis.label_scores:
            words = with_confidences(words, hypothesis.tokens, hypothesis.label_scores["aed"], decode)
        return [Segment(start, end, hypothesis, words, no_speech, without_lm=without_lm)]

    def _empty(self, window: Window, no_speech: float | None = None) -> Segment:
        return Segment(window.start / self.rate, window.end / self.rate, no_speech=no_speech)


def is_repetitive(text: str) -> bool:
    """Whether it says the same over and over: it is compressed far better than text is."""
    spelled = text.encode()
    return len(spelled) > REPETITIVE * len(zlib.compress(spelled))


def most_repeated(labels: Sequence[int], length: int = PHRASE) -> int:
    """How often the most frequent of the phrases of so many labels occurs."""
    phrases = zip(*(labels[first:] for first in range(length)), strict=False)
    return max(Counter(phrases).values(), default=0)


def _one(encoded: Encoded, place: int) -> Encoded:
    return encoded.select(torch.tensor([place]))


def _labels(segment: Segment) -> int:
    return 0 if segment.hypothesis is None else len(segment.hypothesis.tokens)


def _heard(window: Window, rate: int) -> list[tuple[float, float]]:
    """From which to which second of the window something is to be heard."""
    return [(first / rate, last / rate) for first, last in sounds(window.samples, rate)]
