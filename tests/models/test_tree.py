"""States that rows share: products of the parents, results of the rows."""

import pytest
import torch
from torch import Tensor

from fewer.models.aed_scorer import AedScorer
from fewer.models.context import ZeroContext
from fewer.models.lm import LmScorer, LstmLm, LstmLmConfig
from fewer.models.tree import Parents, select_rows
from fewer.search.beam import SearchOptions, beam_search
from fewer.search.fusion import Fusion
from tests.models.small import STATES, VOCAB, random_encoded, randomise, small_aed


def test_parents_are_kept_once_and_give_every_row_its_own() -> None:
    values = torch.arange(10.0).view(5, 2)
    rows = torch.tensor([[3, 3, 0], [4, 3, 4]])
    parents = select_rows((Parents((values, None)), values), rows)[0]
    assert parents.tree[0].tolist() == values[[0, 3, 4]].tolist()
    assert parents.tree[1] is None
    assert parents.to_rows(2 * parents.tree[0]).tolist() == (2 * values[rows.flatten()]).tolist()
    again = parents.select_rows(torch.tensor([5, 1, 1]))
    assert again.tree[0].tolist() == values[[3, 4]].tolist()
    assert again.to_rows(again.tree[0]).tolist() == values[[4, 3, 3]].tolist()


def test_rows_that_were_never_reordered_are_their_own_parents() -> None:
    values = torch.arange(4.0)
    assert Parents(values).to_rows(values) is values
    nothing = Parents(values).select_rows(torch.zeros(0, 3, dtype=torch.long))
    assert nothing.to_rows(nothing.tree).shape == (0,)


def plain_rows(parents: Parents, rows: Tensor) -> Parents:
    return Parents(select_rows(parents.tree, rows))


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("state", STATES)
def test_a_search_finds_what_it_finds_with_every_row_its_own_parent(
    state: str, layers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    aed, encoded = small_aed(state), random_encoded([7, 4, 5])
    lm = LstmLm(LstmLmConfig(vocab_size=VOCAB, embedding=4, size=6, layers=layers)).eval()
    randomise(lm)
    fusion = Fusion([AedScorer(aed, {"ilm": ZeroContext(10)}), LmScorer(lm)], {"aed": 1.0, "lm": 0.4, "ilm": -0.3})

    def search() -> list:
        return beam_search(fusion, encoded, torch.tensor([7, 4, 5]), SearchOptions(beam=4))

    found = search()
    monkeypatch.setattr(Parents, "select_rows", plain_rows)
    for ours, plain in zip(found, search(), strict=True):
        assert [h.tokens for h in ours] == [h.tokens for h in plain]
        for one, other in zip(ours, plain, strict=True):
            assert one.scores == pytest.approx(other.scores, abs=1e-5)


def test_products_are_taken_of_parents_only() -> None:
    aed = small_aed()
    scorer, lm = AedScorer(aed), LmScorer(LstmLm(LstmLmConfig(vocab_size=VOCAB, embedding=4, size=6)).eval())
    memory, state = scorer.start(random_encoded([7, 4]))
    _, lm_state = lm.start(range(2))
    rows = torch.tensor([[0, 0, 0], [1, 1, 1]])
    labels = torch.tensor([1, 2, 3, 1, 2, 3])
    with torch.no_grad():
        _, state = scorer.step(memory, state, torch.full((2,), -1))
        _, lm_state = lm.step(None, lm_state, torch.full((2,), -1))
        scores, new = scorer.step(memory, scorer.reorder(state, rows), labels)
    assert scorer.reorder(state, rows).parents.tree[1].shape[0] == 2
    assert lm.reorder(lm_state, rows)[0][0].tree.shape[0] == 2
    assert scores.shape[1] == new.cell.shape[0] == 6
