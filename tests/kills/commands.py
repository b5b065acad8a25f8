"""The commands that are killed, in a small world of tones."""

from pathlib import Path

import numpy as np
import soundfile

from tests.experiments.test_experiment import experiment_values
from tests.kills.tool import Command
from tests.training.tones import aed_values, lm_values, write_tones, write_yaml

COMMANDS = [
    Command("train", lambda world, out: ["train", world / "lm.yaml", out]),
    Command("train-aed", lambda world, out: ["train", world / "aed.yaml", out]),
    Command(
        "ilm",
        lambda world, out: [
            *("ilm", world / "aed", out, "--method", "mini_lstm", "--set", "units=4", "--set", "passes=2"),
            *("--train", world / "train.jsonl", "--dev", world / "dev.jsonl"),
        ],
    ),
    Command(
        "tune",
        lambda world, out: ["tune", world / "aed", world / "dev.jsonl", out, "--lm", world / "lm", "--beam", 3],
    ),
    Command(
        "decode",
        lambda world, out: ["decode", world / "aed", world / "train.jsonl", out / "n.jsonl", "--beam", 6],
    ),
    Command(
        "transcribe",
        lambda world, out: [
            *("transcribe", world / "long.wav", world / "audio" / "dev-0.wav", "--model", world / "aed"),
            *("--longest", 2, "--output", "json", "--out", out),
        ],
    ),
    Command(
        "adapt",
        lambda world, out: [
            *("adapt", world / "aed", out, "--text", world / "train.txt", "--dev", world / "dev.jsonl"),
            *("--method", "sf", "--method", "zero", "--budget", 3),
        ],
    ),
    Command("run", lambda world, out: ["run", world / "run.yaml", out], slow=True),
    Command("demo", lambda world, out: ["demo", out, "--quick"], slow=True),
]


def make_world(folder: Path) -> Path:
    """A corpus, a long recording, a recogniser, a language model and an experiment."""
    from fewer.training.configs import parse_train_config
    from fewer.training.run import train_model

    write_tones(folder)
    parts = [soundfile.read(path)[0] for path in sorted((folder / "audio").glob("train-*.wav"))]
    soundfile.write(folder / "long.wav", np.concatenate(5 * parts), 8000)
    lm = lm_values(folder, {"kind": "lstm_lm", "embedding": 4, "size": 8})
    for name, values in (("aed", aed_values(folder)), ("lm", lm)):
        write_yaml(folder / f"{name}.yaml", {**values, "checkpoint_minutes": 0.0})
        train_model(parse_train_config(values, f"{name}.yaml"), folder / name)
    write_yaml(folder / "run.yaml", experiment_values(folder))
    return folder
