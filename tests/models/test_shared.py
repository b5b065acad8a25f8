"""A shared matrix gives what autograd gives, in one product."""

import pytest
import torch
from torch import Tensor

from fewer.models.decoder import DecoderConfig, FeedForwardDecoderState, LstmDecoderState
from fewer.models.shared import SharedMatrix


def _loss(product: SharedMatrix | None, matrix: Tensor, x: Tensor, steps: int) -> Tensor:
    total = x.new_zeros(())
    for _ in range(steps):
        x = torch.tanh(x @ matrix if product is None else product(x))
        total = total + x.square().sum()
    return total


@pytest.mark.parametrize("shape", [(4, 4), (3, 4, 4)], ids=["one matrix", "one for each utterance"])
def test_gradients_are_those_of_plain_products(shape: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    matrix = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    x = torch.randn(*shape[:-2], 2, 4, dtype=torch.float64, requires_grad=True)
    wanted = torch.autograd.grad(_loss(None, matrix, x, 5), [matrix, x])
    got = torch.autograd.grad(_loss(SharedMatrix(matrix), matrix, x, 5), [matrix, x])
    for one, other in zip(wanted, got, strict=True):
        torch.testing.assert_close(one, other)


def test_two_backward_passes_count_twice_and_a_step_that_nobody_uses_does_not_count() -> None:
    torch.manual_seed(1)
    matrix, x = torch.randn(4, 4, requires_grad=True), torch.randn(2, 4)
    shared = SharedMatrix(matrix)
    shared(x)
    loss = shared(x).square().sum()
    loss.backward(retain_graph=True)
    assert matrix.grad is not None
    once = matrix.grad.clone()
    torch.testing.assert_close(once, torch.autograd.grad((x @ matrix).square().sum(), matrix)[0])
    loss.backward()
    torch.testing.assert_close(matrix.grad, 2 * once)


def test_a_matrix_without_gradient_keeps_nothing() -> None:
    x = torch.randn(2, 4, requires_grad=True)
    shared = SharedMatrix(torch.randn(4, 3))
    shared(x).sum().backward()
    assert x.grad is not None
    assert shared.factors == []


@pytest.mark.parametrize("state", [LstmDecoderState, FeedForwardDecoderState])
def test_steps_of_a_decoder_state(state: type[LstmDecoderState] | type[FeedForwardDecoderState]) -> None:
    torch.manual_seed(1)
    network = state(DecoderConfig(size=6, embedding=5), 4).double()
    inputs = torch.randn(7, 2, 9, dtype=torch.float64)

    def gradients() -> tuple[Tensor, ...]:
        cell, total = network.start(inputs[0]), inputs.new_zeros(())
        for step in inputs:
            output, cell = network.step(step[:, :5], step[:, 5:], cell)
            total = total + output.square().sum()
        return torch.autograd.grad(total, list(network.parameters()))

    wanted = gradients()
    with network.many_steps():
        got = gradients()
    for one, other in zip(wanted, got, strict=True):
        torch.testing.assert_close(one, other)
