"""What the beam search promises, against enumeration and across batches."""

import itertools
import math
from collections.abc import Sized

import pytest
import torch

from fewer.errors import FewerError
from fewer.models.hotwords import Hotwords
from fewer.models.lm import LmScorer
from fewer.search.beam import SearchOptions, beam_search
from fewer.search.fusion import Fusion
from fewer.search.nbest import LengthPolicy
from fewer.search.rules import EndScoredBy, NoLoops, Suppression, log_of_rest, repeats
from fewer.search.scorer import TreeState
from tests.search.toys import TableScorer

VOCAB, LIMIT, UTTERANCES = 4, 4, 3
POLICIES = [LengthPolicy(), LengthPolicy(0.6), LengthPolicy(0.0), LengthPolicy(0.0, reward=0.7)]


def scorers() -> list[TableScorer]:
    return [TableScorer(UTTERANCES, VOCAB, "aed", 1), TableScorer(UTTERANCES, VOCAB, "lm", 2, 0.5)]


SCALES = {"aed": 1.0, "lm": 0.4}


def every_sequence() -> list[tuple[int, ...]]:
    """All label sequences that end with the end label 0 within the limit, or are as long as allowed without one."""
    ended = [(*rest, 0) for n in range(LIMIT) for rest in itertools.product(range(1, VOCAB), repeat=n)]
    return ended + list(itertools.product(range(1, VOCAB), repeat=LIMIT))


@pytest.mark.parametrize("policy", POLICIES)
def test_a_wide_beam_finds_the_exact_best_sequence(policy: LengthPolicy) -> None:
    terms = scorers()
    options = SearchOptions(beam=300, length=policy)
    found = beam_search(Fusion(terms, SCALES), range(UTTERANCES), torch.full((UTTERANCES,), LIMIT), options)
    for utterance in range(UTTERANCES):
        scored = {}
        for labels in every_sequence():
            total = sum(SCALES[t.terms[0]] * sum(t.score(utterance, labels)) for t in terms)
            scored[labels] = policy.score(total, len(labels))
        ranking = sorted(scored, key=lambda labels: -scored[labels])
        hypotheses = found[utterance]
        assert len(hypotheses) == len(scored)
        for labels, hypothesis in zip(ranking[:20], hypotheses, strict=False):
            assert hypothesis.tokens == tuple(label for label in labels if label)
            assert hypothesis.ended == (labels[-1] == 0)
            assert hypothesis.length == len(labels)
            assert hypothesis.score == pytest.approx(scored[labels], abs=1e-5)
            for term in terms:
                assert hypothesis.scores[term.terms[0]] == pytest.approx(sum(term.score(utterance, labels)), abs=1e-5)
            assert hypothesis.rescored(SCALES, policy) == pytest.approx(hypothesis.score, abs=1e-5)


def test_an_utterance_alone_gives_the_same_list_as_in_a_batch() -> None:
    limits = torch.tensor([9, 5, 7])
    together = beam_search(Fusion(scorers(), SCALES), range(3), limits, SearchOptions(beam=3))
    for utterance in range(3):
        alone = scorers()
        for scorer in alone:
            scorer.table = scorer.table[utterance : utterance + 1]
        single = beam_search(Fusion(alone, SCALES), range(1), limits[utterance : utterance + 1], SearchOptions(beam=3))
        assert [h.tokens for h in single[0]] == [h.tokens for h in together[utterance]]


def test_terms_that_do_not_score_the_end_label_add_nothing_at_the_end() -> None:
    terms = scorers()
    fusion = Fusion(terms, SCALES, rules=[EndScoredBy(["aed"])])
    hypothesis = beam_search(fusion, range(3), torch.full((3,), 8), SearchOptions(beam=20))[0][0]
    assert hypothesis.ended
    expected = sum(terms[1].score(0, [*hypothesis.tokens, 0])[:-1])
    assert hypothesis.scores["lm"] == pytest.approx(expected, abs=1e-5)


def test_suppressed_labels_never_come_and_every_term_is_renormalised() -> None:
    terms = scorers()
    suppress = torch.tensor([False, False, True, False])
    first = torch.tensor([True, False, True, False])  # no empty transcript
    fusion = Fusion(terms, {"aed": 1.0, "lm": -0.4}, rules=[Suppression(suppress, first)])
    for utterance, hypotheses in enumerate(beam_search(fusion, range(3), torch.full((3,), 6), SearchOptions(beam=30))):
        assert all(hypothesis.tokens and 2 not in hypothesis.tokens for hypothesis in hypotheses)
        best = hypotheses[0]
        history, expected = [-1, -1], 0.0
        for i, label in enumerate([*best.tokens, 0] if best.ended else best.tokens):
            row = terms[1].table[utterance, history[0], history[1]]
            allowed = row[~(first if i == 0 else suppress)]
            expected += float(row[label] - allowed.logsumexp(0))
            history = [history[1], label]
        assert best.scores["lm"] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("scale", [math.nan, math.inf, "0.3"])
def test_a_scale_that_is_not_a_number_is_refused(scale: object) -> None:
    with pytest.raises(FewerError, match="scale of 'lm'"):
        Fusion(scorers(), {"aed": 1.0, "lm": scale})  # type: ignore[dict-item]


def test_vocabulary_mismatch_names_both_sides() -> None:
    with pytest.raises(FewerError, match=r"'lm' has 5 labels but 'aed' has 4: .* own tokens$"):
        Fusion([TableScorer(1, 4), TableScorer(1, 5, "lm")], {"aed": 1.0})


def test_a_score_that_is_not_a_number_names_its_term() -> None:
    aed, lm = scorers()
    lm.table[1, 2] = math.nan
    with pytest.raises(FewerError, match=r"utterance 1 of the batch.*term 'lm'"):
        beam_search(Fusion([aed, lm], SCALES), range(3), torch.full((3,), 6), SearchOptions(beam=4))


@pytest.mark.parametrize("options", [{"beam": 0}, {"n_best": 0}, {"max_length": -1}])
def test_search_options_below_one_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(FewerError, match=f"{next(iter(options))} is"):
        SearchOptions(**options)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_length_policy_is_made_of_numbers(value: float) -> None:
    with pytest.raises(FewerError, match="length reward"):
        LengthPolicy(0.0, value)
    with pytest.raises(FewerError, match="length exponent"):
        LengthPolicy(value)


def test_an_empty_utterance_is_an_error() -> None:
    with pytest.raises(FewerError, match="utterance 1"):
        beam_search(Fusion(scorers(), SCALES), range(3), torch.tensor([3, 0, 4]), SearchOptions())


def test_what_suppressed_labels_leave_is_exact_however_much_they_have() -> None:
    log_probs = torch.tensor([[[0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 30.0, 3.0]]]).log_softmax(-1)
    kept = torch.tensor([True, True, False, True])
    expected = log_probs[..., kept].logsumexp(-1, keepdim=True)
    torch.testing.assert_close(log_of_rest(log_probs, (~kept).nonzero().flatten()), expected)


@pytest.mark.parametrize(
    ("labels", "longest", "expected"),
    [
        ([1] * 7, 4, True),
        ([1] * 6, 4, False),
        ([9, 1, 2, 1, 2, 1, 2, 1, 2], 4, True),
        ([1, 2, 1, 2, 1, 2], 4, False),
        ([1, 2, 3] * 3, 4, True),
        ([1, 2, 3] * 3, 2, False),
        ([1, 2, 3] * 3 + [1], 4, True),
        ([1, 2, 3] * 3 + [4], 4, False),
        ([1, 2, 3, 4, 5] * 2, 8, False),
        ([], 8, False),
        (([1, 2, 3, 4] * 2 + [1, 2, 3, 5]) * 2 + [1, 2, 3, 6, 1, 2, 3, 7], 4, True),  # with another comma
        ([label for new in range(10, 20) for label in (1, 2, 3, new)], 4, False),  # in every battle, in every march
        ([*range(20, 29), *range(20, 22), *range(23, 29)] * 3, 8, True),  # I'm not going to talk. I'm going to talk.
        ([*range(20, 29), *range(20, 22), *range(23, 29)] * 2, 8, False),
    ],
)
def test_what_counts_as_a_loop(labels: list[int], longest: int, expected: bool) -> None:
    assert bool(repeats(torch.tensor(labels, dtype=torch.long), longest)) is expected


class Stutter(TreeState):
    """Whatever it has read, label 1 is likely, 2 less, and the end least."""

    terms = ("aed",)
    vocab_size = 3

    def start(self, encoded: Sized) -> tuple[None, torch.Tensor]:
        return None, torch.zeros(len(encoded), 1)

    def step(self, memory: None, state: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        probabilities = torch.tensor([0.001, 0.989, 0.01])
        return probabilities.log().expand(1, len(labels), 3), torch.zeros(len(labels), 1)


@pytest.mark.parametrize("beam", [1, 4])
def test_a_loop_that_pays_is_left_where_loops_are_not_allowed(beam: int) -> None:
    options = SearchOptions(beam=beam, length=LengthPolicy(0.0, reward=1.0))
    limits = torch.tensor([40, 40])
    allowed = beam_search(Fusion([Stutter()], {"aed": 1.0}), range(2), limits, options)
    forbidden = beam_search(Fusion([Stutter()], {"aed": 1.0}, rules=[NoLoops(3)]), range(2), limits, options)
    assert allowed[0][0].tokens == (1,) * 40
    assert not allowed[0][0].ended
    for hypotheses in forbidden:
        assert hypotheses
        for hypothesis in hypotheses:
            assert all(not repeats(torch.tensor(hypothesis.tokens[:n]), 3) for n in range(len(hypothesis.tokens)))
    if beam == 1:  # there is no other, so it ends
        assert forbidden[0][0].tokens == (1,) * 7
        assert forbidden[0][0].ended


def test_where_nothing_loops_the_lists_are_the_same() -> None:
    limits = torch.full((UTTERANCES,), 6)
    plain, guarded = (
        beam_search(Fusion(scorers(), SCALES, rules=rules), range(UTTERANCES), limits, SearchOptions(beam=3))
        for rules in ([], [NoLoops(8)])
    )
    assert plain == guarded


class Reading(TreeState):
    """A recogniser that hears 1, 2, … 30, is sure of each, and may break off anywhere."""

    terms = ("aed",)
    vocab_size = 32

    def start(self, encoded: Sized) -> tuple[None, torch.Tensor]:
        return None, torch.zeros(len(encoded), 1)

    def step(self, memory: None, state: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        probabilities = torch.full((len(labels), 32), 1e-4)
        probabilities[:, 0] = 0.1
        following = torch.where(labels < 0, 1, (labels + 1) % 31)  # the end after 30
        probabilities.scatter_(1, following[:, None], 0.9)
        return (probabilities / probabilities.sum(1, keepdim=True)).log()[None], state


def rewarded(hotwords: dict[tuple[int, ...], float]) -> Fusion:
    words = torch.ones(32, dtype=torch.bool)
    return Fusion([Reading(), LmScorer(Hotwords(hotwords, words, ~words, ~words), "words")], {"aed": 1.0, "words": 1.0})


@pytest.mark.parametrize("weight", [0.5, 1.0, 2.5])
@pytest.mark.parametrize("exponent", [1.0, 1.5])
def test_no_hypothesis_breaks_off_behind_its_hotwords(weight: float, exponent: float) -> None:
    policy = LengthPolicy(exponent)
    fusion, limits = rewarded({(label,): weight for label in (1, 2, 3)}), torch.tensor([60, 60])
    alone = Fusion([Reading()], {"aed": 1.0})
    for hypotheses in beam_search(fusion, range(2), limits, SearchOptions(5, policy)):
        (plain,) = beam_search(alone, range(1), limits[:1], SearchOptions(5, policy))
        assert hypotheses[0].tokens == plain[0].tokens == tuple(range(1, 31))
        assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)
        for hypothesis in hypotheses:
            assert hypothesis.rescored(fusion.scales, policy) == pytest.approx(hypothesis.score, abs=1e-6)
            assert hypothesis.scores["words"] <= 3 * weight + 1e-6


def test_a_hotword_still_decides_between_hypotheses_of_like_length() -> None:
    (found,) = beam_search(rewarded({(31,): 9.0}), range(1), torch.tensor([60]), SearchOptions(5, LengthPolicy(1.5)))
    assert 31 in found[0].tokens


def test_label_scores_of_hotwords_add_up_to_what_counts() -> None:
    options = SearchOptions(5, LengthPolicy(1.5), label_scores=True)
    (found,) = beam_search(rewarded({(1,): 1.0, (2,): 1.0}), range(1), torch.tensor([60]), options)
    assert len({h.scores["words"] for h in found}) > 1  # that of a shorter one counts less
    for hypothesis in found:
        assert sum(hypothesis.label_scores["words"]) == pytest.approx(hypothesis.scores["words"], abs=1e-6)
