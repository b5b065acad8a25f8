"""What a search computes in another way than training does is the same."""

import pytest
import torch

from fewer.models.attention import additive_energies
from fewer.models.lstm import Lstm, lstm_pointwise


def test_an_lstm_says_the_same_without_gradients_and_leaves_its_old_state_alone() -> None:
    torch.manual_seed(0)
    gates, c = 4 * torch.randn(3, 2, 4 * 7), torch.randn(3, 2, 7)
    given = c.clone()
    expected = lstm_pointwise(gates.clone(), c)
    with torch.no_grad():
        found = lstm_pointwise(gates.clone(), c)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
    assert torch.equal(c, given)


@pytest.mark.parametrize("large", [20.0, 200.0])
def test_gates_that_are_very_large_saturate(large: float) -> None:
    with torch.no_grad():
        h, c = lstm_pointwise(torch.tensor([[large, -large, -large, large]]), torch.ones(1, 1))
    assert c.item() == pytest.approx(-1.0)
    assert h.item() == pytest.approx(torch.tanh(torch.tensor(-1.0)).item())


def test_steps_without_gradients_are_those_of_torch() -> None:
    torch.manual_seed(0)
    lstm = Lstm(5, 6, forget_bias=1.0)
    inputs, state = torch.randn(4, 5), (torch.randn(4, 6), torch.randn(4, 6))
    with torch.no_grad():
        expected = torch.lstm_cell(inputs, state, lstm.weight_ih, lstm.weight_hh, lstm.bias, lstm.offset)
        gates = inputs @ lstm.weight_ih.T + state[0] @ lstm.weight_hh.T + lstm.bias + lstm.offset
        torch.testing.assert_close(lstm_pointwise(gates, state[1]), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("frames", [1, 7, 8, 21])
def test_energies_of_a_search_are_those_of_training(frames: int) -> None:
    """Whatever the number of frames that the last piece has."""
    torch.manual_seed(0)
    keys, query, feedback = torch.randn(2, frames, 5), torch.randn(2, 3, 5), torch.rand(2, 3, frames)
    weight, energy = torch.randn(5), torch.randn(5)
    expected = additive_energies(keys, query, feedback, weight, energy)
    with torch.no_grad():
        torch.testing.assert_close(additive_energies(keys, query, feedback, weight, energy), expected)
