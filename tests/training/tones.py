"""A corpus of tones: every character is a pitch, so that a tiny recogniser has something to learn."""

from pathlib import Path

import numpy as np
import soundfile
import yaml
from lhotse import MonoCut, Recording, SupervisionSegment

from fewer.data.tokenizers import train_characters

PITCHES = {"a": 300.0, "b": 700.0, "c": 1500.0, "d": 3000.0}
RATE = 8000


def write_tones(folder: Path, train: int = 24, dev: int = 6) -> None:
    """folder/{train,dev}.jsonl with audio beside, tokenizer.json, and texts train.txt and dev.txt."""
    rng = np.random.default_rng(5)
    (folder / "audio").mkdir(parents=True)
    for name, count in (("train", train), ("dev", dev)):
        texts = ["".join(rng.choice(list(PITCHES), rng.integers(2, 6))) for _ in range(count)]
        lines = [_cut(folder, f"{name}-{n}", text, rng) for n, text in enumerate(texts)]
        (folder / f"{name}.jsonl").write_text("".join(lines))
        (folder / f"{name}.txt").write_text("".join(f"{text}\n" for text in texts))
    train_characters(["abcd"]).save(folder / "tokenizer.json")


def _cut(folder: Path, id: str, text: str, rng: np.random.Generator) -> str:
    import json

    times = np.arange(int(0.1 * RATE)) / RATE
    samples = np.concatenate([0.3 * np.sin(2 * np.pi * PITCHES[label] * times) for label in text])
    path = folder / "audio" / f"{id}.wav"
    soundfile.write(path, samples + 0.01 * rng.standard_normal(len(samples)), RATE)
    recording = Recording.from_file(path, recording_id=id)
    custom = {"subset": "clean" if len(text) < 5 else "other"}
    supervision = SupervisionSegment(id, id, 0.0, recording.duration, text=text, speaker="tone", custom=custom)
    cut = MonoCut(id, 0.0, recording.duration, 0, supervisions=[supervision], recording=recording, custom=custom)
    return json.dumps(cut.to_dict()) + "\n"


def aed_values(folder: Path) -> dict:
    """A tiny recogniser's configuration, with everything switched on and the schedule compressed."""
    return {
        "tokenizer": str(folder / "tokenizer.json"),
        "model": {
            "kind": "aed",
            "encoder": {"features": 12, "filters": 2, "layers": 3, "size": 8, "pools": [3, 2], "dropout": 0.1},
            "decoder": {"size": 8, "embedding": 4, "readout": 8, "dropout": 0.1},
            "energy": 8,
        },
        "data": {
            "train": str(folder / "train.jsonl"),
            "dev": str(folder / "dev.jsonl"),
            "batches": {
                "max_size": 200,
                "max_size_from": {1: 400, 3: 200},
                "accumulate": 2,
                "sub_epochs": 2,
                "curriculum": [{"first": 1, "last": 1, "subsets": "clean"}],
            },
        },
        "features": {"kind": "mfcc", "dim": 12, "sampling_rate": RATE},
        "growing": {"starts": [3]},
        "smoothing_from": 4,
        "sub_epochs": 5,
        "schedule": {
            "peak": 0.01,
            "warm_up_from": 0.003,
            "warm_up": 2,
            "newbob": {"window": 2, "hold": 1, "threshold": -10},
        },
        "device": "cpu",
    }


def lm_values(folder: Path, model: dict) -> dict:
    """A tiny language model's configuration."""
    return {
        "tokenizer": str(folder / "tokenizer.json"),
        "model": model,
        "data": {
            "train": [str(folder / "train.txt")],
            "dev": [str(folder / "dev.jsonl")],
            "batches": {"max_size": 40, "sub_epochs": 2},
        },
        "sub_epochs": 3,
        "schedule": {"peak": 0.05},
        "device": "cpu",
    }


def write_yaml(path: Path, values: dict) -> Path:
    path.write_text(yaml.safe_dump(values))
    return path
