"""The kinds of files that are fuzzed: how right ones are made, and what reads them."""

import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch

from tests.fuzz.folders import folders
from tests.fuzz.kind import Kind, only, room
from tests.fuzz.pretrained import pretrained

LABELS = ["</s>", "<unk>", " ", "a", "b", "c", "d", "e"]


@cache
def wav() -> Path:
    path = room() / "a.wav"
    samples = 0.1 * np.random.default_rng(0).standard_normal((6000, 2))
    soundfile.write(path, samples.astype(np.float32), 16000, subtype="FLOAT")
    return path


@cache
def flac() -> Path:
    path = room() / "a.flac"
    soundfile.write(path, 0.1 * np.random.default_rng(0).standard_normal(6000), 22050)
    return path


@cache
def mp3() -> Path:
    path = room() / "a.mp3"
    soundfile.write(path, 0.1 * np.random.default_rng(0).standard_normal(6000), 16000)
    return path


def hear(place: Path) -> None:
    from fewer.data.stream import AudioStream

    for block in AudioStream(only(place), 16000):
        assert block.isfinite().all()


@cache
def manifest() -> Path:
    import json

    from tests.recognisers.tiny import noises, write_cut

    path = room() / "set.jsonl"
    cuts = [
        write_cut(room() / f"u{number}.wav", samples, "some words") for number, samples in enumerate(noises(3, seed=1))
    ]
    cuts[1]["recording"] |= {"sampling_rate": 8000, "num_samples": cuts[1]["recording"]["num_samples"] // 2}
    cuts[1]["recording"]["transforms"] = [
        {"name": "Resample", "kwargs": {"source_sampling_rate": 16000, "target_sampling_rate": 8000}}
    ]
    path.write_text("".join(json.dumps(cut) + "\n" for cut in cuts))
    return path


def read_manifest(place: Path) -> None:
    from fewer.data.audio import load_audio
    from fewer.data.manifest import Manifest
    from fewer.evaluation.transcripts import read_segments, read_transcripts

    for read in (read_transcripts, read_segments):
        read(only(place))
    opened = Manifest(only(place))
    assert len(list(opened.texts())) == len(list(opened.ids())) == len(opened)
    for index in range(len(opened)):
        load_audio(opened[index], 16000)


@cache
def nbest() -> Path:
    from fewer.search.nbest import Header, Hypothesis, LengthPolicy, NBest, write_nbest

    scores = [{"aed": -1.5, "lm": -2.0}, {"aed": -1.7, "lm": -1.0}]
    hypotheses = tuple(Hypothesis(f"a b {n}", (3, 4, n), score, 4, -0.6) for n, score in enumerate(scores))
    lists = [NBest(f"u{number}", hypotheses, "a b", "s1") for number in range(3)]
    header = Header(("aed", "lm"), {"aed": 1.0, "lm": 0.3}, LengthPolicy(0.0, 0.5), {"beam": 4})
    write_nbest(room() / "n.jsonl", header, lists)
    return room() / "n.jsonl"


def score_nbest(place: Path) -> None:
    from fewer.evaluation.transcripts import Ranking, load_pairs
    from fewer.evaluation.wer import score
    from fewer.tuning.pool import Metric, Pool

    path = only(place)
    pairs = load_pairs(path, ranking=Ranking({"lm": 0.7}))
    score(pairs.refs, pairs.hyps)
    Pool.load(path, Metric())


@cache
def ngram() -> Path:
    from fewer.store.ngram_files import save_ngram
    from fewer.training.ngram import estimate

    labels = torch.randint(0, 8, (400,), generator=torch.Generator().manual_seed(0))
    labels[-1] = 0
    save_ngram(room() / "m.safetensors", estimate(labels, 3, 8), LABELS)
    return room() / "m.safetensors"


@cache
def arpa() -> Path:
    from fewer.store.ngram_files import load_ngram, save_ngram

    save_ngram(room() / "m.arpa", load_ngram(ngram(), LABELS), LABELS)
    return room() / "m.arpa"


def use_ngram(place: Path) -> None:
    from fewer.store.word_ngram import load_any_ngram

    model = load_any_ngram(only(place), tokenizer())
    labels = torch.randint(0, 8, (2, 9), generator=torch.Generator().manual_seed(1))
    assert model.log_probs(labels).isfinite().all()
    assert model.score(labels).isfinite().all()


@cache
def word_lm() -> Path:
    from fewer.store.word_ngram import read_word_lm, save_word_lm

    text = (
        "\\data\\\nngram 1=5\nngram 2=2\n\n\\1-grams:\n-99\t<s>\t0\n-1\t</s>\n-1\tab\t-0.3\n-1\tcd\t-0.3\n-2\t<unk>\n\n"
    )
    path = room() / "words.arpa"
    path.write_text(text + "\\2-grams:\n-0.5\t<s> ab\n-0.4\tab cd\n\n\\end\\\n")
    save_word_lm(room() / "w.safetensors", read_word_lm(path))
    return room() / "w.safetensors"


@cache
def tokenizer() -> Any:
    from fewer.data.tokenizers import CharacterTokenizer

    return CharacterTokenizer(LABELS)


@cache
def tokenizer_files() -> Path:
    from fewer.data.tokenizers import train_sentencepiece, train_words

    folder = room() / "tokenizers"
    folder.mkdir()
    tokenizer().save(folder / "characters.json")
    train_words(["a b c", "d e"]).save(folder / "words.json")
    train_sentencepiece(["abba dada", "cede bad"], 20, exact=False).save(folder / "pieces.json")
    return folder


def use_tokenizers(place: Path) -> None:
    from fewer.data.tokenizers import load_tokenizer
    from fewer.errors import FewerError

    for path in sorted(place.iterdir()):
        loaded = load_tokenizer(path)
        try:
            loaded.decode(loaded.encode("a bad cede"))
        except FewerError as error:  # about the text
            assert "a bad cede" in str(error)  # noqa: PT017


@cache
def model_folder() -> Path:
    from fewer.models.lm import LstmLm, LstmLmConfig
    from fewer.store.model_folder import save_model, write_config

    folder = room() / "lm"
    folder.mkdir()
    config = LstmLmConfig(kind="lstm_lm", vocab_size=8, embedding=4, size=5)
    save_model(folder, LstmLm(config))
    write_config(folder, {"model": config.model_dump(mode="json")})
    tokenizer().save(folder / "tokenizer.json")
    return folder


def use_model(place: Path) -> None:
    from fewer.store.model_folder import load_model

    load_model(place).lm.log_probs(torch.ones(1, 3, dtype=torch.long))


@cache
def recipes() -> Path:
    from fewer.experiments.layers import RECIPES

    folder = room() / "recipes"
    for parts in ("parts", "tables/parts"):
        shutil.copytree(RECIPES / parts, folder / parts)
    for name in ("mini-a.yaml", "libri-lstm-100.yaml", "libri-transformer-lm.yaml", "tables/mini-lms.yaml"):
        shutil.copyfile(RECIPES / name, folder / name)
    return folder


def use_recipes(place: Path) -> None:
    from fewer.experiments.layers import load_experiment, load_train_config

    for path in sorted(place.glob("tables/*.yaml")):
        load_experiment(path)
    for path in sorted(place.glob("*.yaml")):
        load_train_config(path, ["tokenizer=absent.json", "model.vocab_size=100"])


@cache
def override() -> Path:
    path = room() / "override.txt"
    path.write_text("schedule.peak=[1, {a: b}, 0.3]")
    return path


def use_override(place: Path) -> None:
    from fewer.config import override_value

    override_value({"schedule": {"peak": 1, "list": [1]}}, only(place).read_text(errors="replace"))


@cache
def run_folder() -> Path:
    from tests.report.runs import make_run

    return make_run(room() / "run", {"dev": 6, "test": 4}, ("none", "sf", "zero"), beam=3, candidates=6, step=0.2)


def use_run(place: Path) -> None:
    from fewer.report.page import make_page
    from fewer.tuning.store import load_scales

    for path in sorted(place.glob("tuning/*/tune.json")):
        load_scales(path)
    make_page(place)


@cache
def bundle() -> Path:
    from fewer.adaptation.bundle import Base, BundleFacts, write_bundle
    from fewer.ilm.config import IlmConfig
    from fewer.ilm.estimate import estimate_ilm
    from fewer.store.ngram_files import save_ngram
    from fewer.training.ngram import estimate

    tokens = whisper().tokenizer
    stream = torch.tensor([*tokens.encode("the cat"), tokens.end, *tokens.encode("a cat"), tokens.end])
    save_ngram(room() / "lm-of-whisper.safetensors", estimate(stream, 2, tokens.size, tokens.end), tokens.labels)
    estimate_ilm(whisper_folder(), IlmConfig(method="zero"), room() / "ilm")
    (room() / "words.txt").write_text("cat\t2\n")
    parts = {"lm": "lm.safetensors", "ilm": "ilm", "words": "words.txt"}
    facts = BundleFacts(
        base=Base(source=str(whisper_folder()), fingerprint=whisper().fingerprint, tokenizer=tokens.fingerprint),
        method="zero",
        scales={"lm": 0.15, "ilm": -0.15, "words": 1.0},
        **parts,
    )
    sources = {"lm.safetensors": "lm-of-whisper.safetensors", "ilm": "ilm", "words.txt": "words.txt"}
    write_bundle(room() / "bundle", facts, {name: room() / source for name, source in sources.items()})
    return room() / "bundle"


def use_bundle(place: Path) -> None:
    from fewer.adaptation.bundle import load_bundle

    load_bundle(place, whisper()).fusion()


@cache
def ilm() -> Path:
    return bundle() / "ilm"


def use_ilm(place: Path) -> None:
    from fewer.ilm.folder import load_ilm

    loaded = load_ilm(place, whisper())
    loaded.language_model(whisper()).log_probs(torch.ones(1, 2, dtype=torch.long))


@cache
def whisper_folder() -> Path:
    from tests.recognisers.tiny import make_whisper

    return make_whisper(room() / "whisper")


@cache
def whisper() -> Any:
    from fewer.recognisers.whisper.recogniser import load_whisper

    return load_whisper(whisper_folder())


def use_whisper(place: Path) -> None:
    from fewer.recognisers.whisper.recogniser import load_whisper
    from tests.recognisers.tiny import noises

    recogniser = load_whisper(place)
    recogniser.scorer({})
    recogniser.listen(noises(1))


@cache
def texts() -> Path:
    folder = room() / "texts"
    folder.mkdir()
    (folder / "a.txt").write_text("some text\nof two lines, and more\n")
    (folder / "words.list").write_text("# terms\nab cd\t2.5\ncafé\n")
    (folder / "a.trn").write_text("some words (s1-u1)\nmore words (s1-u2)\n")
    (folder / "a.stm").write_text(";; comment\nf1 A s1 0.0 1.5 <o,f0> some words\nf1 A s1 1.5 2.5 {a / b} more\n")
    (folder / "a.ctm").write_text("f1 A 0.1 0.2 some 0.9\nf1 A 0.3 0.2 words 0.8\n")
    (folder / "a.glm").write_text(";; rules\n[GONNA] => going to / [ ] __ [ ]\n")
    return folder


def use_texts(place: Path) -> None:
    from fewer.data.hotwords import read_terms
    from fewer.data.token_store import read_text
    from fewer.evaluation import formats
    from fewer.evaluation.glm import Glm

    sum(len(line) for line in read_text(place / "a.txt"))
    read_terms(place / "words.list")
    formats.read_trn(place / "a.trn")
    formats.read_stm(place / "a.stm")
    formats.read_ctm(place / "a.ctm")
    Glm(place / "a.glm")


def kinds() -> Iterator[Kind]:
    """All of them. Shares are such that slow ones have fewer inputs."""
    yield Kind("wav", wav, hear, share=1.0)
    yield Kind("flac", flac, hear, share=0.5)
    yield Kind("mp3", mp3, hear, share=0.5)
    yield Kind("manifest", manifest, read_manifest, share=1.5)
    yield Kind("nbest", nbest, score_nbest, share=1.5)
    yield Kind("ngram", ngram, use_ngram, share=1.5)
    yield Kind("word-lm", word_lm, use_ngram, share=1.0)
    yield Kind("arpa", arpa, use_ngram, share=0.7)
    yield Kind("tokenizer", tokenizer_files, use_tokenizers, share=1.0)
    yield Kind("model", model_folder, use_model, share=1.0)
    yield Kind("yaml", recipes, use_recipes, "*.yaml", share=0.8)
    yield Kind("set", override, use_override, share=1.0)
    yield Kind("run", run_folder, use_run, share=0.8)
    yield Kind("bundle", bundle, use_bundle, share=1.0)
    yield Kind("ilm", ilm, use_ilm, share=0.8)
    yield Kind("whisper", whisper_folder, use_whisper, "*.json", share=0.2)
    yield Kind("text", texts, use_texts, share=1.0)
    yield from folders()
    yield from pretrained()
