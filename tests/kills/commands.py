"""The commands that are killed, in a small world of tones."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from tests.experiments.test_experiment import experiment_values
from tests.kills.tool import Command
from tests.training.tones import aed_values, lm_values, write_tones, write_yaml


def small_demo() -> None:
    """Let `demo --quick` take seconds: less speech and text, smaller networks, five of the methods."""
    from fewer.data.synthesis.script import DemoCorpusConfig
    from fewer.experiments import demo

    sizes = {"train": 12, "source_dev": 3, "source_test": 3, "target_dev": 4, "target_test": 4, "target_text": 60}
    demo.METHODS = ("none", "sf", "zero", "enc_avg", "mini_lstm")
    demo.QUICK = replace(
        demo.QUICK, corpus=DemoCorpusConfig(**sizes), labels=60, encoder=8, decoder=8, lm=8, epochs=1, lm_parts=1,
        ilm_passes=1, beam=2, decodes=2,
    )  # fmt: skip


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
    Command("run", lambda world, out: ["run", world / "run.yaml", out]),
    Command("demo", lambda world, out: ["demo", out, "--quick"], prepare=small_demo),
    Command("demo --quick", lambda world, out: ["demo", out, "--quick"], slow=True),
    Command(
        "Ray worker",
        lambda world, out: [
            *("decode", world / "aed", world / "train.jsonl", out / "n.jsonl", "--beam", 6, "--engine", "ray"),
        ],
        slow=True,
        worker="ray::_Actor",
    ),
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
    write_yaml(folder / "run.yaml", _small_experiment(folder))
    return folder


def _small_experiment(folder: Path) -> dict[str, Any]:
    values = experiment_values(folder)
    for part in (values["recognisers"]["aed"], values["lms"]["lm"]):
        part["train"] |= {"sub_epochs": 3, "checkpoint_minutes": 0.0}
    rows = [{"method": method} for method in ("none", "sf", "zero", "mini_lstm")]
    return {**values, "rows": rows, "tuning": {**values["tuning"], "budget": 2}}
