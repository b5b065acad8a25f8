"""The demo corpus on disk: recordings, manifests of lhotse cuts and text files, made by two processes, resumable."""

import concurrent.futures
import contextlib
import io
import json
import multiprocessing
import os
import shutil
import signal
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from numpy.typing import NDArray

from fewer.data.synthesis.room import Samples, record
from fewer.data.synthesis.script import PARTS, SPOKEN, DemoCorpusConfig, Utterance, plan, sentences, text_of
from fewer.data.synthesis.speech import Delivery, check_voices, speak, voices
from fewer.errors import FewerError
from fewer.files import atomic_write, fingerprint, read_json_object, write_json
from fewer.progress import Bar

BABBLE = len(PARTS)  # numbers the stream of random numbers behind the babble; the parts have 0, 1, ...
BYTES_PER_WORD = 0.5  # of FLAC, times the sample rate, for the question whether the disk has room


def make_corpus(folder: str | Path, config: DemoCorpusConfig | None = None, workers: int = 2) -> None:
    """Write recordings, manifests and texts to `folder`; what is there already from the same configuration is kept."""
    folder, config = Path(folder).resolve(), config or DemoCorpusConfig()
    sets = {part: plan(part, config) for part in SPOKEN}
    jobs = [
        (utterance, path)
        for part, utterances in sets.items()
        for utterance in utterances
        if _length(path := audio_path(folder, part, utterance)) is None
    ]
    if jobs:
        check_voices()  # before a folder is made, which another configuration could not use
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FewerError(f"cannot make the folder {folder}: {error.strerror}; choose one that you may write") from error
    _claim(folder, config)
    _check_space(folder, jobs, config)
    _synthesise(jobs, config, workers)
    for part, utterances in sets.items():
        lines = (json.dumps(cut, ensure_ascii=False) for cut in _cuts(folder, part, utterances, config))
        _write_lines(folder / f"{part}.jsonl", lines)
    _write_lines(folder / "source-text.txt", (utterance.text for utterance in sets["train"]))
    _write_lines(folder / "target-text.txt", text_of("target-text", config))


def audio_path(folder: Path, part: str, utterance: Utterance) -> Path:
    """Where an utterance is recorded."""
    return folder / "audio" / part / f"{utterance.id}.flac"


def babble_of(config: DemoCorpusConfig, seconds: float = 20.0, speakers: int = 5) -> Samples:
    """Several training voices talking at once, sentences of the training part."""
    rng = np.random.default_rng((config.seed, BABBLE))
    length = int(seconds * config.sample_rate)
    mixture = np.zeros(length, dtype=np.float32)
    stream = sentences("train", config)
    group = voices("train")
    for index in rng.choice(len(group), size=speakers, replace=False):
        spoken = np.zeros(0, dtype=np.float32)
        while len(spoken) < length:
            spoken = np.append(spoken, speak(next(stream), group[index], Delivery(), config.sample_rate))
        mixture += spoken[:length] / np.sqrt(np.mean(spoken**2))
    return mixture


def _claim(folder: Path, config: DemoCorpusConfig) -> None:
    """Mark the folder as holding the corpus of this configuration, or refuse one that holds another."""
    here = Path(__file__).parent
    made_by = [*sorted(here.glob("*.py")), *sorted(here.glob("domains/*.txt"))]
    mark = fingerprint(config.model_dump_json(), *made_by)
    path = folder / "corpus.json"
    if path.exists():
        if read_json_object(path).get("fingerprint") != mark:
            raise FewerError(
                f"{folder} holds a corpus made with other settings or by another version ({path}); "
                "delete the folder or choose another one"
            )
        return
    write_json(path, {"fingerprint": mark, "config": config.model_dump()})


def _check_space(folder: Path, jobs: list[tuple[Utterance, Path]], config: DemoCorpusConfig) -> None:
    needed = sum(len(utterance.text.split()) for utterance, _ in jobs) * BYTES_PER_WORD * config.sample_rate
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise FewerError(
            f"the recordings need about {needed / 1e6:.0f} MB, but {folder} has {free / 1e6:.0f} MB left; "
            "free some space or choose another folder"
        )


def _length(path: Path) -> int | None:
    """Samples of a complete recording; None if there is none."""
    try:
        return int(soundfile.info(path).frames)
    except soundfile.LibsndfileError:
        return None


def _synthesise(jobs: list[tuple[Utterance, Path]], config: DemoCorpusConfig, workers: int) -> None:
    """Record all jobs in `workers` processes. When interrupted, what was recorded stays and nothing is half-written."""
    if not jobs:
        return
    babble = babble_of(config)
    pool = concurrent.futures.ProcessPoolExecutor(workers, initializer=_start_worker, initargs=(config, babble))
    try:
        with _interrupts_wait():  # until the processes ignore them
            recorded = pool.map(_record_one, jobs)
        with Bar("synthesising speech", len(jobs)) as bar:
            for _ in recorded:
                bar.advance()
    except BrokenProcessPool as error:
        raise FewerError(
            "a process that synthesises speech was killed, perhaps because memory ran out; run the same command again, "
            "it goes on where it stopped"
        ) from error
    finally:
        with contextlib.suppress(RuntimeError):  # of a thread that there was no room for
            pool.shutdown(wait=True, cancel_futures=True)


@contextlib.contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Ctrl-C comes after the block; processes that are started in it do not notice it at all until they unblock it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_worker: dict[str, Any] = {}  # what a synthesising process keeps between utterances


def _start_worker(config: DemoCorpusConfig, babble: Samples) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the main process's affair
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    threading.Thread(target=_follow_parent, daemon=True).start()
    _worker.update(sample_rate=config.sample_rate, babble=babble)


def _follow_parent() -> None:
    """End with the main process, even when that is killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _record_one(job: tuple[Utterance, Path]) -> None:
    utterance, path = job
    samples = render(utterance, _worker["babble"], _worker["sample_rate"])
    content = io.BytesIO()
    soundfile.write(content, samples, _worker["sample_rate"], format="FLAC", subtype="PCM_16")
    with atomic_write(path, "wb") as stream:
        stream.write(content.getvalue())


def render(utterance: Utterance, babble: Samples, sample_rate: int) -> NDArray[np.int16]:
    """The recording of an utterance, 16-bit samples."""
    speech = speak(utterance.text, utterance.voice, utterance.delivery, sample_rate)
    rng = np.random.default_rng(utterance.seed)
    return record(speech, utterance.scene, utterance.room, rng, babble, sample_rate)


def _cuts(folder: Path, part: str, utterances: list[Utterance], config: DemoCorpusConfig) -> Iterator[dict[str, Any]]:
    """One lhotse cut per utterance, as plain data."""
    from lhotse import AudioSource, MonoCut, Recording, SupervisionSegment

    for utterance in utterances:
        path = audio_path(folder, part, utterance)
        samples = _length(path)
        if samples is None:
            raise FewerError(f"{path} has vanished or is damaged; run the same command again to record it anew")
        duration = samples / config.sample_rate
        source = AudioSource(type="file", channels=[0], source=str(path))
        recording = Recording(utterance.id, [source], config.sample_rate, samples, duration)
        supervision = SupervisionSegment(
            utterance.id, utterance.id, 0.0, duration, 0, utterance.text, "English", utterance.voice.name
        )
        cut = MonoCut(
            utterance.id, 0.0, duration, 0, [supervision], recording=recording, custom=asdict(utterance.scene)
        )
        yield cut.to_dict()


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines unless the file holds just these, so that what depends on its date stays valid."""
    content = "".join(f"{line}\n" for line in lines)
    if not path.exists() or path.read_text(encoding="utf-8") != content:
        with atomic_write(path) as stream:
            stream.write(content)
