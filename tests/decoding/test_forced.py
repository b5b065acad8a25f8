"""Hypotheses that are given get the scores of a search that finds them."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from fewer.decoding.forced import context_scores
from fewer.ilm.config import IlmConfig
from fewer.models.context import Context, FixedAudioContext
from fewer.recognisers.loader import load_recogniser
from fewer.recognisers.whisper.recogniser import WhisperRecogniser
from fewer.search.beam import SearchOptions, beam_search
from fewer.search.fusion import Fusion
from fewer.search.nbest import Hypothesis
from fewer.search.rules import EndScoredBy, Suppression
from tests.recognisers.tiny import noises


def searched(whisper: WhisperRecogniser, context: Context, end_by: list[str] | None) -> list[tuple[Hypothesis, ...]]:
    """Lists of two utterances with the scores of the search itself."""
    rules = [Suppression(whisper.suppress, whisper.suppress_first), *([] if end_by is None else [EndScoredBy(end_by)])]
    scorer = whisper.scorer({"ilm": context})
    fusion = Fusion([scorer], {"aed": 1.0, "ilm": -0.3}, whisper.tokenizer.end, rules)
    encoded = whisper.listen(noises(2))
    return beam_search(fusion, encoded, torch.tensor([12, 25]), SearchOptions(5))


@pytest.mark.parametrize("method", ["zero", "seq_avg", "mini_lstm", "state_ff", "silence"])
def test_so_do_those_of_a_recogniser_of_ones_own(tones: Path, method: str) -> None:
    recogniser = load_recogniser(tones / "aed")
    torch.manual_seed(2)
    context = IlmConfig(method=method, units=4).new_context(recogniser)
    encoded = recogniser.listen([torch.randn(8000), torch.randn(12000)])
    fusion = Fusion([recogniser.scorer({"ilm": context})], {"aed": 1.0, "ilm": -0.3}, recogniser.tokenizer.end)
    for utterance, hypotheses in enumerate(beam_search(fusion, encoded, torch.tensor([6, 9]), SearchOptions(4))):
        found = context_scores(recogniser, context, hypotheses, encoded if context.needs_encoder else None, utterance)
        assert found == pytest.approx([hypothesis.scores["ilm"] for hypothesis in hypotheses], abs=1e-4)


@pytest.mark.parametrize("end_by", [None, ["aed"]])
@pytest.mark.parametrize("method", ["zero", "zero_encoder", "seq_avg", "seq_avg_all", "mini_lstm", "silence"])
def test_given_hypotheses_get_the_searchs_own_scores(
    whisper: WhisperRecogniser, method: str, end_by: list[str] | None
) -> None:
    torch.manual_seed(2)
    context: Context = IlmConfig.model_validate({"method": method, "units": 4}).new_context(whisper)
    if method == "mini_lstm":
        torch.nn.init.normal_(context.linear.weight)  # type: ignore[arg-type, union-attr]
    if method == "silence":
        context = FixedAudioContext(whisper.attention, torch.randn(9, whisper.decoder.size))
    encoded = whisper.listen(noises(2))
    for utterance, hypotheses in enumerate(searched(whisper, context, end_by)):
        found: Sequence[float] = context_scores(whisper, context, hypotheses, encoded, utterance, end_by is None)
        assert found == pytest.approx([hypothesis.scores["ilm"] for hypothesis in hypotheses], abs=2e-4)
