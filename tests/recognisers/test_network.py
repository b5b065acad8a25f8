"""Whisper's network of our own is that of transformers, and needs no transformers."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from fewer.errors import FewerError
from fewer.recognisers.transformers.recogniser import weights_fingerprint
from fewer.recognisers.whisper.network import Whisper, read_whisper
from fewer.recognisers.whisper.recogniser import WhisperRecogniser, load_whisper

PROGRAM = """
import sys
import torch
from fewer.recognisers.loader import load_recogniser
whisper = load_recogniser(sys.argv[1])
whisper.listen([torch.zeros(8000)])
print([name for name in ("transformers", "torch._dynamo", "sympy", "lhotse") if name in sys.modules])
"""


@pytest.fixture
def copied(tiny: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny, tmp_path / "whisper"))


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_weights_are_those_of_transformers(tiny: Path, theirs: Any) -> None:
    found = read_whisper(tiny)
    assert isinstance(found, Whisper)
    own, other = found.state_dict(), theirs.state_dict()
    assert own.keys() == other.keys()
    assert all(torch.equal(own[name], other[name]) for name in own)
    assert weights_fingerprint(found.state_dict()) == weights_fingerprint(theirs.state_dict())
    assert found.proj_out.weight is found.model.decoder.embed_tokens.weight


@torch.inference_mode()
def test_states_are_those_of_transformers(whisper: WhisperRecogniser, theirs: Any) -> None:
    mel = torch.randn(2 * whisper.encoder.states, whisper.features.dim)
    expected = theirs.get_encoder()(mel.T[None]).last_hidden_state
    assert torch.allclose(whisper.encoder.windows([mel]), expected, atol=1e-5)


def test_it_is_loaded_without_transformers(tiny: Path) -> None:
    told = subprocess.run([sys.executable, "-c", PROGRAM, tiny], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


def test_what_is_not_usual_is_left_to_transformers(copied: Path) -> None:
    change(copied / "config.json", activation_function="relu")
    assert read_whisper(copied) is None
    assert isinstance(load_whisper(copied).decoder.layers[0].activation, torch.nn.ReLU)


def test_weights_that_are_not_as_the_configuration_says_are_refused(copied: Path) -> None:
    change(copied / "config.json", decoder_ffn_dim=48)
    assert read_whisper(copied) is None
    with pytest.raises(FewerError, match="cannot load the weights"):
        load_whisper(copied)
