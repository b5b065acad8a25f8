"""Location-aware MLP attention (paper eq. 1 and 2; SPEC §1)."""

import copy
import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from fewer.models.context import Context
from fewer.models.encoded import Encoded
from fewer.models.lstm import glorot_, init_linear
from fewer.models.shared import SharedMatrix

PIECES = 8  # of the frames, in which a search computes energies: always as many, so that operations do not grow


class AttentionMemory(NamedTuple):
    """What attention keeps of each utterance."""

    values: Tensor  # (B, T, D_enc): h_t, or its projection
    keys: Tensor  # (B, T, E): W_h h_t + b; twice that for a search (`Attention.project`)
    fertility: Tensor  # (B, T): 0.5·sigmoid(w·h_t)
    padding: Tensor  # (B, T): True on padding
    shared: SharedMatrix | None = None  # the values, if gradients are wanted


class AttentionState(NamedTuple):
    accumulated: Tensor  # (rows, T): A_i
    weights: Tensor  # (rows, T): α_i, for plots


class Attention(Context):
    """e_{i,t} = v·tanh(W_h h_t + b + W_s s_i + W_β β_{i,t}), α = softmax over valid frames, c_i = Σ_t α_{i,t} h_t.

    β_i = A_{i-1}, where A_i = A_{i-1} + 0.5·α_i·sigmoid(w·h) accumulates what was attended to.
    """

    needs_encoder = True

    def __init__(self, encoder_size: int, decoder_size: int, energy: int, transform_state: bool = True):
        super().__init__()
        if not transform_state and decoder_size != energy:
            raise ValueError(f"a decoder state of {decoder_size} cannot be added to an energy of {energy}")
        self.size = encoder_size
        self.key = init_linear(nn.Linear(encoder_size, energy))
        self.query = init_linear(nn.Linear(decoder_size, energy, bias=False)) if transform_state else nn.Identity()
        self.feedback = nn.Parameter(torch.empty(energy))  # W_β
        self.energy = nn.Parameter(torch.empty(energy))  # v
        self.fertility = init_linear(nn.Linear(encoder_size, 1, bias=False))  # w
        glorot_(self.feedback, 1, energy)
        glorot_(self.energy, energy, 1)
        self.projection: Tensor | None = None  # (D_enc, size), of the values

    def project(self, matrix: Tensor) -> "Attention":
        """Σ_t α_t h_t · matrix = Σ_t α_t (h_t · matrix): the product is taken once per frame, not once per row."""
        projected = copy.copy(self)  # shares the parameters
        projected.size, projected.projection = matrix.shape[1], matrix
        return projected

    def prepare(self, encoded: Encoded) -> AttentionMemory:
        states = encoded.states
        fertility = 0.5 * torch.sigmoid(self.fertility(states)).squeeze(-1)
        values = states if self.projection is None else states @ self.projection
        shared = SharedMatrix(values) if torch.is_grad_enabled() else None
        keys = self.key(states) if self.projection is None else 2.0 * self.key(states)
        return AttentionMemory(values, keys, fertility, ~encoded.mask, shared)

    def start(self, memory: AttentionMemory, like: Tensor) -> tuple[Tensor, AttentionState]:
        rows = like.shape[0]
        zeros = memory.values.new_zeros(rows, memory.values.shape[1])
        return memory.values.new_zeros(rows, self.size), AttentionState(zeros, zeros)

    def step(
        self, memory: AttentionMemory, state: AttentionState, decoder_state: Tensor, embedded: Tensor
    ) -> tuple[Tensor, AttentionState]:
        utterances, frames = memory.padding.shape
        accumulated = state.accumulated.view(utterances, -1, frames)  # (B, K, T)
        query = self.query(decoder_state).view(utterances, -1, self.energy.shape[0])  # (B, K, E)
        energies = self._energies(memory.keys, query, accumulated)  # (B, K, T)
        weights = energies.masked_fill(memory.padding[:, None], float("-inf")).softmax(dim=-1)
        context = weights @ memory.values if memory.shared is None else memory.shared(weights)  # (B, K, D_enc)
        accumulated = accumulated + weights * memory.fertility[:, None]
        return context.flatten(0, 1), AttentionState(accumulated.flatten(0, 1), weights.flatten(0, 1))

    def _energies(self, keys: Tensor, query: Tensor, accumulated: Tensor) -> Tensor:
        if self.projection is None:
            return additive_energies(keys, query, accumulated, self.feedback, self.energy)
        return _energies_in_pieces(keys, 2.0 * query, accumulated, self.feedback, self.energy)


def additive_energies(keys: Tensor, query: Tensor, feedback: Tensor, weight: Tensor, energy: Tensor) -> Tensor:
    """v·tanh(keys + query + feedback·weight), the (B, K, T, E) in between never kept for the backward pass.

    keys (B, T, E), query (B, K, E), feedback (B, K, T), weight (E,), energy v (E,) -> (B, K, T)
    """
    if not torch.is_grad_enabled():
        return _energies_in_pieces(2.0 * keys, 2.0 * query, feedback, weight, energy)
    with torch.autocast(keys.device.type, enabled=False):  # which would mix types between forward and backward
        tensors = [tensor.to(energy.dtype) for tensor in (keys, query, feedback, weight)]
        result: Tensor = _AdditiveEnergies.apply(*tensors, energy)
    return result


def _tanh_inner(keys: Tensor, query: Tensor, feedback: Tensor, weight: Tensor, out: Tensor | None = None) -> Tensor:
    """σ(keys + query + 2·feedback·weight) = (1 + tanh)/2 for keys and queries that are doubled: torch's sigmoid is
    several times faster than its tanh."""
    inner = torch.add(keys[:, None], query[:, :, None], out=out)  # (B, K, T, E)
    return inner.addcmul_(feedback[..., None], weight, value=2.0).sigmoid_()


def _energies_in_pieces(keys: Tensor, query: Tensor, feedback: Tensor, weight: Tensor, energy: Tensor) -> Tensor:
    """For keys and queries that are doubled. A few frames at a time, so that what lies between stays in the
    processor's cache, always in the same memory: the system needs longer to give new memory than is computed in it."""
    frames = -(-keys.shape[1] // PIECES)
    room = keys.new_empty(*query.shape[:2], frames, query.shape[2])  # (B, K, frames, E)
    doubled, pieces = 2.0 * energy, []
    for some, accumulated in zip(keys.split(frames, 1), feedback.split(frames, 2), strict=True):
        shape = (*accumulated.shape, query.shape[2])
        inner = room if room.shape == shape else room.flatten()[: math.prod(shape)].view(shape)
        pieces.append(_tanh_inner(some, query, accumulated, weight, inner) @ doubled)
    return torch.cat(pieces, dim=2) - energy.sum()


class _AdditiveEnergies(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, keys: Tensor, query: Tensor, feedback: Tensor, weight: Tensor, energy: Tensor) -> Tensor:
        ctx.save_for_backward(keys, query, feedback, weight, energy)
        return _tanh_inner(2.0 * keys, 2.0 * query, feedback, weight) @ (2.0 * energy) - energy.sum()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        keys, query, feedback, weight, energy = ctx.saved_tensors
        gradient = gradients[0]  # (B, K, T)
        half = _tanh_inner(2.0 * keys, 2.0 * query, feedback, weight)  # σ; tanh = 2σ − 1, tanh' = 4σ(1 − σ)
        d_energy = 2.0 * (gradient.flatten() @ half.flatten(0, 2)) - gradient.sum()
        inner = half.addcmul_(half, half, value=-1.0).mul_(4.0 * energy).mul_(gradient[..., None])  # (B, K, T, E)
        d_keys, d_query = inner.sum(1), inner.sum(2)
        d_feedback = inner @ weight
        d_weight = feedback.flatten() @ inner.flatten(0, 2)
        return d_keys, d_query, d_feedback, d_weight, d_energy
