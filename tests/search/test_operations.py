"""The search's cost: operations per step do not depend on how many hypotheses there are."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fewer.ilm.methods.mini_lstm import MiniLstmContext
from fewer.ilm.methods.seq_avg import SequenceMeanContext
from fewer.ilm.methods.state_ff import StateContext
from fewer.models.aed_scorer import AedScorer
from fewer.models.context import ConstantContext, Context
from fewer.models.ctc_prefix import CtcPrefixScorer
from fewer.models.lm import LmScorer, LstmLm, LstmLmConfig, TransformerLm, TransformerLmConfig
from fewer.search.beam import SearchOptions, beam_search
from fewer.search.fusion import Fusion
from fewer.search.scorer import Scorer
from tests.models.small import VOCAB, random_encoded, randomise, small_aed
from tests.search.toys import TableScorer

STEPS = 6


class OperationCount(TorchDispatchMode):
    """Counts every torch operation that runs inside it."""

    operations = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operations += 1
        return func(*args, **(kwargs or {}))


def count(scorers: Sequence[Scorer], scales: dict[str, float], encoded: Any, beam: int, steps: int) -> int:
    """Operations of a whole search over `steps` steps."""
    with OperationCount() as count, torch.no_grad():
        limits = torch.full((len(encoded),), steps)
        found = beam_search(Fusion(scorers, scales), encoded, limits, SearchOptions(beam=beam))
    assert all(len(hypotheses) == beam for hypotheses in found)
    assert all(hypothesis.length == steps for hypotheses in found for hypothesis in hypotheses)
    return count.operations


def test_the_search_itself() -> None:
    def operations(utterances: int, beam: int) -> int:
        term = TableScorer(utterances, 50, seed=3)
        term.table[..., 0] = -1e3  # never ends before the limit
        return count([term], {"aed": 1.0}, range(utterances), beam, STEPS)

    assert operations(16, 12) == operations(2, 2)


CONTEXTS: dict[str, Context] = {
    "enc_avg": ConstantContext(torch.linspace(-1, 1, 10)),
    "seq_avg": SequenceMeanContext(10),
    "mini_lstm": MiniLstmContext(4, 10, units=6),
    "state_ff": StateContext(8, 10, units=6),
}


@pytest.mark.parametrize("lm_kind", ["lstm", "transformer"])
@pytest.mark.parametrize("method", CONTEXTS)
def test_a_recogniser_with_internal_and_external_lm(method: str, lm_kind: str) -> None:
    aed, context, lm = small_aed(), CONTEXTS[method], small_lm(lm_kind)
    randomise(context, 7)
    with torch.no_grad():
        aed.decoder.output.bias[0] = -1e3  # never ends before the limit
        lm.output.bias[0] = 0.0
    scorers: list[Scorer] = [AedScorer(aed, {"ilm": context}), LmScorer(lm)]
    scales = {"aed": 1.0, "lm": 0.3, "ilm": -0.1}

    def operations(utterances: int, beam: int, steps: int = STEPS) -> int:
        return count(scorers, scales, random_encoded([9] * utterances), beam, steps)

    small = operations(2, 3)
    assert operations(2, 12) == small
    assert operations(16, 3) == small
    assert operations(16, 12) == small
    steps = [operations(3, 4, n) for n in (4, 5, 6, 7)]
    assert len({after - before for before, after in pairwise(steps)}) == 1


def test_ctc_prefix_scores() -> None:
    aed = small_aed()
    with torch.no_grad():
        aed.decoder.output.bias[0] = -1e3
    scorers: list[Scorer] = [AedScorer(aed), CtcPrefixScorer(aed)]

    def operations(utterances: int, beam: int) -> int:
        return count(scorers, {"aed": 1.0, "ctc": 0.3}, random_encoded([9] * utterances), beam, STEPS)

    assert operations(16, 10) == operations(2, 3)


def small_lm(kind: str) -> LstmLm | TransformerLm:
    lm: LstmLm | TransformerLm
    if kind == "lstm":
        lm = LstmLm(LstmLmConfig(vocab_size=VOCAB, embedding=4, size=6, layers=2))
    else:
        lm = TransformerLm(
            TransformerLmConfig(vocab_size=VOCAB, layers=2, size=8, feed_forward=8, heads=2, embedding=4)
        )
    randomise(lm)
    return lm.eval()
