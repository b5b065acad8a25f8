"""Each rule of the search against what it says in plain loops over labels."""

import itertools
from collections.abc import Sequence, Sized

import pytest
import torch
from torch import Tensor

from fewer.errors import FewerError
from fewer.search.beam import SearchOptions, beam_search
from fewer.search.forced import forced_scores
from fewer.search.fusion import Fusion
from fewer.search.nbest import LengthPolicy
from fewer.search.rules import Centring, EndScoredBy, Mixing, Rule, Step, Suppression
from fewer.search.scorer import TreeState, first_labels
from tests.search.toys import TableScorer

UTTERANCES, LABELS, LIMIT, END = 3, 5, 4, 0
SCALES = {"aed": 1.0, "lm": 0.6, "ilm": -0.4}
SUPPRESSED, FIRST = torch.tensor([False, False, False, True, False]), torch.tensor([True, False, False, True, False])


def scorers() -> list[TableScorer]:
    return [TableScorer(UTTERANCES, LABELS, term, seed) for seed, term in enumerate(SCALES)]


def centring(end_by: list[str] | None) -> list[Rule]:
    """As a search with Whisper composes them."""
    suppression = Suppression(SUPPRESSED, FIRST)
    rules: list[Rule] = [suppression, Centring(suppression=suppression, end_scored_by=end_by)]
    return rules if end_by is None else [*rules, EndScoredBy(end_by)]


def oracle(utterance: int, labels: Sequence[int], end_by: list[str] | None) -> dict[str, float]:
    """Centred sums of every term, label by label, from renormalised probabilities."""
    sums, history = dict.fromkeys(SCALES, 0.0), (-1, -1)
    for place, label in enumerate(labels):
        gone = FIRST if place == 0 else SUPPRESSED
        allowed = [v for v in range(LABELS) if not gone[v]]
        rows = {t.terms[0]: t.table[utterance, history[0], history[1]].double() for t in scorers()}
        said = {
            term: {v: float(row[v] - torch.logsumexp(row[allowed], 0)) for v in allowed} for term, row in rows.items()
        }
        expected = {v: float(torch.tensor(said["aed"][v]).exp()) for v in allowed}
        for term, scores in said.items():
            silent = end_by is not None and term not in end_by
            if term == "aed":
                sums[term] += scores[label]
            elif not (silent and label == END):
                counted = [v for v in allowed if not (silent and v == END)]
                mean = sum(expected[v] * scores[v] for v in counted) / sum(expected[v] for v in counted)
                sums[term] += scores[label] - mean
        history = (history[1], label)
    return sums


def every_sequence() -> list[tuple[int, ...]]:
    """All that the search may find within the limit: no suppressed label, not empty."""
    said = [label for label in range(1, LABELS) if not SUPPRESSED[label]]
    ended = [(*rest, END) for n in range(1, LIMIT) for rest in itertools.product(said, repeat=n)]
    return ended + list(itertools.product(said, repeat=LIMIT))


@pytest.mark.parametrize("end_by", [None, ["aed"], ["aed", "lm"]])
def test_a_wide_beam_finds_the_best_sequence_of_centred_scores(end_by: list[str] | None) -> None:
    policy = LengthPolicy(0.0, 0.2)
    fusion = Fusion(scorers(), SCALES, END, centring(end_by))
    found = beam_search(fusion, range(UTTERANCES), torch.full((UTTERANCES,), LIMIT), SearchOptions(300, policy))
    for utterance, hypotheses in enumerate(found):
        scored = {labels: oracle(utterance, labels, end_by) for labels in every_sequence()}
        totals = {
            labels: sum(SCALES[term] * score for term, score in terms.items()) + 0.2 * len(labels)
            for labels, terms in scored.items()
        }
        assert len(hypotheses) == len(scored)
        for labels, hypothesis in zip(sorted(totals, key=lambda labels: -totals[labels]), hypotheses, strict=True):
            assert hypothesis.score == pytest.approx(totals[labels], abs=1e-4)
            if hypothesis is hypotheses[0]:
                assert hypothesis.tokens == tuple(label for label in labels if label != END)
                assert hypothesis.scores == pytest.approx(scored[labels], abs=1e-4)


def test_given_hypotheses_get_the_centred_scores_of_the_search() -> None:
    fusion = Fusion(scorers(), SCALES, END, centring(["aed"]))
    lists = beam_search(fusion, range(UTTERANCES), torch.tensor([4, 9, 6]), SearchOptions(4))
    again = forced_scores(fusion, range(UTTERANCES), lists)
    for hypotheses, scores in zip(lists, again, strict=True):
        for hypothesis, found in zip(hypotheses, scores, strict=True):
            assert found == pytest.approx(hypothesis.scores, abs=1e-5)
            assert hypothesis.rescored(SCALES, LengthPolicy()) == pytest.approx(hypothesis.score, abs=1e-5)


def test_an_utterance_alone_is_centred_as_in_a_batch() -> None:
    limits = torch.tensor([9, 5, 7])
    together = beam_search(Fusion(scorers(), SCALES, END, centring(["aed"])), range(3), limits, SearchOptions(3))
    for utterance in range(3):
        alone = scorers()
        for scorer in alone:
            scorer.table = scorer.table[utterance : utterance + 1]
        fusion = Fusion(alone, SCALES, END, centring(["aed"]))
        single = beam_search(fusion, range(1), limits[utterance : utterance + 1], SearchOptions(3))
        assert [h.tokens for h in single[0]] == [h.tokens for h in together[utterance]]
        assert [h.score for h in single[0]] == pytest.approx([h.score for h in together[utterance]], abs=1e-5)


def test_rules_do_not_change_what_a_scorer_owns() -> None:
    scorer = TableScorer(UTTERANCES, LABELS)
    before = scorer.table.clone()
    fusion = Fusion([scorer], {"aed": 1.0}, END, [Suppression(SUPPRESSED), EndScoredBy([])])
    beam_search(fusion, range(UTTERANCES), torch.full((UTTERANCES,), 5), SearchOptions(3))
    assert torch.equal(scorer.table, before)


class Jumping(TreeState):
    """A recogniser that hears 1, 2, … 8 and is sure of each; at any place it may jump to the last one."""

    terms = ("aed",)
    vocab_size = 10

    def start(self, encoded: Sized) -> tuple[None, Tensor]:
        return None, first_labels(len(encoded))

    def step(self, memory: None, state: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        following = torch.where(labels < 0, 1, (labels + 1) % 9)  # the end after 8
        probabilities = torch.full((len(labels), 10), 0.001)
        probabilities[:, 8] = 0.02
        probabilities.scatter_(1, following[:, None], 0.97)
        return (probabilities / probabilities.sum(1, keepdim=True)).log()[None], labels


class Constant(TreeState):
    """A language model that finds everything unlikely that was said, and 9, which was not, likely."""

    terms = ("lm",)
    vocab_size = 10

    def start(self, encoded: Sized) -> tuple[None, Tensor]:
        return None, first_labels(len(encoded))

    def step(self, memory: None, state: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        probabilities = torch.full((1, len(labels), 10), 0.01)
        probabilities[:, :, 9] = 0.91
        return probabilities.log(), labels


def test_a_language_model_that_is_centred_does_not_reward_skipping() -> None:
    said = tuple(range(1, 9))
    options, limits = SearchOptions(5, LengthPolicy(0.0)), torch.tensor([20])
    fused = [Jumping(), Constant()]
    alone = Fusion(fused[:1], {"aed": 1.0}, END)
    skipping = Fusion(fused, {"aed": 1.0, "lm": 0.3}, END, [EndScoredBy(["aed"])])
    centred = Fusion(fused, {"aed": 1.0, "lm": 0.3}, END, [Centring(end_scored_by=["aed"]), EndScoredBy(["aed"])])
    best = [beam_search(fusion, range(1), limits, options)[0][0].tokens for fusion in (alone, skipping, centred)]
    assert best == [said, (8,), said]


def test_a_mixture_is_one_of_probabilities_and_bounds_what_the_lm_takes_away() -> None:
    torch.manual_seed(0)
    spread = torch.tensor([1.0, 20.0, 1.0])[:, None, None]  # this LM is very sure, and often wrong
    log_probs = (spread * torch.randn(3, 50, 12)).log_softmax(-1)
    before, share = log_probs.clone(), 0.3
    Mixing(share).score(log_probs, Step(("aed", "lm", "ilm"), (True, True, True), END, False))
    assert torch.equal(log_probs[[0, 2]], before[[0, 2]])
    torch.testing.assert_close(log_probs[1].exp(), share * before[1].exp() + (1 - share) * before[2].exp())
    torch.testing.assert_close(log_probs[1].exp().sum(-1), torch.ones(50))
    assert float((before[1] - before[2]).min()) < -20
    assert float((log_probs[1] - log_probs[2]).min()) >= torch.tensor(1 - share).log() - 1e-5


def test_there_is_no_mixture_without_an_internal_lm_or_with_scores_of_words() -> None:
    log_probs = torch.randn(2, 4, 6).log_softmax(-1)
    before = log_probs.clone()
    Mixing(0.5).score(log_probs, Step(("aed", "lm"), (True, True), END, False))
    Mixing(0.5).score(log_probs, Step(("ilm", "lm"), (True, False), END, False))
    assert torch.equal(log_probs, before)
    for share in (0.0, 1.0, 1.5):
        with pytest.raises(FewerError, match="between 0 and 1"):
            Mixing(share)
