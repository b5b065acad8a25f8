"""Searching step by step gives the numbers of whole texts, however the beam moves."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fewer.ilm.config import IlmConfig
from fewer.models.context import ConstantContext, Context, FixedAudioContext
from fewer.models.encoded import Encoded
from fewer.models.lm import LmScorer
from fewer.recognisers.transformers.cache import LEAST
from fewer.recognisers.transformers.decoder import DecoderLayer
from fewer.recognisers.whisper.recogniser import WhisperRecogniser
from fewer.search.beam import SearchOptions, beam_search
from fewer.search.fusion import Fusion
from fewer.search.scorer import first_labels
from tests.recognisers.tiny import noises


def contexts(whisper: WhisperRecogniser) -> dict[str, Context]:
    torch.manual_seed(3)
    made = {method: IlmConfig(method=method, units=4).new_context(whisper) for method in ("zero", "seq_avg")}
    mini = IlmConfig(method="mini_lstm", units=4).new_context(whisper)
    torch.nn.init.normal_(mini.linear.weight)  # type: ignore[union-attr, arg-type]
    made["mini"] = mini
    made["fixed"] = FixedAudioContext(whisper.attention, torch.randn(9, whisper.decoder.size))
    return made


def whole(whisper: WhisperRecogniser, context: Context, labels: list[int], encoded: Encoded) -> torch.Tensor:
    """Log-probabilities of each label of one text, teacher-forced. (N, V)"""
    lm = whisper.language_model(context)
    return lm.log_probs(torch.tensor([labels]), encoded if context.needs_encoder else None)[0]


@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_any_walk_of_a_beam_scores_as_whole_texts(whisper: WhisperRecogniser, data: st.DataObject) -> None:
    """Random labels, random parents, utterances that are done, up to a hundred slots."""
    utterances, width = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 6))
    encoded = whisper.listen(noises(utterances))
    terms = contexts(whisper)
    scorer = whisper.scorer(terms)
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 1000)))
    memory, state = scorer.start(encoded)
    alive, texts = list(range(utterances)), [[] for _ in range(utterances)]  # type: ignore[var-annotated]
    labels, beam = first_labels(utterances), 1
    for step in range(18):
        log_probs, state = scorer.step(memory, state, labels)
        if step % 6 == 5:
            for row, text in enumerate(texts):
                utterance = alive[row // beam]
                one = encoded.select(torch.tensor([utterance]))
                for term, context in zip(scorer.terms, [whisper.attention, *terms.values()], strict=True):
                    expected = whole(whisper, context, [*text, 0], one)[-1]
                    index = scorer.terms.index(term)
                    torch.testing.assert_close(log_probs[index, row], expected, atol=2e-4, rtol=1e-4)
        keep = list(range(len(alive)))
        if len(keep) > 1 and data.draw(st.integers(0, 9)) == 0:
            keep.remove(data.draw(st.sampled_from(keep)))
        parents = torch.cat([beam * one + torch.randint(0, beam, (width,), generator=generator) for one in keep])
        labels = torch.randint(0, whisper.tokenizer.end, (len(parents),), generator=generator)
        texts = [[*texts[parent], label] for parent, label in zip(parents.tolist(), labels.tolist(), strict=True)]
        memory = scorer.select(memory, torch.tensor(keep))
        state = scorer.reorder(state, parents.view(len(keep), -1))
        alive, beam = [alive[one] for one in keep], width


def test_slots_that_no_hypothesis_sees_are_dropped(whisper: WhisperRecogniser) -> None:
    """One hypothesis wins all the time, so its past is all that is needed."""
    scorer = whisper.scorer({})
    memory, state = scorer.start(whisper.listen(noises(1)))
    labels, used = first_labels(1), []
    for _ in range(36):
        _, state = scorer.step(memory, state, labels)
        state = scorer.reorder(state, torch.zeros(1, 6, dtype=torch.long))
        labels = torch.arange(6)
        used.append(state.cache.visible.shape[2])
    assert max(used) < 2 * LEAST < 36 * 6
    assert min(used[20:]) < 36 + LEAST


def test_a_state_can_be_continued_twice(whisper: WhisperRecogniser) -> None:
    """Keys and values are written in place, but never over what another state still needs."""
    scorer = whisper.scorer(contexts(whisper))
    memory, state = scorer.start(whisper.listen(noises(2)))
    _, state = scorer.step(memory, state, first_labels(2))
    first, after = scorer.step(memory, state, torch.tensor([5, 6]))
    other, _ = scorer.step(memory, state, torch.tensor([7, 8]))
    again, _ = scorer.step(memory, state, torch.tensor([5, 6]))
    torch.testing.assert_close(first, again, atol=1e-6, rtol=0)
    assert float((first - other).abs().max()) > 1e-3
    following, _ = scorer.step(memory, after, torch.tensor([9, 9]))
    _, fresh = scorer.step(memory, state, torch.tensor([5, 6]))
    torch.testing.assert_close(scorer.step(memory, fresh, torch.tensor([9, 9]))[0], following, atol=1e-6, rtol=0)


def test_an_utterance_scores_the_same_alone_and_in_a_batch(whisper: WhisperRecogniser) -> None:
    audio = noises(3)
    fusion = Fusion([whisper.scorer(contexts(whisper))], {"aed": 1.0, "mini": -0.2}, whisper.tokenizer.end)
    together = whisper.listen(audio)
    lists = beam_search(fusion, together, whisper.max_lengths(together), SearchOptions(beam=4))
    for samples, expected in zip(audio, lists, strict=True):
        alone = whisper.listen([samples])
        (found,) = beam_search(fusion, alone, whisper.max_lengths(alone), SearchOptions(beam=4))
        assert [hypothesis.tokens for hypothesis in found] == [hypothesis.tokens for hypothesis in expected]
        for ours, theirs in zip(found, expected, strict=True):
            assert ours.scores == pytest.approx(theirs.scores, abs=1e-3)


def test_an_internal_lm_is_a_language_model_with_the_scorers_numbers(whisper: WhisperRecogniser) -> None:
    made = {name: context for name, context in contexts(whisper).items() if not context.needs_encoder}
    made["constant"] = ConstantContext(torch.randn(whisper.attention.size), special_first=False)
    for context in made.values():
        lm = whisper.language_model(context)
        labels = torch.randint(0, whisper.tokenizer.end, (2, 9), generator=torch.Generator().manual_seed(0))
        expected = lm.log_probs(labels)
        scorer = LmScorer(lm, "ilm")
        memory, state = scorer.start(range(2))
        read = first_labels(2)
        for position in range(9):
            log_probs, state = scorer.step(memory, state, read)
            torch.testing.assert_close(log_probs[0], expected[:, position], atol=1e-5, rtol=1e-5)
            read, state = labels[:, position], scorer.reorder(state, torch.tensor([0, 1]))


def test_contexts_of_another_model_are_refused(whisper: WhisperRecogniser) -> None:
    with pytest.raises(ValueError, match="size 7"):
        whisper.scorer({"ilm": ConstantContext(torch.zeros(7))})


def test_what_was_heard_is_remembered_if_asked_for(whisper: WhisperRecogniser, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded, heard = whisper.listen(noises(3)), list[int]()
    hear = DecoderLayer.hear
    monkeypatch.setattr(DecoderLayer, "hear", lambda *given: heard.append(1) or hear(*given))
    kept, layers = encoded.remembering(), len(whisper.decoder.layers)
    expected = [whisper.no_speech(one) for one in (encoded, encoded)]
    assert len(heard) == 2 * 3 * layers
    found = [whisper.no_speech(one) for one in (kept, kept)]
    assert len(heard) == 3 * 3 * layers
    assert torch.equal(torch.stack(found), torch.stack(expected))
    part = torch.tensor([2, 0])
    times = [whisper.times(one.select(part[:1]), [5, 9, 70]) for one in (kept, encoded)]
    assert times[0] == times[1]
    assert torch.equal(whisper.no_speech(kept.select(part)), whisper.no_speech(encoded.select(part)))
