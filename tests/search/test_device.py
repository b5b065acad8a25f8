"""A whole search on a device that is not the CPU: the same result, one question to it at every step."""

from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import pytest
import torch
from torch import nn

from fewer.ilm.methods.mini_lstm import MiniLstmContext
from fewer.ilm.methods.seq_avg import SequenceMeanContext
from fewer.ilm.methods.state_ff import StateContext
from fewer.models import ngram as ngram_module
from fewer.models.aed_scorer import AedScorer
from fewer.models.context import ConstantContext, Context, FixedAudioContext
from fewer.models.ctc_prefix import CtcPrefixScorer
from fewer.models.encoded import Encoded
from fewer.models.hotwords import Hotwords
from fewer.models.lm import LmScorer
from fewer.models.ngram import NGram
from fewer.models.word_ngram import Piece, WordNGram
from fewer.search.beam import SearchError, SearchOptions, beam_search
from fewer.search.forced import forced_scores
from fewer.search.fusion import Fusion
from fewer.search.nbest import Hypothesis
from fewer.search.rules import Centring, EndScoredBy, NoLoops, Rule, Suppression
from fewer.search.scorer import Scorer
from tests.compute.fake_device import NAME, Counting, MixedDevices, on_fake
from tests.models.small import STATES, VOCAB, random_encoded, randomise, small_aed
from tests.models.test_ngram import random_ngrams
from tests.search.test_operations import small_lm

LENGTHS = [9, 4, 7, 3]
WORDS = [b"", b"", *(bytes([97 + index]) for index in range(6)), b"ab", b"abc"]
Make = Callable[[Callable[[Any], Any]], list[Scorer]]  # the scorers, all their modules moved by the function


def contexts(aed: Any, move: Callable[[Any], Any]) -> dict[str, Context]:
    """Every kind, by what the recogniser's methods are."""
    made: dict[str, Context] = {
        "enc_avg": ConstantContext(torch.linspace(-1, 1, 10)),
        "seq_avg": SequenceMeanContext(10),
        "mini_lstm": MiniLstmContext(4, 10, units=6),
        "state_ff": StateContext(aed.config.decoder.size, 10, units=6),
    }
    for seed, context in enumerate(made.values()):
        randomise(context, seed)
    moved = {name: move(context) for name, context in made.items()}
    silence = random_encoded([5], seed=9).states[0]
    moved["silence"] = FixedAudioContext(aed.attention, silence.to(aed.decoder.embedding.weight.device))
    return moved


def ngram(order: int = 3, seed: int = 3, vocab_size: int = VOCAB, large: bool = False) -> NGram:
    with mock.patch.object(ngram_module, "MOST_KEYS", 0 if large else 1 << 20):
        return NGram.from_ngrams(random_ngrams(seed, order, vocab_size))


def word_ngram() -> WordNGram:
    pieces = [Piece(b""), *(Piece(bytes([97 + i % 6]), starts=i < 5) for i in range(VOCAB - 1))]
    return WordNGram(NGram.from_ngrams(random_ngrams(5, 2, len(WORDS))), WORDS, pieces, unknown=1)


def hotwords() -> Hotwords:
    starts = torch.tensor([label % 3 == 1 for label in range(VOCAB)])
    phrases = {(1, 2): 1.0, (1, 2, 3): 0.5, (4,): 1.5, (4, 5, 1): 1.0, (7, 8, 7): 0.7}
    never = torch.zeros(VOCAB, dtype=torch.bool)
    return Hotwords(phrases, starts, never, never.clone())


def with_everything(state: str) -> Make:
    def scorers(move: Callable[[Any], Any]) -> list[Scorer]:
        aed = move(small_aed(state))
        lms = {"lm": small_lm("lstm"), "lm2": small_lm("transformer"), "ngram": ngram(), "word": word_ngram()}
        lms |= {"words": hotwords(), "large": ngram(large=True)}
        return [
            AedScorer(aed, contexts(aed, move)),
            CtcPrefixScorer(aed),
            *(LmScorer(move(lm), name) for name, lm in lms.items()),
        ]

    return scorers


def rules(device: str) -> list[Rule]:
    never, first = torch.zeros(VOCAB, dtype=torch.bool), torch.zeros(VOCAB, dtype=torch.bool)
    never[6], first[[0, 6]] = True, True
    suppression = Suppression(never.to(device), first.to(device))
    return [suppression, Centring(("lm",), suppression=suppression), EndScoredBy(("aed", "words", "word")), NoLoops(2)]


def fused(scorers: Sequence[Scorer], device: str) -> Fusion:
    terms = [term for scorer in scorers for term in scorer.terms]
    scales = {term: 1.0 if term == "aed" else (-1) ** place * 0.05 for place, term in enumerate(terms)}
    return Fusion(scorers, scales, rules=rules(device), device=device)


def encoded_on(device: str, lengths: list[int] = LENGTHS) -> Encoded:
    encoded = random_encoded(lengths)
    return Encoded(encoded.states.to(device), encoded.lengths.to(device))


def search(make: Make, move: Callable[[Any], Any], device: str, **options: Any) -> list[tuple[Hypothesis, ...]]:
    with torch.no_grad():
        fusion, encoded = fused(make(move), device), encoded_on(device)
        return beam_search(fusion, encoded, encoded.lengths, SearchOptions(beam=4, **options))


@pytest.mark.parametrize("state", STATES)
def test_a_search_with_every_term_and_rule_finds_the_same(state: str) -> None:
    make = with_everything(state)
    expected = search(make, lambda module: module, "cpu", label_scores=True)
    found = search(make, on_fake, NAME, label_scores=True)
    assert len({len(lists[0].tokens) for lists in expected}) > 1  # utterances end at different steps
    for ours, theirs in zip(found, expected, strict=True):
        assert [hypothesis.tokens for hypothesis in ours] == [hypothesis.tokens for hypothesis in theirs]
        for one, other in zip(ours, theirs, strict=True):
            assert one.scores == pytest.approx(other.scores, abs=1e-4)
            assert one.label_scores["aed"] == pytest.approx(other.label_scores["aed"], abs=1e-4)


def counted(make: Make, utterances: int, beam: int, steps: int) -> Counting:
    """A search of exactly so many steps."""
    with torch.no_grad():
        fusion = fused(make(on_fake), NAME)
        never_end = torch.tensor([True] + [False] * (VOCAB - 1), device=NAME)
        fusion.rules.insert(0, Suppression(never_end))
        encoded = encoded_on(NAME, [9] * utterances)
        with Counting() as count:
            lists = beam_search(fusion, encoded, torch.full_like(encoded.lengths, steps), SearchOptions(beam=beam))
    assert all(hypothesis.length == steps for hypotheses in lists for hypothesis in hypotheses)
    return count


def test_a_step_waits_once_and_sends_nothing() -> None:
    few, many = (counted(with_everything("lstm"), 3, 4, steps) for steps in (4, 7))
    assert many.waits.total() - few.waits.total() == 3  # of three more steps
    assert many.uploads == few.uploads
    before_and_after = few.waits.total() - 4
    assert before_and_after <= 7  # may any utterance have labels; five columns of the N-best lists, and the largest


def test_kernels_do_not_grow_with_beam_batch_or_ngrams() -> None:
    make = with_everything("lstm")
    small = counted(make, 2, 3, 5)
    assert counted(make, 2, 9, 5).kernels.total() == small.kernels.total()
    assert counted(make, 16, 3, 5).kernels.total() == small.kernels.total()
    assert counted(make, 16, 3, 5).waits.total() == small.waits.total()


@pytest.mark.parametrize("large", [False, True])
def test_kernels_of_an_ngram_do_not_grow_with_its_size(large: bool) -> None:
    counts = []
    for vocab_size in (16, 30):
        model = on_fake(ngram(3, 1, vocab_size, large))
        with Counting() as count, torch.inference_mode():
            model.step(model.start(5), torch.full((5,), -1, device=NAME))
        counts.append((sum(model.counts()), count.kernels.total()))
        assert not count.waits
        assert not count.uploads
    (few, kernels), (many, as_many) = counts
    assert many > 3 * few
    assert kernels == as_many


def test_hypotheses_that_are_given_score_the_same() -> None:
    make = with_everything("lstm")
    lists = search(make, lambda module: module, "cpu")
    with torch.no_grad():
        expected = forced_scores(fused(make(lambda module: module), "cpu"), encoded_on("cpu"), lists)
        found = forced_scores(fused(make(on_fake), NAME), encoded_on(NAME), lists)
    for ours, theirs in zip(found, expected, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            assert one == pytest.approx(other, abs=1e-4)


def test_an_utterance_whose_score_is_not_a_number_is_named() -> None:
    aed = on_fake(small_aed())
    encoded = encoded_on(NAME)
    encoded.states[2, 0] = float("nan")
    with pytest.raises(SearchError, match=r"utterance 2 of the batch.*'aed'"):
        beam_search(Fusion([AedScorer(aed)], {"aed": 1.0}, device=NAME), encoded, encoded.lengths)


def test_the_fake_device_would_notice() -> None:
    """Mixed devices, and each way of waiting for the device."""
    here, there = torch.arange(4), torch.arange(4).to(NAME)
    with pytest.raises(MixedDevices):
        there + here
    with pytest.raises(MixedDevices):
        there[here]
    with pytest.raises(MixedDevices):
        nn.Linear(4, 4).to(NAME)(torch.zeros(4))
    waits: list[Callable[[], Any]] = [
        lambda: bool((there > 2).any()),
        lambda: there.nonzero(),
        lambda: there[there > 1],
        lambda: there.tolist(),
        lambda: there.to("cpu"),
        lambda: there.unique(),
        lambda: torch.repeat_interleave(there),
        lambda: here.clone().copy_(there),
    ]
    for wait in waits:
        with Counting() as count:
            wait()
        assert count.waits.total() == 1
    with Counting() as count:
        torch.tensor([1, 2], device=NAME)
        here.to(NAME)
        torch.zeros(3, device=NAME)
        torch.repeat_interleave(there, output_size=6)
    assert count.uploads.total() == 2
    assert not count.waits
