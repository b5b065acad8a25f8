"""The decoder gives transformers' logits, and each context what transformers gives when its encoder is changed."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import WhisperForConditionalGeneration
from transformers.modeling_outputs import BaseModelOutput

from fewer.errors import FewerError
from fewer.ilm.config import IlmConfig
from fewer.models.context import ConstantContext, Context, FixedAudioContext
from fewer.models.encoded import Encoded
from fewer.recognisers.whisper.recogniser import WhisperRecogniser, load_whisper
from tests.recognisers.tiny import noises


def theirs_log_probs(model: Any, states: Tensor, prompt: list[int], labels: Tensor) -> Tensor:
    """What transformers says of every label, given encoder states. (B, T, D), (B, N) -> (B, N, V)"""
    inputs = torch.cat([torch.tensor(prompt).expand(len(labels), -1), labels[:, :-1]], dim=1)
    with torch.inference_mode():
        outputs = model(encoder_outputs=BaseModelOutput(last_hidden_state=states), decoder_input_ids=inputs)
    return outputs.logits[:, len(prompt) - 1 :].log_softmax(-1)


def some_labels(whisper: WhisperRecogniser, rows: int = 2, length: int = 12) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, whisper.tokenizer.end, (rows, length), generator=generator)


@pytest.fixture(scope="module")
def encoded(whisper: WhisperRecogniser) -> Encoded:
    return whisper.listen(noises(2))


@pytest.mark.parametrize("length", [1, 2, 38])
def test_log_probabilities_are_those_of_transformers(
    whisper: WhisperRecogniser, theirs: Any, encoded: Encoded, length: int
) -> None:
    labels = some_labels(whisper, length=length)
    ours = whisper.language_model(whisper.attention).log_probs(labels, encoded)
    torch.testing.assert_close(
        ours, theirs_log_probs(theirs, encoded.states, whisper.prompt, labels), atol=1e-5, rtol=1e-5
    )


def test_the_real_model_gives_transformers_log_probabilities(real: Path) -> None:
    whisper, model = load_whisper(real), WhisperForConditionalGeneration.from_pretrained(real, dtype=torch.float32)
    encoded, labels = whisper.listen(noises(2)), some_labels(whisper, length=30)
    ours = whisper.language_model(whisper.attention).log_probs(labels, encoded)
    expected = theirs_log_probs(model.eval(), encoded.states, whisper.prompt, labels)
    torch.testing.assert_close(ours, expected, atol=1e-4, rtol=1e-4)


def test_longer_texts_than_the_decoder_has_positions_for_are_refused(whisper: WhisperRecogniser) -> None:
    zero = IlmConfig(method="zero").new_context(whisper)
    with pytest.raises(FewerError, match="at most 40"):
        whisper.language_model(zero).log_probs(some_labels(whisper, length=40))


def ilm_log_probs(whisper: WhisperRecogniser, context: Context, labels: Tensor, encoded: Encoded) -> Tensor:
    return whisper.language_model(context).log_probs(labels, encoded if context.needs_encoder else None)


def test_zero_is_the_decoder_whose_cross_attention_adds_nothing(
    whisper: WhisperRecogniser, tiny: Path, encoded: Encoded
) -> None:
    deaf = WhisperForConditionalGeneration.from_pretrained(tiny, dtype=torch.float32).eval()
    with torch.no_grad():
        for layer in deaf.model.decoder.layers:
            layer.encoder_attn.out_proj.weight.zero_()
            layer.encoder_attn.out_proj.bias.zero_()
    labels = some_labels(whisper)
    ours = ilm_log_probs(whisper, IlmConfig(method="zero").new_context(whisper), labels, encoded)
    expected = theirs_log_probs(deaf, encoded.states, whisper.prompt, labels)
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("method", ["zero_encoder", "seq_avg", "seq_avg_all"])
def test_constant_encoder_states_are_what_transformers_makes_of_such_states(
    whisper: WhisperRecogniser, theirs: Any, encoded: Encoded, method: str
) -> None:
    states, lengths = encoded.states, encoded.lengths.tolist()
    assert lengths[0] != lengths[1]
    assert max(lengths) < states.shape[1]
    means = {
        "zero_encoder": torch.zeros_like(states[:, 0]),
        "seq_avg": torch.stack([one[:length].mean(0) for one, length in zip(states, lengths, strict=True)]),
        "seq_avg_all": states.mean(1),
    }
    labels = some_labels(whisper)
    ours = ilm_log_probs(whisper, IlmConfig(method=method).new_context(whisper), labels, encoded)
    expected = theirs_log_probs(theirs, means[method][:, None].expand(-1, 7, -1), whisper.prompt, labels)
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-5)


def test_the_zero_methods_differ_by_the_biases_of_cross_attention(whisper: WhisperRecogniser, theirs: Any) -> None:
    blocks = [layer.encoder_attn for layer in theirs.model.decoder.layers]
    biases = [block.out_proj(block.v_proj.bias) for block in blocks]
    vector = whisper.hear_only(torch.zeros(whisper.decoder.size))
    torch.testing.assert_close(vector, torch.cat(biases).detach())
    assert float(vector.norm()) > 0.1


def test_a_fixed_recording_is_heard_whatever_the_utterance(
    whisper: WhisperRecogniser, theirs: Any, encoded: Encoded
) -> None:
    states = whisper.listen([torch.zeros(16000)]).states
    labels = some_labels(whisper)
    ours = ilm_log_probs(whisper, FixedAudioContext(whisper.attention, states[0]), labels, encoded)
    expected = theirs_log_probs(theirs, states.expand(2, -1, -1), whisper.prompt, labels)
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-5)


def test_a_constant_says_something_else_to_every_layer(whisper: WhisperRecogniser, encoded: Encoded) -> None:
    """The blocks' vectors are kept layer by layer: swapping two layers' changes the result."""
    layers = len(whisper.decoder.layers)
    vectors = torch.randn(layers, whisper.decoder.size, generator=torch.Generator().manual_seed(0))
    labels = some_labels(whisper)
    says = [
        ilm_log_probs(whisper, ConstantContext(given.flatten(), special_first=False), labels, encoded)
        for given in (vectors, vectors.flip(0))
    ]
    assert float((says[0] - says[1]).abs().max()) > 0.01


def test_logits_in_8_bits_are_exact_where_it_matters(whisper: WhisperRecogniser) -> None:
    decoder = whisper.decoder.for_search("int8")
    hidden = decoder.norm(torch.randn(2, 3, decoder.size))
    with torch.inference_mode():
        exact, found, best = decoder.logits(hidden), decoder.next_logits(hidden), decoder.logits(hidden).topk(5).indices
        torch.testing.assert_close(found.gather(-1, best), exact.gather(-1, best))
        assert 0 < float((found - exact).norm() / exact.norm()) < 0.03
        assert torch.equal(whisper.decoder.next_logits(hidden), exact)


def test_a_decoder_in_8_bits_shares_what_stays_exact(whisper: WhisperRecogniser) -> None:
    quick, states = whisper.decoder.for_search("int8"), torch.randn(2, 9, whisper.decoder.size)
    assert quick.embedding.weight is quick.output.weight is whisper.decoder.embedding.weight
    with torch.inference_mode():
        found, exact = (torch.cat(one.layers[0].hear(states)[:2]) for one in (quick, whisper.decoder))
        assert 0 < float((found - exact).norm() / exact.norm()) < 0.03
    assert isinstance(whisper.decoder.layers[0].inner, torch.nn.Linear)  # can be differentiated
    assert whisper.decoder.for_search("float32") is whisper.decoder


def test_attention_in_8_bits_keeps_what_was_heard_in_16(whisper: WhisperRecogniser) -> None:
    layer, states = whisper.decoder.for_search("int8").layers[0], torch.randn(2, 9, whisper.decoder.size)
    hidden = torch.randn(2, 5, whisper.decoder.size)
    with torch.inference_mode():
        heard = layer.hear(states)
        found = layer.attend(hidden, [heard])
        layer.kept_as = torch.float32
        exact = layer.attend(hidden, [layer.hear(states)])
    assert heard.keys.dtype == heard.values.dtype == torch.bfloat16
    assert found.dtype == torch.float32
    assert 0 < float((found - exact).norm() / exact.norm()) < 0.01
    assert whisper.decoder.layers[0].hear(states).keys.dtype == torch.float32
