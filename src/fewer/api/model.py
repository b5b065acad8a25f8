"""A recogniser with its language models, ready to transcribe."""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypedDict, Unpack, overload

import torch

from fewer.adaptation.searching import Models, Options, load_search
from fewer.api.arguments import check_choice, listed
from fewer.api.audio import Audio, recording
from fewer.api.results import NBestLists, TextScores, Transcription, Transcriptions
from fewer.compute.device import Precision, choose_placement
from fewer.compute.engines import started
from fewer.compute.engines.engine import Engine, Local
from fewer.compute.world import processes
from fewer.data.corpora.given import as_manifest
from fewer.decoding.decode import decode as decode_set
from fewer.decoding.parts import parse_share
from fewer.decoding.system import Search
from fewer.errors import FewerError
from fewer.files import check_output
from fewer.search.forced import forced_scores
from fewer.search.nbest import Hypothesis, read_nbest
from fewer.transcription.divided import stream_by
from fewer.transcription.recording import Recording, name_of, opened
from fewer.transcription.transcribe import TranscribeOptions, Transcriber
from fewer.transcription.transcript import Transcript

Task = Literal["transcribe", "translate"]
TASKS = ("transcribe", "translate")


class TranscribeArguments(TypedDict, total=False):
    """For type checkers: what `Model.transcribe` takes by name."""

    no_speech: float
    log_prob: float
    longest: float | None
    search: float | None
    word_times: bool
    confidences: bool
    journal: str | Path | None
    engine: str | Engine


def load(
    model: str | Path,
    *,
    lm: str | Path | None = None,
    lm_scale: float | None = None,
    ilm: str | Path | None = None,
    ilm_scale: float | None = None,
    words: str | Path | None = None,
    words_scale: float | None = None,
    ctc_scale: float = 0.0,
    beam: int | None = None,
    length_exponent: float | None = None,
    reward: float | None = None,
    end_by: str | Sequence[str] | None = None,
    base: str | Path | None = None,
    language: str | None = None,
    task: Task = "transcribe",
    device: str = "auto",
    precision: Precision = "auto",
) -> "Model":
    """Load a recogniser and the language models it is used with.

        model = fewer.load("tiny.en", lm="domain.arpa", ilm="ilm")
        for segment in model.transcribe("call.wav"):
            print(segment.start, segment.text)

    Args:
        model: a Whisper by its short name ("tiny.en", "large-v3", "turbo", "distil-large-v3"), by its name on the
            Hugging Face hub ("openai/whisper-small") or by its folder; a folder of `fewer train`; or a bundle of
            `fewer adapt`, which brings its own language models and scales. What is given here overrides the bundle's.
        lm: an external language model: a folder of `fewer train`, an n-gram file, or "hf:NAME".
        lm_scale: λ1, what its score is multiplied by. Default: what suits the recogniser, as for all that follows.
        ilm: the recogniser's internal language model, which is subtracted: a folder of `fewer.estimate_ilm`.
        ilm_scale: λ2, what its score is multiplied by before it is subtracted.
        words: a file of hotwords, names and terms to reward: on each line a term, or a term, a tab and its weight.
        words_scale: what the weights of hotwords are multiplied by.
        ctc_scale: weight of the CTC prefix score, for recognisers that have it.
        beam: hypotheses kept in the search: 5 for Whisper, 12 for models of `fewer train`.
        length_exponent: scores are divided by length to this power; 0 turns it off.
        reward: added to the score for every token.
        end_by: the terms ("aed", "lm", "ilm", "ctc") that score the end of an utterance. Default: all terms; for
            Whisper: "aed" only.
        base: where the model of a bundle is now, if it was moved.
        language: what is spoken, such as "de". Default: `transcribe` detects it, if the Whisper is multilingual.
        task: "transcribe", or "translate" (into English).
        device: "auto" (a GPU if there is one), "cpu", "cuda", "cuda:1" (the second GPU) or "mps".
        precision: of the encoder: "float32", "bfloat16", "float16" (GPUs) or "int8" (Whisper on CPUs). "auto":
            int8 for Whisper on a CPU that is fast in it, else float32.
    """
    check_choice("task", task, TASKS)
    placement = choose_placement(device, precision)
    end_terms = None if end_by is None else listed(end_by)
    models = Models(model, lm, ilm, words, ctc_scale, end_terms, base, language, task, True, placement)
    options = Options(lm_scale, ilm_scale, words_scale, beam, length_exponent, reward)
    return Model(load_search(models, options))


class Model:
    """A recogniser with its language models and scales. `fewer.load` makes it."""

    def __init__(self, search: Search):
        self.search, self.recogniser = search, search.system.recogniser

    @property
    def scales(self) -> dict[str, float]:
        """What the score of each term is multiplied by; negative for what is subtracted."""
        return {"aed": 1.0, **self.search.scales}

    @overload
    def transcribe(  # type: ignore[overload-overlap]  # a string is a sequence of strings to type checkers
        self, audio: Audio, sampling_rate: int = ..., **options: Unpack[TranscribeArguments]
    ) -> Transcription: ...

    @overload
    def transcribe(
        self, audio: Sequence[Audio], sampling_rate: int = ..., **options: Unpack[TranscribeArguments]
    ) -> Transcriptions: ...

    def transcribe(
        self,
        audio: Audio | Sequence[Audio],
        sampling_rate: int = 16000,
        *,
        no_speech: float = 0.5,
        log_prob: float = -0.5,
        longest: float | None = None,
        search: float | None = None,
        word_times: bool = True,
        confidences: bool = True,
        journal: str | Path | None = None,
        engine: str | Engine = "local",
    ) -> Transcription | Transcriptions:
        """Transcribe recordings of any length, in windows that are cut at pauses.

        Work begins when the result is used. Iterate over the result for segments as they are recognised, or take its
        `text`, `segments`, `words`, `to_json()` and `problems`. For a list of recordings, the result has one such
        result for each, in order; a file that cannot be read then has `problems` instead of stopping the others.

        Args:
            audio: a file, an array of samples (numpy or torch, one channel), or a list of these.
            sampling_rate: of arrays; other rates than the recogniser's are converted.
            no_speech: where the probability that nobody speaks is higher than this, unlikely text is dropped.
            log_prob: text is unlikely if the mean log-probability of its tokens is lower than this.
            longest: seconds of a window at most. Default: 30.
            search: a window ends at the quietest place of its last so many seconds. Default: a third of it.
            word_times: align words with the audio; else their times are estimated from their lengths.
            confidences: give each word the geometric mean of the recogniser's own probabilities of its tokens, in
                which language models have no part.
            journal: a file that windows are written to as they are done. Called again with the same file after a crash,
                it goes on with the next window. Delete the file afterwards.
            engine: who transcribes a list of recordings: "local" (this process), "processes:N", "torchrun",
                "ray" or "ray:ADDRESS" (docs/cluster.md). The transcripts are the same.
        """
        options = TranscribeOptions(no_speech, log_prob, search, longest, confidences, word_times)
        if isinstance(audio, Sequence) and not isinstance(audio, str):
            several = [recording(one, sampling_rate, f"audio {number}") for number, one in enumerate(audio)]
            transcripts = [Transcript(name_of(one)) for one in several]
            if not isinstance(engine, Local) and (engine != "local" or processes()[1] > 1):
                return Transcriptions(transcripts, self._by(engine, options, journal, several, transcripts))
            transcriber = Transcriber(self.search, options, journal)
            return Transcriptions(transcripts, transcriber.stream(several, transcripts))
        one, transcriber = recording(audio, sampling_rate), Transcriber(self.search, options, journal)
        opened(one, transcriber.rate)  # complains at once
        transcript = Transcript(name_of(one))
        return Transcription(transcript, transcriber.stream([one], [transcript]))

    def _by(
        self,
        engine: str | Engine,
        options: TranscribeOptions,
        journal: str | Path | None,
        recordings: Sequence[Recording],
        transcripts: Sequence[Transcript],
    ) -> Iterator[int]:
        with started(engine, self.recogniser.device) as workers:
            yield from stream_by(workers, self.search, options, journal, recordings, transcripts)

    def decode(
        self,
        manifest: str | Path,
        out: str | Path | None = None,
        *,
        n_best: int | None = None,
        max_length: int | None = None,
        engine: str | Engine = "local",
        shard: str | None = None,
    ) -> NBestLists:
        """N-best lists of a set, with every term's own score.

        Args:
            manifest: the utterances: a manifest of `fewer.prepare` or lhotse, a table (.csv, .tsv, .jsonl of NeMo), a
                folder of audio with .txt files beside it, a Kaldi data directory, a saved dataset, or lhotse Shar.
            out: an N-best file (.jsonl) to write; it is complete or absent. Without it the lists are kept in memory.
            n_best: hypotheses of each utterance. Default: all of the beam.
            max_length: tokens at most. Default: as many as the encoder has frames.
            engine: who decodes: "local" (this process), "processes:N", "torchrun", "ray" or "ray:ADDRESS"
                (docs/cluster.md). The lists are the same, bit for bit.
            shard: "i/n": decode only the i-th of n parts, to be put together by `fewer.merge`.
        """
        search, manifest = self._spoken(), as_manifest(manifest, transcripts=False)
        options = replace(search.options, n_best=n_best, max_length=max_length)
        share = None if shard is None else parse_share(shard)
        if share is not None and out is None:
            raise FewerError(f"--shard {shard}: say where the parts are to be, by the name of the N-best file")
        with started(engine, self.recogniser.device) as workers, tempfile.TemporaryDirectory() as folder:
            path = Path(workers.same(folder)) / "nbest.jsonl" if out is None else Path(out)
            check_output(path)
            count = decode_set(search.system, manifest, path, search.scales, options, workers, share=share)
            if share is not None:
                return NBestLists(path, count)
            lists = NBestLists(path, count, None if out is not None else list(read_nbest(path)))
            workers.wait()
        return lists

    def log_probs(self, text: str, audio: Audio, sampling_rate: int = 16000) -> TextScores:
        """What recogniser and language models say of a text, given a recording of one window (30 s for Whisper).

        The text is scored as the search would have scored it, had it found it.
        """
        search = self._spoken()
        samples = torch.cat(list(opened(recording(audio, sampling_rate), self.recogniser.sampling_rate)))
        if not 0 < len(samples) <= self.recogniser.longest * self.recogniser.sampling_rate:
            seconds = len(samples) / self.recogniser.sampling_rate
            raise FewerError(f"the recording lasts {seconds:g} s; give one of at most {self.recogniser.longest:g} s")
        encoded = self.recogniser.listen([samples])
        tokens = tuple(self.recogniser.tokenizer.encode(text))
        if len(tokens) + 1 > (most := int(self.recogniser.max_lengths(encoded)[0])):
            raise FewerError(f"the text has {len(tokens)} tokens; the recogniser allows {most - 1} for this recording")
        fusion = search.system.fusion(search.scales)
        given = Hypothesis(text, tokens, {}, len(tokens) + 1, 0.0)
        scores = forced_scores(fusion, encoded, [[given]])[0][0]
        total = sum(fusion.scales[term] * score for term, score in scores.items())
        score = search.options.length.score(total, given.length)
        return TextScores(scores, total, score, given.length)

    def _spoken(self) -> Search:
        """What is searched with; an error if a language has to be said."""
        if self.recogniser.must_detect:
            raise FewerError(
                "this model knows several languages, and only `transcribe` detects which one is spoken: "
                "say it, such as --language en (language='en')"
            )
        return self.search

    def __repr__(self) -> str:
        names = self.search.system.names
        parts = [f"{scale:+g} × {term} {names.get(term, '')}".rstrip() for term, scale in self.search.scales.items()]
        return f"<fewer.Model {', '.join([names.get('model', 'recogniser'), *parts])}>"
