"""The paper's corpora in miniature, in their real layouts, prepared as docs/recipes.md says; its recipes in small."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np

from fewer.config import parse_config
from fewer.data.corpora.prepare import PrepareOptions, prepare
from fewer.data.corpora.split import Split
from fewer.data.token_store import read_text
from fewer.data.tokenizers import train_sentencepiece
from fewer.experiments.config import ExperimentConfig
from fewer.experiments.experiment import train_values
from fewer.experiments.layers import load_experiment
from fewer.training.configs import AedTrainConfig, parse_train_config
from tests.data.corpora.builders import (
    Tones,
    fisher,
    hub5e00,
    hub5e01,
    rt03,
    tedlium2,
    write_audio,
    write_lines,
    write_lm_text,
)
from tests.experiments.test_training_recipes import shrunk
from tests.training.tones import PITCHES

LIBRISPEECH = {"train-clean-100": 10, "train-clean-360": 8, "train-other-500": 8}
LIBRISPEECH |= {name: 2 for name in ("dev-clean", "dev-other", "test-clean", "test-other")}
SIDES = {"2001A": 8, "2001B": 8, "2005A": 8, "2005B": 4}  # of Switchboard, with their segments
EASY = {"units": 4, "passes": 1, "batch": 40}  # of every internal LM


def spoken(text: str) -> Tones:
    return [(0.1, PITCHES[letter]) for letter in text.lower()]


def said(rng: np.random.Generator, number: int = 0) -> str:
    """Two to five letters; curricula start with the shortest, so that there must be some."""
    return "".join(rng.choice(list(PITCHES), 2 + number % 4))


def write_librispeech(root: Path, rng: np.random.Generator) -> Path:
    corpus = root / "LibriSpeech"
    for speaker, (name, count) in enumerate(LIBRISPEECH.items(), 10):
        write_chapter(corpus / name, speaker, count, rng)
    return corpus


def write_chapter(folder: Path, speaker: int, count: int, rng: np.random.Generator) -> None:
    """A speaker's only chapter in a set of LibriSpeech."""
    chapter = folder / str(speaker) / "1"
    texts = {f"{speaker}-1-{number:04d}": said(rng, number).upper() for number in range(count)}
    for id, text in texts.items():
        write_audio(chapter / f"{id}.flac", spoken(text))
    write_lines(chapter / f"{speaker}-1.trans.txt", *(f"{id} {text}" for id, text in texts.items()))


def write_switchboard(root: Path, rng: np.random.Generator) -> Path:
    sides: dict[str, Tones] = {}
    for side, count in SIDES.items():
        lines, at = [], 0.0
        sides[side] = []
        for number in range(1, count + 1):
            text = said(rng, number)
            end = round(at + len(text) / 10, 6)
            lines.append(f"sw{side}-ms98-a-{number:04d} {at:.6f} {end:.6f} {text}")
            sides[side] += spoken(text)
            at = end
        write_lines(root / f"swb_ms98_transcriptions/20/{side[:4]}/sw{side}-ms98-a-trans.text", *lines)
    for call in ("2001", "2005"):
        pair = [sides[f"{call}{side}"] for side in "AB"]
        longest = max(len(side) for side in pair)
        even = [side + [(0.1, 0.0)] * (longest - len(side)) for side in pair]
        write_audio(root / f"swb1_d1/data/sw0{call}.sph", *even, rate=8000)
    return root


def write_corpora(root: Path) -> None:
    """root/data as the recipes expect it."""
    rng, raw, data = np.random.default_rng(7), root / "raw", root / "data"
    libri = data / "librispeech"
    prepare("librispeech", write_librispeech(raw, rng), libri)
    join(libri / "train-960.jsonl", *(libri / f"{name}.jsonl" for name in LIBRISPEECH if name.startswith("train")))
    join(libri / "dev.jsonl", libri / "dev-clean.jsonl", libri / "dev-other.jsonl")
    write_gz(libri / "librispeech-lm-norm.txt.gz", [said(rng, number).upper() for number in range(40)])
    options = PrepareOptions(splits=(Split.parse("train=dev:1,train-nodev"),))
    prepare("switchboard", write_switchboard(raw / "swb", rng), data / "switchboard", options)
    prepare("fisher_text", fisher(raw / "fisher"), data / "fisher")
    prepare("hub5e00", hub5e00(raw / "hub5e00"), data / "hub5")
    disc, nist = hub5e01(raw / "hub5e01")
    prepare("hub5e01", disc, data / "hub5", PrepareOptions(transcripts=nist))
    prepare("rt03", rt03(raw / "rt03"), data / "hub5")
    ted = tedlium2(raw)
    write_lm_text(ted / "LM/more.en.gz", *(f"{said(rng, number)} </s>" for number in range(40)))
    prepare("tedlium2", ted, data / "tedlium2")
    for name, train in (("librispeech", "train-960"), ("switchboard", "train-nodev")):
        train_sentencepiece(read_text(data / name / f"{train}.jsonl"), 12).save(data / name / "tokenizer.json")


def join(target: Path, *sources: Path) -> None:
    target.write_text("".join(source.read_text() for source in sources))


def write_gz(path: Path, lines: list[str]) -> None:
    with gzip.open(path, "wt") as stream:
        stream.writelines(f"{line}\n" for line in lines)


def small_experiment(name: str) -> ExperimentConfig:
    """A recipe with its own data, rows and sets, but small models, a narrow beam and few decodes."""
    values = load_experiment(name).model_dump(mode="json", exclude_none=True)
    for source in (*values["recognisers"].values(), *values["lms"].values()):
        source["train"] = small_training(source["train"])
    values |= {
        "ilm": {"all": EASY},
        "beam": 2,
        "tuning": values["tuning"] | {"budget": 3},
    }  # the third decode is with λ2
    values["tuning"]["space"]["step"] = 0.1
    return parse_config(ExperimentConfig, values, name)


def small_training(values: dict[str, Any]) -> dict[str, Any]:
    """`shrunk`, but on the data that the recipe names."""
    config = parse_train_config({"tokenizer": "tokenizer.json", **train_values(values)}, "recipe")
    small = shrunk(config, Path())
    del small["seed"]  # the experiment's holds
    original = config.model_dump(mode="json")
    small["data"] |= {key: original["data"][key] for key in ("train", "dev", "case") if key in original["data"]}
    if isinstance(config, AedTrainConfig):
        small["features"]["sampling_rate"] = original["features"]["sampling_rate"]
    return small
