"""The models agree with the paper's toolkit to 1e-4."""

import pytest
import torch
from torch import Tensor

from fewer.models.lm import LanguageModel, LmScorer
from tests.golden.golden import arrays, encoded, golden_aed, golden_lstm_lm, golden_transformer_lm, labels

BATCHES = ["A", "B"]


def assert_close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("batch", BATCHES)
def test_convolutions(batch: str) -> None:
    golden = arrays("aed_lstm")
    x, lengths = golden[f"{batch}:x"].clamp(-3, 3), golden[f"{batch}:x_len"].long()
    ours = golden_aed().encoder.convolve(x, lengths)
    assert_close(ours[0], golden[f"{batch}:conv_merged"][0])  # the longest: the toolkit does not mask the others


@pytest.mark.parametrize(("batch", "index"), [("A", 1), ("B", 0), ("B", 1), ("B", 2)])
def test_encoder(batch: str, index: int) -> None:
    golden = arrays("aed_lstm")
    x, lengths = golden[f"{batch}:x"].clamp(-3, 3), golden[f"{batch}:x_len"].long()
    ours = golden_aed().encode(x, lengths)
    theirs = golden[f"{batch}:single{index}:encoder"]
    assert ours.lengths[index] == len(theirs)
    assert_close(ours.states[index, : len(theirs)], theirs)


@pytest.mark.parametrize("batch", BATCHES)
def test_attention_and_decoder(batch: str) -> None:
    golden, model = arrays("aed_lstm"), golden_aed()
    y, lengths = labels(batch)
    decoded = model.teacher_forced(encoded(batch), y)
    weights = torch.stack([state.weights for state in decoded.context_states], dim=1)
    accumulated = torch.stack([state.accumulated for state in decoded.context_states], dim=1)
    frames = golden[f"{batch}:encoder_len"]
    for b, (n, t) in enumerate(zip(lengths, frames, strict=True)):
        assert_close(decoded.states[b, :n], golden[f"{batch}:s"][b, :n])
        assert_close(weights[b, :n, :t], golden[f"{batch}:att_weights"][b, :n, :t])
        assert_close(accumulated[b, :n, :t], golden[f"{batch}:accum_att_weights"][b, :n, :t])
        assert_close(decoded.contexts[b, :n], golden[f"{batch}:att"][b, :n])
        assert_close(decoded.logits[b, :n].log_softmax(-1), golden[f"{batch}:dec_logp"][b, :n])


@pytest.mark.parametrize("batch", BATCHES)
def test_ctc(batch: str) -> None:
    golden, states = arrays("aed_lstm"), encoded(batch)
    ours = golden_aed().ctc_log_probs(states)
    for b, t in enumerate(states.lengths):
        assert_close(ours[b, :t], golden[f"{batch}:ctc_logp"][b, :t])


@pytest.mark.parametrize(("name", "build"), [("lstmlm", golden_lstm_lm), ("tlm", golden_transformer_lm)])
def test_language_models_teacher_forced_and_step_by_step(name: str, build: type) -> None:
    golden = arrays("lm")
    model: LanguageModel = build()
    y = golden[f"{name}:y"].long()
    with torch.no_grad():
        teacher_forced = model.log_probs(y)
        scorer = LmScorer(model)
        memory, state = scorer.start(y)
        step = torch.full((len(y),), -1)
        for i in range(y.shape[1]):
            scores, state = scorer.step(memory, state, step)
            torch.testing.assert_close(scores[0], teacher_forced[:, i], atol=1e-5, rtol=1e-5)
            step = y[:, i]
    for b, n in enumerate(golden[f"{name}:len"]):
        assert_close(teacher_forced[b, :n], golden[f"{name}:logp"][b, :n])
