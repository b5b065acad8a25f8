"""The contexts that turn a recogniser's decoder into an internal language model (SPEC §4).

P_ILM(y) := P_AED(y | c_i = ĉ_i): the decoder's weights stay, only its context changes. `zero` and the global averages
are constants (`fewer.models.context`); the others are here. Each is some twenty lines: a new estimator is a new class.
"""

from typing import Any

import torch
from torch import Tensor, nn

from fewer.models.attention import Attention, AttentionMemory, AttentionState
from fewer.models.context import Context
from fewer.models.encoded import Encoded
from fewer.models.lstm import Lstm, LstmState, init_linear


class SequenceMeanContext(Context):
    """ĉ_i = E_x[h]: the mean encoder state of this utterance. Not a proper LM, since it hears x."""

    needs_encoder = True

    def __init__(self, size: int, special_first: bool = True, projection: Tensor | None = None):
        super().__init__()
        self.size, self.special_first, self.projection = size, special_first, projection

    def prepare(self, encoded: Encoded) -> Tensor:
        """(B, D_enc)"""
        total = (encoded.states * encoded.mask[:, :, None]).sum(1)
        mean = total / encoded.lengths[:, None]
        return mean if self.projection is None else mean @ self.projection

    def start(self, memory: Tensor, like: Tensor) -> tuple[Tensor, Any]:
        means = _per_row(memory, like.shape[0])
        return torch.zeros_like(means) if self.special_first else means, None

    def step(self, memory: Tensor, state: Any, decoder_state: Tensor, embedded: Tensor) -> tuple[Tensor, Any]:
        return _per_row(memory, decoder_state.shape[0]), None

    def sequence(self, memory: Tensor, embedded: Tensor) -> Tensor:
        return memory[:, None].expand(-1, embedded.shape[1], -1)

    def project(self, matrix: Tensor) -> "SequenceMeanContext":
        return SequenceMeanContext(matrix.shape[1], self.special_first, matrix)


class MiniLstmContext(Context):
    """ĉ_i = linear(LSTM(y_1 … y_{i-1})) over the decoder's own embedding; 50 units in the paper. ĉ_0 = 0."""

    def __init__(self, embedding: int, size: int, units: int = 50):
        super().__init__()
        self.size = size
        self.lstm = Lstm(embedding, units)
        self.linear = init_linear(nn.Linear(units, size))

    def start(self, memory: Any, like: Tensor) -> tuple[Tensor, LstmState]:
        return like.new_zeros(like.shape[0], self.size), self.lstm.start(like.shape[0])

    def step(self, memory: Any, state: LstmState, decoder_state: Tensor, embedded: Tensor) -> tuple[Tensor, LstmState]:
        state = self.lstm.step(embedded, state)
        return self.linear(state[0]), state

    def sequence(self, memory: Any, embedded: Tensor) -> Tensor:
        return self.linear(self.lstm(embedded)[0])

    def project(self, matrix: Tensor) -> "MiniLstmContext":
        projected = MiniLstmContext(self.lstm.input_size, matrix.shape[1], self.lstm.size)
        projected.lstm, projected.linear = self.lstm, _project_linear(self.linear, matrix)
        return projected


class StateContext(Context):
    """ĉ_i = linear(tanh(linear(s_i))): a small feed-forward net guesses the context from the decoder's state."""

    def __init__(self, decoder_size: int, size: int, units: int = 50):
        super().__init__()
        self.size = size
        self.inner = init_linear(nn.Linear(decoder_size, units))
        self.linear = init_linear(nn.Linear(units, size))

    def step(self, memory: Any, state: Any, decoder_state: Tensor, embedded: Tensor) -> tuple[Tensor, Any]:
        return self.linear(torch.tanh(self.inner(decoder_state))), None

    def project(self, matrix: Tensor) -> "StateContext":
        projected = StateContext(self.inner.in_features, matrix.shape[1], self.inner.out_features)
        projected.inner, projected.linear = self.inner, _project_linear(self.linear, matrix)
        return projected


class FixedAudioContext(Context):
    """ĉ_i from the recogniser's own attention, listening to one fixed recording (silence or noise) for everybody."""

    states: Tensor  # (T, D_enc)

    def __init__(self, attention: Attention, states: Tensor):
        super().__init__()
        self.size = attention.size
        self.attention = [attention]  # in a list: shared with the recogniser, not a part of this module
        self.register_buffer("states", states)
        self.kept: AttentionMemory | None = None

    def memory(self) -> AttentionMemory:
        """The recording as the only utterance, which all rows of a search hear. Made once: the attention is frozen."""
        if self.kept is None:
            frames = torch.tensor([self.states.shape[0]], device=self.states.device)
            self.kept = self.attention[0].prepare(Encoded(self.states[None], frames))
        return self.kept

    def start(self, memory: Any, like: Tensor) -> tuple[Tensor, AttentionState]:
        return self.attention[0].start(self.memory(), like)

    def step(
        self, memory: Any, state: AttentionState, decoder_state: Tensor, embedded: Tensor
    ) -> tuple[Tensor, AttentionState]:
        return self.attention[0].step(self.memory(), state, decoder_state, embedded)

    def project(self, matrix: Tensor) -> "FixedAudioContext":
        return FixedAudioContext(self.attention[0].project(matrix), self.states)


def _per_row(values: Tensor, rows: int) -> Tensor:
    """An utterance's value for each of its rows. (B, D) -> (rows, D)"""
    return values[:, None].expand(-1, rows // values.shape[0], -1).flatten(0, 1)


def _project_linear(linear: nn.Linear, matrix: Tensor) -> nn.Linear:
    projected = nn.Linear(linear.in_features, matrix.shape[1], device=matrix.device, dtype=matrix.dtype)
    projected.weight = nn.Parameter((linear.weight.detach().T @ matrix).T.contiguous(), requires_grad=False)
    projected.bias = nn.Parameter(linear.bias.detach() @ matrix, requires_grad=False)
    return projected
