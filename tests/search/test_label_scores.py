"""Scores of single labels."""

import pytest
import torch

from fewer.search.beam import SearchOptions, beam_search
from fewer.search.fusion import Fusion
from fewer.search.nbest import Header, NBest, read_nbest, write_nbest
from tests.search.test_beam import SCALES, scorers


def test_every_terms_label_scores_add_up_to_its_score() -> None:
    options = SearchOptions(beam=4, label_scores=True)
    lists = beam_search(Fusion(scorers(), SCALES), range(3), torch.tensor([3, 5, 8]), options)
    assert {len(h.tokens) for hypotheses in lists for h in hypotheses} > {2, 5}
    for hypothesis in (h for hypotheses in lists for h in hypotheses):
        for term, score in hypothesis.scores.items():
            assert len(hypothesis.label_scores[term]) == hypothesis.length
            assert sum(hypothesis.label_scores[term]) == pytest.approx(score, abs=1e-9)


def test_they_change_no_search_and_are_not_written(tmp_path) -> None:
    def search(label_scores: bool):
        options = SearchOptions(beam=4, label_scores=label_scores)
        return beam_search(Fusion(scorers(), SCALES), range(3), torch.full((3,), 6), options)

    kept, plain = search(True), search(False)
    assert kept == plain
    assert all(h.label_scores == {} for hypotheses in plain for h in hypotheses)
    write_nbest(tmp_path / "n.jsonl", Header(("aed", "lm"), SCALES), [NBest("u", kept[0])])
    (read,) = read_nbest(tmp_path / "n.jsonl")
    assert read == NBest("u", plain[0])
    assert "label_scores" not in (tmp_path / "n.jsonl").read_text()
