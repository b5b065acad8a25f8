"""The internal LMs agree with the paper's toolkit to 1e-4."""

import pytest
import torch

from fewer.ilm.methods.seq_avg import SequenceMeanContext
from fewer.models.context import ConstantContext, Context, ZeroContext
from tests.golden.golden import CONFIG, arrays, encoded, golden_aed, golden_mini_lstm, labels

SIZE = CONFIG.encoder.output


def context_of(method: str) -> Context:
    if method == "zero":
        return ZeroContext(SIZE)
    if method == "global_avg":
        return ConstantContext(arrays("ilm_lstm")["avg_vector"])
    return SequenceMeanContext(SIZE) if method == "seq_avg" else golden_mini_lstm()


@pytest.mark.parametrize("batch", ["A", "B"])
@pytest.mark.parametrize("method", ["zero", "global_avg", "seq_avg", "mini_lstm"])
def test_ilm_log_probs(method: str, batch: str) -> None:
    golden, decoder, context = arrays("ilm_lstm"), golden_aed().decoder, context_of(method)
    y, lengths = labels(batch)
    with torch.no_grad():
        decoded = decoder.teacher_forced(context, context.prepare(encoded(batch)), y)
    ours = decoded.logits.log_softmax(-1)
    for b, n in enumerate(lengths):
        torch.testing.assert_close(decoded.states[b, :n], golden[f"{batch}:{method}:prior_s"][b, :n], atol=1e-4, rtol=0)
        torch.testing.assert_close(ours[b, :n], golden[f"{batch}:{method}:ilm_logp"][b, :n], atol=1e-4, rtol=0)
    if method == "mini_lstm":
        torch.testing.assert_close(decoded.contexts[0], golden[f"{batch}:mini_lstm:mini_att"][0], atol=1e-4, rtol=0)
    if method == "seq_avg":
        means = context.prepare(encoded(batch))
        torch.testing.assert_close(means, golden[f"{batch}:seq_avg:encoder_mean"], atol=1e-4, rtol=0)
