"""Whisper on a device that is not the CPU: encoder in batches, search, alignment, internal LMs."""

from pathlib import Path

import pytest
import torch

from fewer.compute.device import Placement
from fewer.decoding.forced import context_scores
from fewer.decoding.system import System
from fewer.ilm.methods.mini_lstm import MiniLstmContext
from fewer.models.context import ConstantContext, Context, FixedAudioContext
from fewer.recognisers.whisper.recogniser import WhisperRecogniser, load_whisper
from fewer.search.beam import SearchOptions, beam_search
from fewer.search.fusion import Fusion
from fewer.search.nbest import Hypothesis
from tests.compute.fake_device import NAME, Counting, on_fake
from tests.models.small import randomise
from tests.recognisers.tiny import noises

PLACED = Placement(torch.device(NAME, 0))


@pytest.fixture(scope="module")
def placed(tiny: Path) -> WhisperRecogniser:
    return load_whisper(tiny, placement=PLACED)


def contexts(whisper: WhisperRecogniser) -> dict[str, Context]:
    """On the CPU; each is copied to where it is needed."""
    mini = MiniLstmContext(whisper.decoder.size, whisper.attention.size, units=5)
    randomise(mini)
    return {
        "mean": ConstantContext(torch.linspace(-0.3, 0.3, whisper.attention.size), special_first=False),
        "mini": mini,
    }


def fusion(whisper: WhisperRecogniser, ilms: dict[str, Context]) -> Fusion:
    system = System(whisper, centred=True)
    silence = whisper.listen([torch.zeros(8000)]).states[0]
    ilms = ilms | {"silence": FixedAudioContext(whisper.attention, silence)}
    scorers = [whisper.scorer(ilms)]
    return system.fusion({"aed": 1.0, "mean": -0.2, "mini": -0.1, "silence": -0.05}, scorers)


def test_encoder_search_no_speech_and_times_are_the_same(whisper: WhisperRecogniser, placed: WhisperRecogniser) -> None:
    audio = noises(4)
    expected, found = whisper.listen(audio), placed.listen(audio)
    assert placed.fingerprint == whisper.fingerprint
    assert found.states.device.type == NAME
    torch.testing.assert_close(found.states.cpu(), expected.states, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(placed.no_speech(found).cpu(), whisper.no_speech(expected), atol=1e-5, rtol=1e-3)
    ilms = contexts(whisper)
    ours = fusion(placed, {name: on_fake(context) for name, context in ilms.items()})
    lists = beam_search(ours, found, placed.max_lengths(found), SearchOptions(beam=4))
    same = beam_search(fusion(whisper, ilms), expected, whisper.max_lengths(expected), SearchOptions(beam=4))
    for one, other in zip(lists, same, strict=True):
        assert [hypothesis.tokens for hypothesis in one] == [hypothesis.tokens for hypothesis in other]
        assert one[0].scores == pytest.approx(other[0].scores, abs=2e-3)
    first = torch.tensor([0])
    labels = same[0][0].tokens
    assert placed.times(found.select(first.to(NAME)), labels) == whisper.times(expected.select(first), labels)


def counted(whisper: WhisperRecogniser, utterances: int, beam: int, steps: int) -> Counting:
    with torch.no_grad():
        ours = fusion(whisper, {name: on_fake(context) for name, context in contexts(whisper).items()})
        encoded = whisper.listen(noises(utterances))
        with Counting() as count:
            beam_search(ours, encoded, torch.full_like(encoded.lengths, steps), SearchOptions(beam=beam))
    return count


def test_a_step_waits_once_and_kernels_do_not_grow(placed: WhisperRecogniser) -> None:
    few, more = counted(placed, 2, 3, 3), counted(placed, 2, 3, 5)
    assert more.waits.total() - few.waits.total() <= 2  # none if the utterances have ended before
    larger = counted(placed, 5, 6, 3)
    assert larger.kernels.total() == few.kernels.total()
    assert larger.waits.total() == few.waits.total()


def test_the_encoder_takes_batches(placed: WhisperRecogniser) -> None:
    counts = []
    for utterances in (1, 5):
        with Counting() as count:
            placed.listen(noises(utterances))
        counts.append(count.kernels.total())
    assert counts[0] == counts[1]


def test_the_encoder_in_float16(tiny: Path, whisper: WhisperRecogniser) -> None:
    half = load_whisper(tiny, placement=Placement(torch.device(NAME, 0), "float16"))
    expected, found = whisper.listen(noises(2)).states, half.listen(noises(2)).states
    assert found.dtype == torch.float32
    assert 0 < float((found.cpu() - expected).norm() / expected.norm()) < 0.01
    assert half.fingerprint == whisper.fingerprint
    assert half.encoded_by != whisper.encoded_by


def test_what_a_context_says_of_given_hypotheses(whisper: WhisperRecogniser, placed: WhisperRecogniser) -> None:
    hypotheses = [Hypothesis("", (5, 6, 7), {}, 4, 0.0), Hypothesis("", (5, 9), {}, 3, 0.0)]
    for context in contexts(whisper).values():
        expected = context_scores(whisper, context, hypotheses)
        assert context_scores(placed, on_fake(context), hypotheses) == pytest.approx(expected, abs=1e-3)
