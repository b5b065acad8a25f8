"""Hypotheses that are given, and encoder states that are kept."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from fewer.decoding.forced import context_scores
from fewer.errors import FewerError
from fewer.ilm.config import IlmConfig
from fewer.models.context import Context, FixedAudioContext
from fewer.recognisers.whisper.recogniser import WhisperRecogniser, load_whisper
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
