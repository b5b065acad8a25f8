"""A matrix that the products of many steps share, and whose gradient is one product at the end.

Autograd would compute each step's part of it and add it to the others, which reads and writes the whole matrix for
every step. Here a step only keeps its factors.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor


class SharedMatrix:
    """`shared(x)` = x @ matrix, for many x. (…, n, in), (…, in, out) -> (…, n, out)"""

    def __init__(self, matrix: Tensor):
        if torch.is_autocast_enabled(matrix.device.type):
            matrix = matrix.to(torch.get_autocast_dtype(matrix.device.type))
        self.matrix = matrix
        self.factors: list[tuple[Tensor, Tensor]] = []  # of each product: x, and the gradient of its result
        self.order = _Gather.apply(matrix, self.factors)

    def __call__(self, x: Tensor) -> Tensor:
        result: Tensor = _Product.apply(x.to(self.matrix.dtype), self.matrix.detach(), self.order, self.factors)
        return result


class ManySteps:
    """Of a module whose steps are products with one matrix."""

    shared: SharedMatrix | None = None

    def step_matrix(self) -> Tensor:
        """(in, out)"""
        raise NotImplementedError

    @contextmanager
    def many_steps(self) -> Iterator[None]:
        """Steps inside are one computation, in which the matrix is shared if gradients are wanted."""
        if torch.is_grad_enabled():
            self.shared = SharedMatrix(self.step_matrix())
        try:
            yield
        finally:
            self.shared = None


class _Gather(torch.autograd.Function):
    """Nothing but a place in the backward pass: after all products, since it is an input of each."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, factors: list[tuple[Tensor, Tensor]]) -> Tensor:
        ctx.factors = factors
        return matrix.new_zeros(())

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        inputs, outputs = (torch.cat(factors, dim=-2) for factors in zip(*ctx.factors, strict=True))
        ctx.factors.clear()
        return inputs.transpose(-2, -1) @ outputs, None


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Tensor, order: Tensor, factors: list[tuple[Tensor, Tensor]]) -> Tensor:
        ctx.save_for_backward(x, matrix, order)
        ctx.factors = factors
        with torch.autocast(x.device.type, enabled=False):
            return x @ matrix

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, Tensor, None]:
        x, matrix, order = ctx.saved_tensors
        if ctx.needs_input_grad[2]:
            ctx.factors.append((x, gradients[0]))
        return gradients[0] @ matrix.transpose(-2, -1), None, torch.zeros_like(order), None
