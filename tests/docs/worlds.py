"""What is there before a page's commands run: miniatures under the names that the page uses."""

import shutil
from pathlib import Path

import numpy as np
import soundfile

from fewer.api.recognition import adapt
from fewer.config import parse_config
from fewer.ilm.config import IlmConfig
from fewer.ilm.estimate import estimate_ilm
from fewer.store.model_folder import load_model
from fewer.store.ngram_files import save_ngram
from fewer.training.ngram import estimate as estimate_ngram
from tests.data.corpora.builders import (
    fisher,
    hub5e00,
    hub5e01,
    rt03,
    tedlium2,
    write_audio,
    write_lines,
    write_lm_text,
)
from tests.experiments.miniatures import said, write_chapter, write_librispeech, write_switchboard
from tests.golden.golden import arrays
from tests.recognisers.families import make_model
from tests.recognisers.tiny import make_whisper, noises, write_manifest
from tests.store.tf_writer import write_checkpoint
from tests.training.tones import PITCHES


def trained(folder: Path, tones: Path) -> None:
    """models/aed, models/lm, lm.arpa, ilm/mini, and data/."""
    for kind in ("aed", "lm"):
        shutil.copytree(tones / kind, folder / "models" / kind)
    (folder / "data").mkdir()
    for target, source in (("train", "train"), ("dev", "dev"), ("test", "dev")):
        shutil.copyfile(tones / f"{source}.jsonl", folder / "data" / f"{target}.jsonl")
    tokenizer = load_model(tones / "aed").tokenizer
    lines = (tones / "train.txt").read_text().splitlines()
    stream = np.array([label for line in lines for label in (*tokenizer.encode(line), tokenizer.end)])
    save_ngram(folder / "lm.arpa", estimate_ngram(stream, 2, tokenizer.size, tokenizer.end), tokenizer.labels)
    estimate_ilm(tones / "aed", parse_config(IlmConfig, {"method": "zero"}, "zero"), folder / "ilm" / "mini")


def speech(folder: Path, tones: Path) -> None:
    """Kaldi data directories of tones, speech/{train,dev,test}, and domain.txt."""
    rng, times = np.random.default_rng(3), np.arange(1600) / 16000
    for name, count in (("train", 12), ("dev", 4), ("test", 4)):
        texts = {f"{name}{n}": " ".join(said(rng, m) for m in range(n % 2 + 1)) for n in range(count)}
        place = folder / "speech" / name
        (place / "audio").mkdir(parents=True)
        for id, text in texts.items():
            samples = [0.3 * np.sin(2 * np.pi * PITCHES.get(letter, 0.0) * times) for letter in text]
            soundfile.write(place / "audio" / f"{id}.flac", np.concatenate(samples), 16000)
        write_lines(place / "wav.scp", *(f"{id} audio/{id}.flac" for id in texts))
        write_lines(place / "text", *(f"{id} {text}" for id, text in texts.items()))
        write_lines(place / "utt2spk", *(f"{id} speaker{n % 2}" for n, id in enumerate(texts)))
    write_lines(folder / "domain.txt", *(said(rng, n) for n in range(40)))


def corpora(folder: Path, tones: Path) -> None:
    """The paper's corpora as they are distributed."""
    rng = np.random.default_rng(7)
    write_librispeech(folder, rng)
    for speaker, name in ((90, "dev-clean"), (91, "train-clean-5")):
        write_chapter(folder / "LibriSpeech" / name, speaker, 14, rng)
    write_switchboard(folder / "LDC97S62", rng)
    (folder / "LDC97S62" / "swb_ms98_transcriptions").rename(folder / "swb_ms98_transcriptions")
    shutil.move(fisher(folder / "raw"), folder / "FISHER")
    shutil.move(hub5e00(folder / "raw"), folder / "HUB5_2000")
    disc, references = hub5e01(folder / "raw")
    shutil.move(disc, folder / "LDC2002S13")
    shutil.move(references, folder / "NIST_2001")
    shutil.move(rt03(folder / "raw"), folder / "LDC2007S10")
    tedlium2(folder)
    write_lm_text(folder / "TEDLIUM_release2/LM/news.en.gz", *(f"{said(rng, n)} </s>" for n in range(40)))
    published_model(folder)
    learners = folder / "speechocean762" / "train"
    for speaker in range(3):
        write_audio(learners.parent / "wav" / f"{speaker}.flac", [(0.5, 400)])
    write_lines(learners / "wav.scp", *(f"{speaker} wav/{speaker}.flac" for speaker in range(3)))
    write_lines(learners / "text", *(f"{speaker}\tWE CALL IT BEAR" for speaker in range(3)))
    write_lines(learners / "utt2spk", *(f"{speaker} 000{speaker}" for speaker in range(3)))


def published_model(folder: Path) -> None:
    """A recogniser as the authors' toolkit leaves it, small, with its configuration, labels and statistics."""
    parameters = {name: v.numpy() for name, v in arrays("aed_lstm").items() if name.startswith("param:")}
    write_checkpoint(folder / "net-model/network.295", {name[6:]: value for name, value in parameters.items()})
    pools = {f"lstm{layer}_pool": {"pool_size": (size,)} for layer, size in enumerate((3, 2))}
    audio = {"audio": {"features": "mfcc"}}
    write_lines(folder / "lstmdec_1000d.config", f"network = {pools!r}", f"dev = {audio!r}")
    write_lines(folder / "bpe.codes", "#version: 0.2", "a b</w>")
    write_lines(folder / "bpe.vocab", repr({"</s>": 0, "<unk>": 1} | {f"x{label}": label for label in range(2, 30)}))
    for name in ("mean", "std_dev"):
        write_lines(folder / f"stats.{name}.txt", *["1.0"] * 40)


def whisper(folder: Path, tones: Path) -> None:
    """The same with a second Whisper."""
    adapting(folder, tones)
    make_whisper(folder / "whisper-tiny.en")


def measured(folder: Path, tones: Path) -> None:
    """The same with a bundle, for the benchmarks."""
    whisper(folder, tones)
    adapt(folder / "whisper-tiny.en", folder / "tuned", text=folder / "domain.txt", order=2, beam=2)


def adapting(folder: Path, tones: Path) -> None:
    """A Whisper with random weights, sets of noise, text, names and a call."""
    make_whisper(folder / "openai" / "whisper-tiny.en")
    write_manifest(folder / "dev.jsonl", ["the cat", "a cat in a hat"], seed=1)
    write_lines(folder / "dev.csv", "path,sentence", "dev-0.wav,the cat", "dev-1.wav,a cat in a hat")
    (folder / "recordings").mkdir()
    soundfile.write(folder / "recordings" / "one.wav", noises(1)[0].numpy(), 16000)
    write_lines(folder / "recordings" / "one.txt", "In the tin.")
    soundfile.write(folder / "call.wav", noises(1)[0].numpy(), 16000)
    write_lines(folder / "domain.txt", "THE CAT IN THE HAT", "A HAT IN A CAT", "A TIN CAT")
    write_lines(folder / "words.txt", "Tin Cat", "hat\t1.5")


def families(folder: Path, tones: Path) -> None:
    """The same with other recognisers of transformers."""
    whisper(folder, tones)
    make_whisper(folder / "whisper-base", multilingual=True)
    make_model(folder / "UsefulSensors" / "moonshine-tiny", "moonshine")
    make_model(folder / "nvidia" / "canary-1b-v2", "canary")


def both(folder: Path, tones: Path) -> None:
    """Models of `fewer train`, and a Whisper."""
    trained(folder, tones)
    adapting(folder, tones)


BEFORE = {
    "docs/adapt.md": adapting,
    "README.md": whisper,
    "results/README.md": measured,
    "docs/cluster.md": trained,
    "docs/devices.md": both,
    "docs/estimator.md": trained,
    "docs/recipes.md": corpora,
    "docs/recognisers.md": families,
    "docs/tutorial.md": speech,
}
