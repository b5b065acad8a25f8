"""The commands that are killed, in a small world of tones."""

from pathlib import Path

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
]


def make_world(folder: Path) -> Path:
    """A corpus, a recogniser and a language model."""
    from fewer.training.configs import parse_train_config
    from fewer.training.run import train_model

    write_tones(folder)
    lm = lm_values(folder, {"kind": "lstm_lm", "embedding": 4, "size": 8})
    for name, values in (("aed", aed_values(folder)), ("lm", lm)):
        write_yaml(folder / f"{name}.yaml", {**values, "checkpoint_minutes": 0.0})
        train_model(parse_train_config(values, f"{name}.yaml"), folder / name)
    return folder
