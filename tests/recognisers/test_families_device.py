"""The families on a device that is not the CPU: encoder, search with internal LMs, waits of a step.

Not moonshine_streaming: its encoder makes masks by torch.vmap, which the fake device cannot carry. Its decoder is that
of moonshine.
"""

import pytest
import torch

from fewer.compute.device import Placement
from fewer.decoding.system import System
from fewer.ilm.config import IlmConfig
from fewer.recognisers.loader import load_recogniser
from fewer.recognisers.transformers.recogniser import FamilyRecogniser
from fewer.search.beam import SearchOptions, beam_search
from fewer.search.fusion import Fusion
from tests.compute.fake_device import NAME, Counting, on_fake
from tests.models.small import randomise
from tests.recognisers.families import OTHERS, make_model
from tests.recognisers.tiny import noises


@pytest.fixture(scope="module", params=[kind for kind in OTHERS if kind != "moonshine_streaming"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[FamilyRecogniser, ...]:
    """The same model on the CPU and on the fake device."""
    folder = make_model(tmp_path_factory.mktemp("family") / "model", request.param)
    language = "en" if request.param in ("cohere_asr", "canary") else None
    places = Placement(torch.device("cpu")), Placement(torch.device(NAME, 0))
    loaded = [load_recogniser(folder, language, placement=placement) for placement in places]
    assert all(isinstance(one, FamilyRecogniser) for one in loaded)
    return tuple(loaded)  # type: ignore[arg-type]


def fusion(recogniser: FamilyRecogniser, like: FamilyRecogniser) -> Fusion:
    """like: the same on the CPU, where weights are drawn."""
    mini = IlmConfig(method="mini_lstm").new_context(like)
    randomise(mini)
    contexts = {name: IlmConfig(method=name).new_context(recogniser) for name in ("zero_encoder", "seq_avg")}
    contexts["mini_lstm"] = mini if recogniser is like else on_fake(mini)
    scales = {"aed": 1.0, "mini_lstm": -0.2, "zero_encoder": -0.1, "seq_avg": -0.05}
    return System(recogniser, centred=True).fusion(scales, [recogniser.scorer(contexts)])


def test_encoder_and_search_are_the_same(both: tuple[FamilyRecogniser, FamilyRecogniser]) -> None:
    here, there = both
    expected, found = here.listen(noises(3)), there.listen(noises(3))
    assert found.states.device.type == NAME
    torch.testing.assert_close(found.states.cpu(), expected.states, atol=1e-4, rtol=1e-4)
    same = beam_search(fusion(here, here), expected, here.max_lengths(expected), SearchOptions(beam=3))
    lists = beam_search(fusion(there, here), found, there.max_lengths(found), SearchOptions(beam=3))
    for one, other in zip(lists, same, strict=True):
        assert [hypothesis.tokens for hypothesis in one] == [hypothesis.tokens for hypothesis in other]
        assert one[0].scores == pytest.approx(other[0].scores, abs=2e-3)


def test_a_step_waits_once_and_kernels_do_not_grow(both: tuple[FamilyRecogniser, FamilyRecogniser]) -> None:
    here, there = both

    def counted(utterances: int, beam: int, steps: int) -> Counting:
        with torch.no_grad():
            ours, encoded = fusion(there, here), there.listen(noises(utterances))
            with Counting() as count:
                beam_search(ours, encoded, torch.full_like(encoded.lengths, steps), SearchOptions(beam=beam))
        return count

    few, more, larger = counted(2, 3, 3), counted(2, 3, 5), counted(4, 5, 3)
    assert more.waits.total() - few.waits.total() <= 2  # none if the utterances have ended before
    assert larger.kernels.total() == few.kernels.total()
    assert larger.waits.total() == few.waits.total()
