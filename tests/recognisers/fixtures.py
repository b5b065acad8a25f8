"""Fixtures of all tests: a tiny Whisper, and the real one where FEWER_WHISPER names its folder."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

if TYPE_CHECKING:
    from fewer.recognisers.whisper.recogniser import WhisperRecogniser


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.recognisers.tiny import make_whisper

    return make_whisper(tmp_path_factory.mktemp("whisper"))


@pytest.fixture(scope="session")
def whisper(tiny: Path) -> "WhisperRecogniser":
    from fewer.recognisers.whisper.recogniser import load_whisper

    return load_whisper(tiny)


@pytest.fixture(scope="session")
def theirs(tiny: Path) -> Any:
    """The same model as transformers runs it."""
    from transformers import WhisperForConditionalGeneration

    return WhisperForConditionalGeneration.from_pretrained(tiny, dtype=torch.float32).eval()


@pytest.fixture(scope="session")
def real() -> Path:
    folder = os.environ.get("FEWER_WHISPER")
    if not folder:
        pytest.skip("FEWER_WHISPER names no folder of a real Whisper")
    return Path(folder)


@pytest.fixture(scope="session")
def real_manifest() -> Path:
    manifest = os.environ.get("FEWER_WHISPER_SET")
    if not manifest:
        pytest.skip("FEWER_WHISPER_SET names no manifest of English speech")
    return Path(manifest)
