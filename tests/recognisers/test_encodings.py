"""Encoder states that are kept in a folder."""

from pathlib import Path

import pytest
import torch

from fewer.errors import FewerError
from fewer.recognisers.loader import load_recogniser
from fewer.recognisers.whisper.recogniser import load_whisper
from tests.recognisers.tiny import noises


def test_kept_encoder_states_are_taken_instead_of_encoding_again(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load_whisper(tiny)
    first.keep_encodings(tmp_path)
    made = first.listen(noises(2))
    assert torch.equal(made.states, load_whisper(tiny).listen(noises(2)).states)
    assert len(list(tmp_path.rglob("*.safetensors"))) == 2
    second = load_whisper(tiny)
    second.keep_encodings(tmp_path)
    monkeypatch.setattr(second.encoder, "module", None)  # it cannot encode
    again = second.listen(noises(2))
    assert torch.equal(again.states, made.states)
    assert torch.equal(again.lengths, made.lengths)


def test_a_damaged_file_of_encoder_states_is_named(tiny: Path, tmp_path: Path) -> None:
    whisper = load_whisper(tiny)
    whisper.keep_encodings(tmp_path)
    whisper.listen(noises(1))
    (file,) = tmp_path.rglob("*.safetensors")
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(FewerError, match=f"{file.name} is damaged.*delete it, and it will be made again"):
        whisper.listen(noises(1))


def test_a_recogniser_of_ones_own_keeps_them_as_well(
    tones: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = [torch.randn(8000), torch.randn(12000)]
    expected = load_recogniser(tones / "aed").listen(samples)
    recogniser = load_recogniser(tones / "aed")
    recogniser.keep_encodings(tmp_path)
    assert torch.equal(recogniser.listen(samples).states, expected.states)
    monkeypatch.setattr("fewer.models.aed.AED.encode", lambda *_: pytest.fail("it encodes"))
    again = recogniser.listen(samples)
    assert torch.equal(again.states, expected.states)
    assert torch.equal(again.lengths, expected.lengths)
