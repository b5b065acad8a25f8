"""Given hypotheses get the scores that the search gave them."""

from dataclasses import replace

import pytest
import torch

from fewer.search.beam import SearchOptions, beam_search
from fewer.search.forced import add_terms, forced_scores
from fewer.search.fusion import Fusion
from fewer.search.nbest import NBest
from fewer.search.rules import EndScoredBy, Suppression
from tests.search.toys import TableScorer

UTTERANCES, LABELS = 3, 5


@pytest.mark.parametrize("end_scored_by", [None, ["aed"]])
@pytest.mark.parametrize("suppressed", [None, 3])
def test_forced_scores_are_the_searchs_own(end_scored_by: list[str] | None, suppressed: int | None) -> None:
    scorers = [TableScorer(UTTERANCES, LABELS, term, seed) for seed, term in enumerate(("aed", "lm", "ilm"))]
    suppress = None if suppressed is None else torch.arange(LABELS) == suppressed

    def fusion(scales: dict[str, float], terms: list[TableScorer]) -> Fusion:
        by = None if end_scored_by is None else [term for term in end_scored_by if term in [t.terms[0] for t in terms]]
        rules = [Suppression(suppress), *([] if by is None else [EndScoredBy(by)])]
        return Fusion(terms, scales, rules=rules)

    limits = torch.tensor([3, 5, 4])
    lists = beam_search(
        fusion({"aed": 1.0, "lm": 0.4, "ilm": -0.2}, scorers), range(UTTERANCES), limits, SearchOptions(4)
    )
    lists[1] = lists[1][:2]
    assert any(not hypothesis.ended for hypotheses in lists for hypothesis in hypotheses)
    only = forced_scores(fusion({}, [scorers[2]]), range(UTTERANCES), lists)
    both = forced_scores(fusion({}, scorers[:2]), range(UTTERANCES), lists)
    for hypotheses, ilm, rest in zip(lists, only, both, strict=True):
        assert len(hypotheses) == len(ilm) == len(rest)
        for hypothesis, a, b in zip(hypotheses, ilm, rest, strict=True):
            assert a | b == pytest.approx(hypothesis.scores, abs=1e-5)


def test_terms_that_lists_lack_are_added_in_any_order_of_batches() -> None:
    scorers = [TableScorer(UTTERANCES, LABELS, term, seed) for seed, term in enumerate(("aed", "ilm"))]
    limits = torch.full((UTTERANCES,), 5)
    found = beam_search(Fusion(scorers, {"aed": 1.0}), range(UTTERANCES), limits, SearchOptions(3))
    lists = [NBest(f"u{n}", hypotheses, "ref", "speaker") for n, hypotheses in enumerate(found)]
    bare = [
        replace(nbest, hypotheses=tuple(replace(h, scores={"aed": h.scores["aed"]}) for h in nbest.hypotheses))
        for nbest in lists
    ]
    batches = [(["u0", "u1", "u2"], range(UTTERANCES))]
    again = add_terms(Fusion([scorers[1]], {}), batches, bare[::-1])
    assert [nbest.id for nbest in again] == ["u2", "u1", "u0"]
    for nbest, original in zip(again[::-1], lists, strict=True):
        assert (nbest.ref, nbest.speaker) == ("ref", "speaker")
        for hypothesis, before in zip(nbest.hypotheses, original.hypotheses, strict=True):
            assert hypothesis.scores == pytest.approx(before.scores, abs=1e-5)
            assert replace(hypothesis, scores={}) == replace(before, scores={})
