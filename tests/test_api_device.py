"""The Python functions with `device`: everything that computes with a model, on the fake device."""

from pathlib import Path

import pytest
import torch

import fewer
from fewer.errors import FewerError
from fewer.search.nbest import read_nbest
from tests.compute.fake_device import Counting, fake
from tests.recognisers.tiny import noises

__all__ = ["fake"]


def test_transcribing_gives_the_same(tiny: Path, tmp_path: Path, fake: str) -> None:
    (tmp_path / "words.txt").write_text("cat\t1.5\nthe hat\n")
    audio = noises(2)
    options = {"words": tmp_path / "words.txt", "beam": 2, "precision": "float32"}
    expected = fewer.load(tiny, device="cpu", **options).transcribe(audio)
    model = fewer.load(tiny, device=fake, **options)
    assert model.recogniser.device.type == fake
    with Counting() as count:
        found = [(one.text, one.words) for one in model.transcribe(audio)]
    assert count.kernels
    assert any(text for text, _ in found)
    for (text, words), theirs in zip(found, expected, strict=True):
        assert text == theirs.text
        assert [(word.text, word.start) for word in words] == [(word.text, word.start) for word in theirs.words]


def test_decoding_tuning_rescoring_and_perplexity(tones: Path, tmp_path: Path, fake: str) -> None:
    dev, lm = tones / "dev.jsonl", tones / "lm"
    for device in ("cpu", fake):
        out = tmp_path / device
        out.mkdir()
        options = {"lm": lm, "beam": 3, "device": device}
        results = fewer.tune(tones / "aed", dev, out / "tune", budget=2, **options)
        fewer.decode(tones / "aed", dev, out / "dev.jsonl", lm_scale=0.2, **options)
        fewer.rescore(out / "dev.jsonl", lm, out / "again.jsonl", device=device)
        (out / "wer.txt").write_text(f"{results['sf'].wer:.6f}")
    first, second = (
        [nbest.hypotheses[0] for nbest in read_nbest(tmp_path / device / "again.jsonl")] for device in ("cpu", fake)
    )
    assert [h.tokens for h in first] == [h.tokens for h in second]
    assert [h.score for h in first] == pytest.approx([h.score for h in second], abs=1e-4)
    assert (tmp_path / "cpu" / "wer.txt").read_text() == (tmp_path / fake / "wer.txt").read_text()
    perplexities = [fewer.perplexity(lm, dev, device=device)[str(dev)] for device in ("cpu", fake)]
    assert perplexities[0] == pytest.approx(perplexities[1], rel=1e-5)


def test_processes_and_a_gpu_exclude_each_other(tones: Path, fake: str) -> None:
    with pytest.raises(FewerError, match="processes would share the device"):
        fewer.decode(tones / "aed", tones / "dev.jsonl", engine="processes:2", device=fake)


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_a_whisper_in_less_precision(tiny: Path, precision: str) -> None:
    audio = noises(2)
    exact, less = (fewer.load(tiny, device="cpu", precision=one) for one in ("float32", precision))
    states, other = (model.recogniser.listen(audio).states for model in (exact, less))
    assert other.dtype == torch.float32
    assert 0 < float((states - other).norm() / states.norm()) < 0.1
    assert all(one.to_json()["segments"] is not None for one in less.transcribe(audio))


def test_a_recogniser_of_lstms_in_less_precision(tones: Path) -> None:
    lists = fewer.decode(tones / "aed", tones / "dev.jsonl", device="cpu", precision="bfloat16", beam=3)
    assert len(lists)
    with pytest.raises(FewerError, match="an encoder of LSTMs, for which there is no int8"):
        fewer.load(tones / "aed", precision="int8")
