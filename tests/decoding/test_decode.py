"""Sets that are encoded once for many searches."""

from pathlib import Path

import pytest
import torch

from fewer.data.batches import UtteranceConfig
from fewer.data.manifest import Manifest
from fewer.decoding.decode import search_set
from fewer.decoding.encoding import encode_set, hold_set
from fewer.decoding.system import System
from fewer.recognisers.loader import load_recogniser
from fewer.recognisers.recogniser import Recogniser
from fewer.search.beam import SearchOptions
from tests.recognisers.tiny import write_manifest


@pytest.mark.parametrize("kind", ["aed", "whisper"])
def test_a_held_set_is_encoded_once_whatever_has_room_in_memory(
    kind: str, tones: Path, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recogniser: Recogniser = load_recogniser(tones / "aed" if kind == "aed" else tiny)
    monkeypatch.setattr("fewer.decoding.encoding.BATCH", UtteranceConfig(max_sequences=2, order="sorted"))
    manifest = tones / "dev.jsonl" if kind == "aed" else write_manifest(tmp_path / "set.jsonl", [None] * 5)
    opened = Manifest(manifest, transcripts=False)
    expected = list(encode_set(System(recogniser), opened))
    size = sum(batch.encoded.states.nbytes for batch in expected)
    for memory, in_files in ((0, {3}), (size // 2, {1, 2}), (2 * size, {0})):
        folder = tmp_path / f"{memory}"
        with hold_set(recogniser, opened, folder, memory) as held:
            with monkeypatch.context() as patched:
                patched.setattr(recogniser, "encode", lambda *_: pytest.fail("it encodes"))
                for batch, wanted in zip(held, expected, strict=True):
                    assert batch.utterances == wanted.utterances
                    assert torch.equal(batch.encoded.states, wanted.encoded.states)
                    assert torch.equal(batch.encoded.attended, wanted.encoded.attended)
            assert len(list(folder.glob("*.safetensors"))) in in_files
        assert not folder.exists()


def test_a_set_of_a_recogniser_that_keeps_its_states_needs_no_files(tiny: Path, tmp_path: Path) -> None:
    recogniser = load_recogniser(tiny)
    recogniser.keep_encodings(tmp_path / "kept")
    manifest = write_manifest(tmp_path / "set.jsonl", [None] * 3)
    with hold_set(recogniser, Manifest(manifest, transcripts=False), tmp_path / "held", memory=0) as held:
        assert len(list((tmp_path / "kept").rglob("*.safetensors"))) == 3
        assert not (tmp_path / "held").exists()
        lists = dict(search_set(System(recogniser), held, {}, SearchOptions(2, max_length=4)))
    assert sorted(lists) == [0, 1, 2]
