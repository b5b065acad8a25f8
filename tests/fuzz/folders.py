"""Kinds of files that commands find in folders: sets of utterances, a training that goes on, windows that are done."""

import json
import os
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from tests.fuzz.kind import Kind, room


@cache
def sets() -> Path:
    """A table, NeMo's lines, a Kaldi data directory, and audio with transcripts beside it."""
    import numpy as np
    import soundfile

    folder = room() / "sets"
    (folder / "kaldi").mkdir(parents=True)
    (folder / "beside").mkdir()
    audio = folder / "a.wav"
    soundfile.write(audio, 0.1 * np.random.default_rng(0).standard_normal(6000), 16000)
    shutil.copyfile(audio, folder / "beside" / "a.wav")
    (folder / "table.csv").write_text(
        'id,audio,text,start,duration\nu1,a.wav,"some words",0,0.2\nu2,a.wav,more,0.2,0.1\n'
    )
    nemo = [
        {"audio_filepath": "a.wav", "offset": 0.1 * number, "duration": 0.1, "text": "words"} for number in range(3)
    ]
    (folder / "nemo.jsonl").write_text("".join(json.dumps(line) + "\n" for line in nemo))
    (folder / "kaldi" / "wav.scp").write_text(f"r1 {audio}\nr2 sox {audio} -t wav - |\n")
    (folder / "kaldi" / "segments").write_text("u1 r1 0.0 0.2\nu2 r2 0.1 0.3\n")
    (folder / "kaldi" / "text").write_text("u1 some words\nu2 more words\n")
    (folder / "kaldi" / "utt2spk").write_text("u1 s1\nu2 s2\n")
    (folder / "beside" / "a.txt").write_text("some words\n")
    return folder


def use_sets(place: Path) -> None:
    from fewer.data.audio import load_audio
    from fewer.data.corpora.given import as_manifest
    from fewer.data.manifest import Manifest

    os.environ["XDG_CACHE_HOME"] = str(room() / "cache")
    for name in ("table.csv", "nemo.jsonl", "kaldi", "beside"):
        manifest = Manifest(as_manifest(place / name))
        for index in range(len(manifest)):
            load_audio(manifest[index], 16000)


def _training_values(epochs: int) -> dict[str, object]:
    from tests.training.tones import lm_values

    values = lm_values(room() / "tones", {"kind": "lstm_lm", "embedding": 3, "size": 4})
    return {**values, "sub_epochs": epochs}


@cache
def training() -> Path:
    """A training of one sub-epoch."""
    from fewer.training.configs import parse_train_config
    from fewer.training.run import train_model
    from tests.training.tones import write_tones

    write_tones(room() / "tones", train=6, dev=3)
    train_model(parse_train_config(_training_values(1), "lm.yaml"), room() / "training")
    return room() / "training"


def use_training(place: Path) -> None:
    """Go on with it."""
    from fewer.training.configs import parse_train_config
    from fewer.training.run import train_model

    train_model(parse_train_config(_training_values(2), "lm.yaml"), place)


@cache
def journal() -> Path:
    """Windows that are done."""
    from fewer.search.nbest import Hypothesis
    from fewer.transcription.journal import Journal
    from fewer.transcription.transcript import Segment
    from fewer.transcription.words import Word

    folder = room() / "journal"
    folder.mkdir()
    hypothesis = Hypothesis("some words", (3, 4), {"aed": -1.5}, 3, -0.5)
    words = (Word("some", 0.0, 0.5), Word(" words", 0.5, 1.0, 0.9))
    segments = [Segment(0.0, 1.5, hypothesis, words, 0.1), Segment(1.5, 2.0)]
    Journal(folder / "windows.jsonl", "one").get(["a.wav"], [_window()], lambda _: [segments])
    return folder


def use_journal(place: Path) -> None:
    from fewer.transcription.journal import Journal

    Journal(place / "windows.jsonl", "one").get(["a.wav"], [_window()], lambda windows: [[] for _ in windows])


def _window() -> Any:
    import torch

    from fewer.transcription.windows import Window

    return Window(0, torch.ones(10))


@cache
def long_lines() -> Path:
    """Lines of 15 MB."""
    folder = room() / "long"
    folder.mkdir()
    (folder / "a.txt").write_text("ab\n" + "ab cd " * 2_500_000 + "\n")
    return folder


def use_long_lines(place: Path) -> None:
    from fewer.data.manifest import read_transcripts
    from fewer.data.token_store import read_text
    from fewer.decoding.system import load_hotwords
    from fewer.errors import FewerError
    from fewer.evaluation import formats
    from tests.fuzz.kinds import tokenizer

    path = place / "a.txt"
    sum(len(line) for line in read_text(path))
    uses = [formats.read_trn, formats.read_stm, formats.read_ctm, lambda path: list(read_transcripts(path))]
    for use in (*uses, lambda path: load_hotwords(path, tokenizer())):
        try:
            use(path)
        except FewerError as error:
            assert str(path) in str(error), error  # noqa: PT017


@cache
def parts() -> Path:
    """Shards of a decode that are done."""
    import numpy as np

    from fewer.data.plan import Plan
    from fewer.decoding.parts import Parts
    from fewer.search.nbest import Header, Hypothesis, NBest

    folder = room() / "parts"
    folder.mkdir()
    header = Header(("aed",), {"aed": 1.0}, info={"beam": 4})
    plan = Plan(np.array([2, 0, 3, 1, 4]), np.array([0, 2, 4, 5]), 1)
    Parts.begin(folder / "n.jsonl", "one", header, lambda: plan, on_gpu=False, shared=True)
    opened = Parts.open(folder / "n.jsonl")
    hypotheses = (Hypothesis("some words", (3, 4), {"aed": -1.5}, 3, -0.5),)
    for shard in opened.shards:
        opened.write(shard, ((int(item), NBest(f"u{item}", hypotheses, "words")) for item in opened.items(shard)))
    return folder


def use_parts(place: Path) -> None:
    from fewer.decoding.parts import merge
    from fewer.errors import FewerError
    from fewer.search.nbest import read_nbest

    merge(place / "n.jsonl")
    try:
        assert len(list(read_nbest(place / "n.jsonl"))) == 5
    except FewerError as error:  # what is merged is right
        raise AssertionError(error) from error


@cache
def hotwords() -> Path:
    path = room() / "terms.txt"
    path.write_text("# terms\nab cd\t2.5\ndeed\nbad\t0.5\nABBA\n")
    return path


def use_hotwords(place: Path) -> None:
    import torch

    from fewer.decoding.system import load_hotwords
    from tests.fuzz.kind import only
    from tests.fuzz.kinds import tokenizer

    table = load_hotwords(only(place), tokenizer())
    assert table.log_probs(torch.randint(2, 8, (2, 9), generator=torch.Generator().manual_seed(1))).isfinite().all()


@cache
def url() -> Path:
    """A place in a store that is in memory."""
    import fsspec

    from tests.fuzz.kinds import wav

    fsspec.filesystem("memory").pipe_file("/talks/a.wav", wav().read_bytes())
    path = room() / "url.txt"
    path.write_text("memory://talks/a.wav")
    return path


def use_url(place: Path) -> None:
    """What fsspec makes of a place; it is not asked for what is on other machines."""
    from fewer.data.copies import fetched, is_remote
    from fewer.errors import FewerError

    os.environ["XDG_CACHE_HOME"] = str(room() / "cache")
    name = (place / "url.txt").read_text(errors="surrogateescape")
    if not is_remote(name) or name.startswith(("http", "ftp", "s3", "gs")):
        return
    try:
        fetched(name)
    except FewerError as error:  # it names the place
        raise FewerError(f"{place / 'url.txt'}: {error}") from error


def folders() -> Iterator[Kind]:
    yield Kind("sets", sets, use_sets, share=0.6)
    yield Kind("training", training, use_training, share=0.3)
    yield Kind("journal", journal, use_journal, share=0.5)
    yield Kind("parts", parts, use_parts, share=0.5)
    yield Kind("hotwords", hotwords, use_hotwords, share=0.3)
    yield Kind("url", url, use_url, "*.txt", share=0.3)
    yield Kind("long-lines", long_lines, use_long_lines, share=0.03)
