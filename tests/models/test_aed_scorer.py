"""The fast scorer says what the plain decoder says, for every context and decoder."""

import pytest
import torch

from fewer.ilm.methods.mini_lstm import MiniLstmContext
from fewer.ilm.methods.seq_avg import SequenceMeanContext
from fewer.ilm.methods.state_ff import StateContext
from fewer.models.aed import AED
from fewer.models.aed_scorer import AedScorer
from fewer.models.context import ConstantContext, Context, FixedAudioContext, ZeroContext
from fewer.models.decoder import DecoderLikeLm, DecoderLikeLmConfig
from tests.models.small import STATES, VOCAB, random_encoded, random_labels, randomise, small_aed


def contexts(aed: AED) -> dict[str, Context]:
    vector = torch.linspace(-1, 1, 10)
    named: dict[str, Context] = {
        "zero": ZeroContext(10),
        "average": ConstantContext(vector),
        "average_first": ConstantContext(vector, special_first=False),
        "sequence": SequenceMeanContext(10),
        "sequence_first": SequenceMeanContext(10, special_first=False),
        "mini_lstm": MiniLstmContext(4, 10, units=6),
        "state": StateContext(aed.config.decoder.size, 10, units=6),
        "silence": FixedAudioContext(aed.attention, torch.randn(5, 10, generator=torch.Generator().manual_seed(4))),
    }
    for name in ("mini_lstm", "state"):
        randomise(named[name], 7)
    return named


@pytest.mark.parametrize("state", STATES)
def test_every_term_equals_the_decoder_under_its_context(state: str) -> None:
    aed, encoded, labels = small_aed(state), random_encoded([7, 4, 5]), random_labels(3, 6)
    named = contexts(aed)
    scorer = AedScorer(aed, named)
    assert scorer.terms == ("aed", *named)
    memory, kept = scorer.start(encoded)
    step, rows = torch.full((3,), -1), []
    for i in range(6):
        scores, kept = scorer.step(memory, kept, step)
        rows.append(scores)
        step = labels[:, i]
    ours = torch.stack(rows, dim=2)  # (terms, B, N, V)
    for index, context in enumerate([aed.attention, *named.values()]):
        with torch.no_grad():
            logits = aed.decoder.teacher_forced(context, context.prepare(encoded), labels).logits
        torch.testing.assert_close(ours[index], logits.log_softmax(-1), atol=1e-5, rtol=1e-5, msg=scorer.terms[index])


@pytest.mark.parametrize("state", STATES)
def test_contexts_give_the_same_at_once_and_step_by_step(state: str) -> None:
    aed, encoded, labels = small_aed(state), random_encoded([7, 4, 5]), random_labels(3, 6)
    for name, context in contexts(aed).items():
        memory = context.prepare(encoded)
        kept, step, rows = aed.decoder.start(context, memory, 3), torch.full((3,), -1), []
        with torch.no_grad():
            for i in range(6):
                logits, kept = aed.decoder.step(context, memory, kept, step)
                rows.append(logits)
                step = labels[:, i]
            at_once = aed.decoder.teacher_forced(context, memory, labels).logits
        torch.testing.assert_close(torch.stack(rows, dim=1), at_once, atol=1e-5, rtol=1e-5, msg=name)


def test_rows_can_be_reordered_and_utterances_dropped() -> None:
    aed, encoded = small_aed(), random_encoded([7, 4, 5])
    scorer = AedScorer(aed, {"mini_lstm": contexts(aed)["mini_lstm"], "sequence": SequenceMeanContext(10)})
    memory, state = scorer.start(encoded)
    _, state = scorer.step(memory, state, torch.full((3,), -1))
    two_each = torch.tensor([0, 0, 1, 1, 2, 2])
    state = scorer.reorder(state, two_each)
    scores, _ = scorer.step(memory, state, torch.tensor([1, 2, 3, 4, 5, 6]))
    keep = scorer.reorder(state, torch.tensor([5, 4, 1, 0]))
    fewer_scores, _ = scorer.step(scorer.select(memory, torch.tensor([2, 0])), keep, torch.tensor([6, 5, 2, 1]))
    torch.testing.assert_close(fewer_scores, scores[:, [5, 4, 1, 0]], atol=1e-6, rtol=1e-5)


def test_a_context_of_the_wrong_size_is_refused() -> None:
    with pytest.raises(ValueError, match="zero: a context of size 9"):
        AedScorer(small_aed(), {"zero": ZeroContext(9)})


def test_decoder_like_lm_is_the_decoder_without_context() -> None:
    lm = DecoderLikeLm(DecoderLikeLmConfig(vocab_size=VOCAB, size=8, embedding=4, readout=6, dropout=0.0)).eval()
    randomise(lm)
    labels = random_labels(2, 5)
    state, step = lm.start(2), torch.full((2,), -1)
    with torch.no_grad():
        teacher_forced = lm.log_probs(labels)
        for i in range(5):
            scores, state = lm.step(state, step)
            torch.testing.assert_close(scores, teacher_forced[:, i], atol=1e-5, rtol=1e-5)
            step = labels[:, i]
    assert teacher_forced.exp().sum(-1) == pytest.approx(1.0, abs=1e-5)
