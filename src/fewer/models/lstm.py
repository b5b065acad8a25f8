"""LSTM layers with one bias, the paper's initialisation, and zoneout."""

from typing import Any

import torch
from torch import Tensor, nn

from fewer.models.shared import ManySteps

LstmState = tuple[Tensor, Tensor]  # h and c, (rows, n) each


def glorot_(weight: Tensor, fan_in: int, fan_out: int) -> None:
    """Glorot-uniform with the given fans (SPEC §2: an LSTM matrix counts as one (in, 4n) matrix)."""
    limit = (6.0 / (fan_in + fan_out)) ** 0.5
    nn.init.uniform_(weight, -limit, limit)


def normal_(module: nn.Module, deviation: float = 0.1) -> None:
    """N(0, deviation) for every weight, biases too: how the authors' toolkit starts LSTM LMs."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, 0.0, deviation)


def init_linear(layer: nn.Linear) -> nn.Linear:
    """Glorot-uniform weight, zero bias."""
    glorot_(layer.weight, layer.in_features, layer.out_features)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer


class Lstm(nn.Module, ManySteps):
    """One LSTM layer in one direction. Gates in torch's order: input, forget, cell, output."""

    def __init__(self, input_size: int, size: int, forget_bias: float = 0.0):
        super().__init__()
        self.input_size, self.size = input_size, size
        self.weight_ih = nn.Parameter(torch.empty(4 * size, input_size))
        self.weight_hh = nn.Parameter(torch.empty(4 * size, size))
        self.bias = nn.Parameter(torch.zeros(4 * size))
        offset = torch.zeros(4 * size)
        offset[size : 2 * size] = forget_bias  # added at run time, so that the parameter itself decays to 0
        self.register_buffer("offset", offset, persistent=False)
        self.offset: Tensor
        self.reset_parameters()

    def reset_parameters(self, joint: bool = False) -> None:
        """joint: both matrices are drawn as the parts of one (input + size, 4·size) matrix."""
        both = self.input_size + self.size
        glorot_(self.weight_ih, both if joint else self.input_size, 4 * self.size)
        glorot_(self.weight_hh, both if joint else self.size, 4 * self.size)
        nn.init.zeros_(self.bias)

    def start(self, rows: int) -> LstmState:
        zeros = self.weight_hh.new_zeros(rows, self.size)
        return zeros, zeros

    def forward(self, inputs: Tensor, state: LstmState | None = None) -> tuple[Tensor, LstmState]:
        """All steps of a sequence. (B, N, input) -> (B, N, size), last state"""
        if torch.is_autocast_enabled("cpu") and not _cpu_has_bfloat16():
            with torch.autocast("cpu", enabled=False):
                return self(inputs.to(self.bias.dtype), state)
        h, c = self.start(inputs.shape[0]) if state is None else state
        weights = [self.weight_ih, self.weight_hh, self.bias, self.offset]
        initial = (h.unsqueeze(0), c.unsqueeze(0))
        outputs, h, c = torch.lstm(inputs, initial, weights, True, 1, 0.0, torch.is_grad_enabled(), False, True)
        return outputs, (h.squeeze(0), c.squeeze(0))

    def step(self, inputs: Tensor, state: LstmState) -> LstmState:
        """One step. (rows, input) -> (rows, size)"""
        if self.shared is not None:
            gates = self.shared(torch.cat([inputs, state[0]], dim=-1))
            return lstm_pointwise(gates + (self.bias + self.offset), state[1])
        return torch.lstm_cell(inputs, state, self.weight_ih, self.weight_hh, self.bias, self.offset)

    def step_matrix(self) -> Tensor:
        """(input + size, 4·size)"""
        return torch.cat([self.weight_ih, self.weight_hh], dim=1).t()


def lstm_pointwise(gates: Tensor, c: Tensor) -> LstmState:
    """The new h and c from summed gates (…, 4n), in torch's order, and the old c (…, n).

    Without gradients the gates are overwritten, and tanh(x) is 2σ(2x) − 1, which is faster.
    """
    i, f, g, o = gates.chunk(4, dim=-1)
    if torch.is_grad_enabled():
        new_c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(new_c), new_c
    g.mul_(2.0)
    gates.sigmoid_()
    new_c = torch.addcmul(f.mul_(c).sub_(i), i, g, value=2.0)
    h = torch.mul(new_c, 2.0).sigmoid_().mul_(2.0).sub_(1.0).mul_(o)
    return h, new_c


class ZoneoutLstm(Lstm):
    """An LSTM whose recurrent state keeps part of its old value; its output is the raw h (Krueger et al. 2017).

    In training each unit keeps its old value with the given probability, in evaluation the expectation is taken.
    """

    def __init__(self, input_size: int, size: int, forget_bias: float, cell_zoneout: float, output_zoneout: float):
        super().__init__(input_size, size, forget_bias)
        self.cell_zoneout, self.output_zoneout = cell_zoneout, output_zoneout

    def zone(self, new: LstmState, old: LstmState) -> LstmState:
        """The recurrent state to go on with."""
        return self._keep(new[0], old[0], self.output_zoneout), self._keep(new[1], old[1], self.cell_zoneout)

    def _keep(self, new: Tensor, old: Tensor, share: float) -> Tensor:
        if self.training:
            return torch.where(torch.rand_like(new) < share, old, new)
        return share * old + (1 - share) * new


class BlstmLayer(nn.Module):
    """A bidirectional LSTM layer whose result does not depend on padding: output [forward; backward]."""

    def __init__(self, input_size: int, size: int):
        super().__init__()
        self.forward_lstm = Lstm(input_size, size)
        self.backward_lstm = Lstm(input_size, size)

    def forward(self, inputs: Tensor, lengths: Tensor) -> Tensor:
        """(B, T, input), (B,) -> (B, T, 2·size), zeros on padding"""
        reverse = reversal(lengths, inputs.shape[1])
        forward, _ = self.forward_lstm(inputs)
        flipped, _ = self.backward_lstm(_Reversed.apply(inputs, reverse))
        outputs = torch.cat([forward, _Reversed.apply(flipped, reverse)], dim=-1)
        padding = torch.arange(inputs.shape[1], device=inputs.device) >= lengths[:, None]
        return outputs.masked_fill(padding[:, :, None], 0.0)


def reversal(lengths: Tensor, longest: int) -> Tensor:
    """Rows of all sequences that turn each around within its own length and leave its padding alone. (B · T,)"""
    time = torch.arange(longest, device=lengths.device).expand(len(lengths), -1)
    turned = torch.where(time < lengths[:, None], lengths[:, None] - 1 - time, time)
    return (turned + longest * torch.arange(len(lengths), device=lengths.device)[:, None]).flatten()


class _Reversed(torch.autograd.Function):
    """Rows in the order of `reversal`. (B, T, D), (B · T,) -> (B, T, D)

    Turned around twice, a sequence is as it was, so gradients are turned around, which is faster than adding them up.
    """

    @staticmethod
    def forward(ctx: Any, values: Tensor, rows: Tensor) -> Tensor:
        ctx.save_for_backward(rows)
        return values.flatten(0, 1).index_select(0, rows).view_as(values)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (rows,) = ctx.saved_tensors
        return gradients[0].flatten(0, 1).index_select(0, rows).view_as(gradients[0]), None


def _cpu_has_bfloat16() -> bool:
    """Without it oneDNN has no bfloat16 LSTM, and autocast must leave LSTMs in float32."""
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def projected_linear(linear: nn.Linear, matrix: Tensor) -> nn.Linear:
    """A layer that says what the linear one says, times a matrix. (size, P)"""
    projected = nn.Linear(linear.in_features, matrix.shape[1], device=matrix.device, dtype=matrix.dtype)
    projected.weight = nn.Parameter((linear.weight.detach().T @ matrix).T.contiguous(), requires_grad=False)
    projected.bias = nn.Parameter(linear.bias.detach() @ matrix, requires_grad=False)
    return projected
