"""Recognising, and finding out with what: `transcribe`, `decode`, `rescore`, `tune`, `adapt`."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypedDict, Unpack, overload

from fewer.adaptation.adapt import AdaptOptions
from fewer.adaptation.adapt import adapt as adapt_recogniser
from fewer.adaptation.bundle import BundleFacts
from fewer.adaptation.searching import check_end_by
from fewer.api.arguments import listed, paths
from fewer.api.audio import Audio
from fewer.api.model import Task, load
from fewer.api.results import NBestLists, Transcription, Transcriptions
from fewer.compute.device import Precision, choose_placement
from fewer.compute.engines import started
from fewer.compute.engines.engine import Engine
from fewer.compute.world import check_alone
from fewer.config import parse_config
from fewer.data.corpora.given import as_manifest
from fewer.data.manifest import Manifest
from fewer.decoding.encoding import hold_set
from fewer.decoding.identity import identity
from fewer.decoding.parts import merge as merge_parts
from fewer.decoding.rescore import rescore as rescore_lists
from fewer.decoding.system import System, load_system
from fewer.decoding.tunable import tuning_method
from fewer.evaluation.alignment import Rules
from fewer.evaluation.normalise import load_normaliser
from fewer.files import check_output
from fewer.locks import exclusive
from fewer.recognisers.loader import load_recogniser
from fewer.search.beam import SearchOptions
from fewer.search.nbest import read_nbest
from fewer.store.lms import load_lm_and_tokenizer
from fewer.tuning.methods import check_methods, options_of, tune_all
from fewer.tuning.pool import Metric
from fewer.tuning.tune import TuneOptions, TuneResult


class LoadArguments(TypedDict, total=False):
    """For type checkers: what `transcribe` takes by name."""

    sampling_rate: int
    lm: str | Path | None
    lm_scale: float | None
    ilm: str | Path | None
    ilm_scale: float | None
    words: str | Path | None
    words_scale: float | None
    beam: int | None
    language: str | None
    task: Task
    device: str
    precision: Precision


@overload
def transcribe(  # type: ignore[overload-overlap]  # a string is a sequence of strings to type checkers
    audio: Audio, model: str | Path, **options: Unpack[LoadArguments]
) -> Transcription: ...


@overload
def transcribe(audio: Sequence[Audio], model: str | Path, **options: Unpack[LoadArguments]) -> Transcriptions: ...


def transcribe(
    audio: Audio | Sequence[Audio],
    model: str | Path,
    *,
    sampling_rate: int = 16000,
    lm: str | Path | None = None,
    lm_scale: float | None = None,
    ilm: str | Path | None = None,
    ilm_scale: float | None = None,
    words: str | Path | None = None,
    words_scale: float | None = None,
    beam: int | None = None,
    language: str | None = None,
    task: Task = "transcribe",
    device: str = "auto",
    precision: Precision = "auto",
) -> Transcription | Transcriptions:
    """Transcribe recordings of any length: `fewer.load(model, …).transcribe(audio)`.

        print(fewer.transcribe("call.wav", "tiny.en").text)

    To transcribe more than once, load the model once: `model = fewer.load("tiny.en")`, which has more options.

    Args:
        audio: a file, an array of samples (numpy or torch, one channel), or a list of these.
        model: a Whisper ("tiny.en", "openai/whisper-small", a folder), a folder of `fewer train`, or a bundle of
            `fewer adapt`. What is given here overrides the bundle's.
        sampling_rate: of arrays.
        lm, lm_scale: an external language model and its weight λ1.
        ilm, ilm_scale: the internal language model, which is subtracted, and λ2.
        words, words_scale: a file of hotwords, and what their weights are multiplied by.
        beam: hypotheses kept in the search. Default: 5.
        language: what is spoken, such as "de". Default: detected, if the Whisper is multilingual.
        task: "transcribe", or "translate" (into English).
        device, precision: as in `fewer.load`.

    Returns:
        For one recording, a result to iterate over for segments as they are recognised, with `text`, `segments`,
        `words`, `to_json()` and `problems`. For a list, one such result for each recording.
    """
    loaded = load(
        model,
        lm=lm,
        lm_scale=lm_scale,
        ilm=ilm,
        ilm_scale=ilm_scale,
        words=words,
        words_scale=words_scale,
        beam=beam,
        language=language,
        task=task,
        device=device,
        precision=precision,
    )
    return loaded.transcribe(audio, sampling_rate)


def decode(
    model: str | Path,
    manifest: str | Path,
    out: str | Path | None = None,
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
    n_best: int | None = None,
    max_length: int | None = None,
    end_by: str | Sequence[str] | None = None,
    base: str | Path | None = None,
    language: str | None = None,
    task: Task = "transcribe",
    engine: str | Engine = "local",
    shard: str | None = None,
    device: str = "auto",
    precision: Precision = "auto",
) -> NBestLists:
    """Decode a set: N-best lists with every term's own score. As `fewer.load(model, …).decode(manifest, out, …)`.

    Args:
        model: the recogniser: one of transformers, a folder of `fewer train`, or a bundle of `fewer adapt`.
        lm, lm_scale, ilm, ilm_scale, words, words_scale, ctc_scale, beam, length_exponent, reward, end_by, base,
            language, task, device, precision: as in `fewer.load`.
        manifest: the utterances: a manifest of `fewer.prepare` or lhotse, a table (.csv, .tsv, .jsonl of NeMo), a
            folder of audio with .txt files beside it, a Kaldi data directory, a saved dataset, or lhotse Shar.
        out: an N-best file (.jsonl) to write. Without it the lists are kept in memory.
        n_best: hypotheses of each utterance. Default: all of the beam.
        max_length: tokens at most. Default: as many as the encoder has frames.
        engine, shard: as in `Model.decode`.
    """
    if out is not None:
        check_output(out)
    loaded = load(
        model,
        lm=lm,
        lm_scale=lm_scale,
        ilm=ilm,
        ilm_scale=ilm_scale,
        words=words,
        words_scale=words_scale,
        ctc_scale=ctc_scale,
        beam=beam,
        length_exponent=length_exponent,
        reward=reward,
        end_by=end_by,
        base=base,
        language=language,
        task=task,
        device=device,
        precision=precision,
    )
    return loaded.decode(manifest, out, n_best=n_best, max_length=max_length, engine=engine, shard=shard)


def merge(out: str | Path) -> NBestLists:
    """Put the parts together that `fewer.decode(…, out, shard="i/n")` left, when all n are done.

    Args:
        out: the N-best file that was given to them; it is written now.
    """
    path = Path(out)
    with exclusive(path.parent, f".{path.name}.lock"):
        return NBestLists(path, merge_parts(path))


def rescore(
    nbest: str | Path,
    lm: str | Path,
    out: str | Path | None = None,
    *,
    scale: float = 0.3,
    term: str = "rescore",
    model: str | Path | None = None,
    device: str = "auto",
) -> NBestLists:
    """Add a language model's score to N-best lists and rank them anew.

    Args:
        nbest: an N-best file of `fewer.decode`.
        lm: any language model: a folder of `fewer train`, an n-gram file, or "hf:NAME".
        out: an N-best file to write. Without it the lists are kept in memory.
        scale: the weight of its score; negative for one that is subtracted.
        term: the name of the new term.
        model: a model folder whose tokenizer an n-gram file uses.
        device: as in `fewer.load`.
    """
    check_alone("fewer rescore")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "nbest.jsonl" if out is None else Path(out)
        check_output(path)
        count = rescore_lists(
            nbest, path, *load_lm_and_tokenizer(lm, model, choose_placement(device).device), term, scale
        )
        return NBestLists(path, count, None if out is not None else list(read_nbest(path)))


def tune(
    model: str | Path,
    manifest: str | Path,
    out: str | Path,
    *,
    lm: str | Path | None = None,
    ilm: str | Path | Sequence[str | Path] | None = None,
    sf: bool = True,
    ctc: bool = False,
    length: Literal["exponent", "reward", "fixed"] | None = None,
    fixed: Mapping[str, float] | None = None,
    tied: Mapping[str, tuple[float, str]] | None = None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    budget: int = 6,
    no_harm: bool = False,
    beam: int | None = None,
    max_length: int | None = None,
    end_by: str | Sequence[str] | None = None,
    language: str | None = None,
    task: Task = "transcribe",
    normalise: str | None = None,
    rules: Rules | None = None,
    engine: str | Engine = "local",
    device: str = "auto",
    precision: Precision = "auto",
) -> dict[str, TuneResult]:
    """Find λ1, λ2 and the length parameter with the fewest word errors on a dev set, in a handful of decodes.

    Every method has its own pool of hypotheses and the same budget. Interrupted, the same call goes on with the decodes
    that are in `out`.

    Args:
        model: the recogniser: a folder of `fewer train`, or one of transformers.
        manifest: the dev set, with transcripts; anything that `fewer.decode` takes.
        out: a folder for results, WER surfaces, pools and decodes of each method.
        lm: the external language model.
        ilm: folders of `fewer.estimate_ilm`; each is one method to tune.
        sf: also tune without an internal language model (shallow fusion).
        ctc: also tune the weight of the CTC prefix score.
        length: the length parameter that is tuned; "fixed": none, scores are divided by length. Default: the exponent;
            for Whisper none, scores are divided by length^1.5 as everywhere.
        fixed: parameters to keep, such as {"lm": 0.4}.
        tied: scales tied to another one, such as {"ilm": (0.8, "lm")}.
        ranges: lowest and highest value, such as {"ilm": (0, 0.6)}.
        budget: decodes of each method at most, before other terms score the end of an utterance.
        no_harm: keep scales of 0 unless the dev set improves significantly.
        beam: hypotheses kept for each utterance. Default: 5 for Whisper, 12 for models of `fewer train`.
        max_length: tokens at most. Default: as many as the encoder has frames.
        end_by: the terms that score the end of an utterance, as in `fewer.load`. Default: the usual ones, unless others
            are significantly better where the scales are tuned, which takes a decode of each.
        language, task: of a multilingual Whisper.
        normalise: as in `fewer.score`. Default: none; for Whisper english, or basic in other languages.
        rules: how errors are counted, as in `fewer.score`.
        engine: who searches, as in `Model.decode`; not torchrun.
        device, precision: as in `fewer.load`.

    Returns:
        The result of each method by its name ("sf", or the name of the folder): `wer`, `scales`, `converged` and so on.
    """
    check_alone("fewer tune", "give its searches several by --engine")
    out, manifest = Path(out), as_manifest(manifest)
    recogniser = load_recogniser(model, language, task, True, choose_placement(device, precision))
    given = {"fixed": dict(fixed or {}), "tied": dict(tied or {}), "ranges": dict(ranges or {})}
    space = {**recogniser.defaults.space(length), **given}
    options = parse_config(TuneOptions, {"space": space, "budget": budget, "no_harm": no_harm}, "fewer tune")
    search = SearchOptions(recogniser.defaults.search.beam if beam is None else beam, max_length=max_length)
    normaliser = load_normaliser(normalise or recogniser.defaults.normaliser)
    metric = Metric(normaliser, rules or ("hubscr" if normaliser.glm else "plain"))
    folders, end_terms = paths(ilm), None if end_by is None else listed(end_by)
    check_end_by(end_terms, ["aed", *(["lm"] if lm else []), *(["ilm"] if folders else []), *(["ctc"] if ctc else [])])

    def marks(system: System) -> str:
        return identity(system, search, manifest)

    with started(engine, recogniser.device) as workers:
        batches = hold_set(recogniser, Manifest(manifest, transcripts=False), out / "encodings", engine=workers)
        methods = []
        for folder in ([None] if sf or not folders else []) + list(folders):
            name = folder.name if folder is not None else "sf" if lm else "none"
            system = load_system(recogniser, lm, folder, ctc, end_terms)
            methods.append(tuning_method(name, system, batches, search, marks, ends=end_terms is None))
        check_methods(methods, options)  # before the dev set is encoded, which may take a while
        if start := recogniser.defaults.tuning.get("start"):
            options = options_of(
                [term for method in methods for term in method.terms], options.model_copy(update={"start": start})
            )
        with exclusive(out), batches:
            return tune_all(methods, options, metric, out, manifest.stem, workers)


def adapt(
    model: str | Path,
    out: str | Path,
    *,
    text: str | Path | Sequence[str | Path] | None = None,
    lm: str | Path | None = None,
    words: str | Path | None = None,
    dev: str | Path | None = None,
    general: str | Path | None = None,
    transcripts: str | Path | None = None,
    audio: str | Path | None = None,
    general_text: str | Path | None = None,
    method: str | Sequence[str] | None = None,
    style: Literal["auto", "none"] = "auto",
    order: int = 4,
    beam: int = 5,
    budget: int = 5,
    normalise: str | None = None,
    language: str | None = None,
    task: Task = "transcribe",
    device: str = "auto",
    precision: Precision = "auto",
) -> BundleFacts:
    """Adapt a recogniser to a domain with text alone: language model, internal language model and scales in one folder.

        fewer.adapt("tiny.en", "adapted", text="domain.txt", dev="dev.jsonl")
        model = fewer.load("adapted")

    Interrupted, the same call goes on where it was.

    Args:
        model: the recogniser: a Whisper by its short name, hub name or folder, or a folder of `fewer train`.
        out: the bundle, a folder to write.
        text: text of the domain: files, plain, gzip or xz, or manifests.
        lm: instead of text, a language model: an n-gram file, a folder of `fewer train`, or "hf:NAME".
        words: a file of hotwords: on each line a term, or a term, a tab and its weight.
        dev: a set with transcripts, as in `fewer.decode`. With it, method and scales are chosen by its word error rate,
            and nothing is added unless it improves significantly; without it, default scales are taken.
        general: a set of other speech, whose error rate is reported with and without adaptation.
        transcripts: text or manifest of speech such as the model was trained on, for internal language models.
        audio: such speech without transcripts, a set: the model's own are taken.
        general_text: cased text of any kind, for the case of names and for the method lodr.
        method: try only these: "none", "sf", or methods of `fewer.estimate_ilm`.
        style: "none": the text is written as the model writes already.
        order: length of the longest n-grams.
        beam: hypotheses kept for each utterance.
        budget: decodes of the dev set for each method at most.
        normalise: as in `fewer.score`. Default: none; for Whisper english, or basic in other languages.
        language, task: of a multilingual Whisper.
        device, precision: as in `fewer.load`.

    Returns:
        What the bundle's bundle.json says: `method`, `scales`, results on `dev` and `general`, …
    """
    check_alone("fewer adapt")
    values = {
        "text": paths(text),
        "lm": None if lm is None else str(lm),
        "words": words,
        "dev": None if dev is None else as_manifest(dev),
        "general": None if general is None else as_manifest(general),
        "transcripts": transcripts,
        "audio": None if audio is None else as_manifest(audio, transcripts=False),
        "general_text": general_text,
        "methods": listed(method),
        "style": style,
        "order": order,
        "beam": beam,
        "budget": budget,
        "normalise": normalise,
        "language": language,
        "task": task,
        "device": device,
        "precision": precision,
    }
    return adapt_recogniser(str(model), out, parse_config(AdaptOptions, values, "fewer adapt"))
