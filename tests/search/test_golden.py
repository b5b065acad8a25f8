"""Beam search finds the paper's toolkit's hypotheses, with its scores to 1e-4."""

import pytest
import torch

from fewer.models.aed_scorer import AedScorer
from fewer.models.lm import LmScorer
from fewer.search.beam import SearchOptions, beam_search
from fewer.search.fusion import Fusion
from tests.golden.golden import arrays, encoded, golden_aed, golden_lstm_lm, golden_mini_lstm, golden_transformer_lm


def fusion_of(system: str) -> Fusion:
    if system == "aed":
        return Fusion([AedScorer(golden_aed())], {"aed": 1.0})
    lm = golden_lstm_lm("beam") if system == "lstmlm" else golden_transformer_lm("beam")
    scorers = [AedScorer(golden_aed(), {"ilm": golden_mini_lstm()}), LmScorer(lm)]
    return Fusion(scorers, {"aed": 1.0, "lm": 0.5, "ilm": -0.3})


@pytest.mark.parametrize("batch", ["A", "B"])
@pytest.mark.parametrize("system", ["aed", "lstmlm", "tlm"])
def test_hypotheses_and_scores(system: str, batch: str) -> None:
    golden, states = arrays("beam"), encoded(batch)
    limit = states.states.shape[1]
    ours = beam_search(fusion_of(system), states, torch.full((3,), limit), SearchOptions(beam=4))
    sequences, lengths = golden[f"{batch}:{system}:seqs"], golden[f"{batch}:{system}:lens"]
    longest = int(lengths.max())
    for b in range(3):
        assert len(ours[b]) == 4
        for k, hypothesis in enumerate(ours[b]):
            n = int(lengths[b, k])
            assert list(hypothesis.tokens) == sequences[b, k, :n].tolist()
            assert hypothesis.ended == (n < limit)
            score = hypothesis.score
            if longest == limit:  # the toolkit normalises by its loop's length once the limit was hit
                score = score * longest / (longest + 1)
            assert score == pytest.approx(float(golden[f"{batch}:{system}:scores"][b, k]), abs=1e-4)
