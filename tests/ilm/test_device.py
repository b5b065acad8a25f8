"""Internal LMs estimated on a device that is not the CPU, and a whole decode there."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from fewer.compute.device import Placement
from fewer.data.batches import UtteranceConfig
from fewer.decoding.decode import decode
from fewer.decoding.system import load_system
from fewer.ilm.config import IlmConfig
from fewer.ilm.estimate import estimate_ilm
from fewer.ilm.folder import CONTEXT
from fewer.recognisers.aed import AedRecogniser
from fewer.search.beam import SearchOptions
from fewer.search.nbest import read_nbest
from tests.compute.fake_device import NAME, fake
from tests.recognisers.tiny import write_manifest

__all__ = ["fake"]
PLACED = Placement(torch.device(NAME, 0))
MEASURED = ["zero_encoder", "seq_avg", "enc_avg", "ctx_avg", "silence"]
TRAINED = ["mini_lstm", "learned", "state_ff", "distilled", "dr", "lodr"]
QUICK = {"passes": 1, "learning_rate": 0.03, "units": 4, "batch": 60, "seconds": 0.5, "utterances": 4}
TEXTS = ["the cat", "a cat in a hat", "in the hat", "the hat"]


def same(ours: Any, theirs: Any) -> None:
    """Numbers of ilm.json, about."""
    assert ours["labels"] == theirs["labels"]
    assert ours["log_prob"] == pytest.approx(theirs["log_prob"], rel=1e-3)


@pytest.mark.parametrize("method", [*MEASURED, *TRAINED])
@pytest.mark.usefixtures("fake")
def test_a_recogniser_of_the_papers_kind(tones: Path, tmp_path: Path, method: str) -> None:
    sets = (tones / "train.jsonl", tones / "dev.jsonl")
    found = []
    for name, placement in (("cpu", Placement()), ("fake", PLACED)):
        config = IlmConfig.model_validate({"method": method, **QUICK})
        facts = estimate_ilm(tones / "aed", config, tmp_path / name, *sets, placement)
        found.append(facts["perplexity"]["dev"])
    same(found[1], found[0])


@pytest.mark.parametrize("method", ["zero_encoder", "seq_avg", "ctx_avg", "silence", "mini_lstm"])
def test_whisper(tiny: Path, tmp_path: Path, method: str) -> None:
    train = write_manifest(tmp_path / "train.jsonl", TEXTS, seed=1)
    found = []
    for name, placement in (("cpu", Placement()), ("fake", PLACED)):
        config = IlmConfig.model_validate({"method": method, **QUICK})
        facts = estimate_ilm(tiny, config, tmp_path / name, train, train, placement)
        found.append(facts["perplexity"]["train"])
    same(found[1], found[0])


def lists(system: Any, manifest: Path, out: Path) -> list[Any]:
    decode(system, manifest, out, {"lm": 0.3, "ilm": -0.2}, SearchOptions(beam=4))
    return list(read_nbest(out))


def test_a_decode_is_the_same_even_if_memory_runs_out(
    tones: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches are read ahead; encoder and search each run out of memory once, and go on with half as much."""
    monkeypatch.setattr("fewer.decoding.encoding.BATCH", UtteranceConfig(max_sequences=3, order="sorted"))
    ilm = tmp_path / "ilm"
    estimate_ilm(tones / "aed", IlmConfig(method="seq_avg"), ilm)
    parts = {"lm": tones / "lm", "ilm": ilm}
    expected = lists(load_system(tones / "aed", **parts), tones / "dev.jsonl", tmp_path / "cpu.jsonl")
    system = load_system(tones / "aed", **parts, placement=PLACED)
    largest: dict[str, list[int]] = {"encode": [], "search": []}

    def failing(name: str, work: Any, size: Any) -> Any:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            largest[name].append(size(*args))
            if len(largest[name]) == 1:
                raise torch.OutOfMemoryError("out of memory")
            return work(*args, **kwargs)

        return wrapped

    from fewer.decoding import decode as module

    monkeypatch.setattr(
        module, "beam_search", failing("search", module.beam_search, lambda fusion, encoded, *_: len(encoded))
    )
    monkeypatch.setattr(
        system.recogniser, "encode", failing("encode", system.recogniser.encode, lambda batch: len(batch.ids))
    )
    found = lists(system, tones / "dev.jsonl", tmp_path / "fake.jsonl")
    for sizes in largest.values():
        assert max(sizes[1:]) < sizes[0]
    assert [nbest.id for nbest in found] == [nbest.id for nbest in expected]
    for ours, theirs in zip(found, expected, strict=True):
        assert [h.tokens for h in ours.hypotheses] == [h.tokens for h in theirs.hypotheses]
        assert ours.hypotheses[0].scores == pytest.approx(theirs.hypotheses[0].scores, abs=1e-3)


def test_a_mean_is_the_same_even_if_memory_runs_out(
    tones: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mean(folder: Path) -> Any:
        estimate_ilm(tones / "aed", IlmConfig(method="enc_avg"), folder, tones / "train.jsonl", placement=PLACED)
        return load_file(folder / CONTEXT)

    expected, sizes = mean(tmp_path / "whole"), list[int]()
    encode = AedRecogniser.encode

    def failing(self: AedRecogniser, batch: Any) -> Any:
        sizes.append(len(batch.ids))
        if len(sizes) == 1:
            raise torch.OutOfMemoryError("out of memory")
        return encode(self, batch)

    monkeypatch.setattr(AedRecogniser, "encode", failing)
    found = mean(tmp_path / "halved")
    assert max(sizes[1:]) <= sizes[0] // 2
    assert found.keys() == expected.keys()
    for name in expected:
        torch.testing.assert_close(found[name], expected[name])
