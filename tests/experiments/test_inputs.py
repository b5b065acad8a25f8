"""A dry run tells all missing files at once."""

from pathlib import Path
from typing import Any

import pytest

from fewer.experiments.config import ExperimentConfig
from fewer.experiments.inputs import missing_inputs
from fewer.experiments.layers import load_experiment
from fewer.experiments.run import describe

VALUES: dict[str, Any] = {
    "title": "x",
    "tokenizer": {"text": ["words.txt"]},
    "recognisers": {
        "a": {"folder": "models/a"},
        "b": {"folder": "openai/whisper-tiny.en"},
        "c": {"folder": "turbo"},
        "d": {"folder": "whisper"},
    },
    "lms": {
        "given": {"path": "lm.arpa"},
        "hub": {"path": "hf:gpt2"},
        "counted": {"ngram": {"text": ["words.txt", "more.txt"], "order": 2, "mix": "held-out.txt"}},
    },
    "train": "train.jsonl",
    "dev": "dev.jsonl",
    "tune": "dev.jsonl",
    "sets": {"test": "test.jsonl", "other": "other.jsonl"},
    "references": {"test": "test.stm"},
    "normaliser": "glm:rules.glm",
    "lm_text": ["more.txt"],
    "rows": [{"method": "none"}],
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_missing_file_is_told_once_with_what_it_is_for() -> None:
    assert missing_inputs(ExperimentConfig.model_validate(VALUES)) == [
        "words.txt (text of the tokenizer, text of LM counted)",
        "models/a (recogniser a, unless it is a model of the Hugging Face hub)",
        "whisper (recogniser d)",
        "lm.arpa (LM given)",
        "more.txt (text of LM counted, lm_text)",
        "held-out.txt (mix of LM counted)",
        "train.jsonl (train)",
        "dev.jsonl (dev, tune)",
        "test.jsonl (set test)",
        "other.jsonl (set other)",
        "test.stm (references of test)",
        "rules.glm (normaliser)",
    ]


def test_what_is_there_is_not_told(here: Path) -> None:
    config = ExperimentConfig.model_validate(VALUES)
    for name in ("words.txt", "lm.arpa", "more.txt", "held-out.txt", "train.jsonl", "test.stm", "rules.glm", "whisper"):
        (here / name).touch()
    (here / "models" / "a").mkdir(parents=True)
    missing = missing_inputs(config)
    assert missing == ["dev.jsonl (dev, tune)", "test.jsonl (set test)", "other.jsonl (set other)"]


def test_a_dry_run_ends_with_them_and_knows_what_trainings_read(here: Path) -> None:
    config = load_experiment("mini-cross")
    told = describe(config)
    assert "\nmissing, 7 in all:\n  data/mini-librispeech/tokenizer.json (tokenizer)\n" in told
    assert "  data/gutenberg.txt.xz (text of LM mini-speechocean, lm_text)\n" in told
    assert "  data/mini-librispeech/train-clean-5.jsonl (training of mini-b, training of mini-encoder, train)\n" in told
    for name in ("mini-b", "mini-encoder"):
        (here / "models" / name).mkdir(parents=True)
        (here / "models" / name / "model.safetensors").touch()
    assert "  data/mini-librispeech/train-clean-5.jsonl (train)\n" in describe(config)
