"""ĉ_i = linear(tanh(linear(s_i))): a small net guesses the context from the decoder's state (Liu et al. 2022)."""

from typing import Any

import torch
from torch import Tensor, nn

from fewer.ilm.config import IlmConfig
from fewer.ilm.method import IlmMethod
from fewer.ilm.training import train_on_text
from fewer.models.context import Context
from fewer.models.lstm import init_linear, projected_linear
from fewer.recognisers.recogniser import Recogniser


class StateContext(Context):
    """A feed-forward net of one hidden layer."""

    def __init__(self, decoder_size: int, size: int, units: int = 50):
        super().__init__()
        self.size = size
        self.inner = init_linear(nn.Linear(decoder_size, units))
        self.linear = init_linear(nn.Linear(units, size))

    def step(self, memory: Any, state: Any, decoder_state: Tensor, embedded: Tensor) -> tuple[Tensor, Any]:
        return self.linear(torch.tanh(self.inner(decoder_state))), None

    def project(self, matrix: Tensor) -> "StateContext":
        projected = StateContext(self.inner.in_features, matrix.shape[1], self.inner.out_features)
        projected.inner, projected.linear = self.inner, projected_linear(self.linear, matrix)
        return projected


def new_context(config: IlmConfig, recogniser: Recogniser) -> StateContext:
    assert recogniser.sizes.state is not None
    return StateContext(recogniser.sizes.state, recogniser.sizes.context, config.units)


STATELESS = "needs the state of an LSTM decoder, which this recogniser does not have; take mini_lstm"
METHOD = IlmMethod(
    "state_ff",
    "Internal LM: a small net of the decoder's state gives the context.",
    symbol="State net",
    order=(4, 3),
    needs=("transcripts", "dev"),
    context=new_context,
    estimate=train_on_text,
    supports=lambda recogniser: STATELESS if recogniser.sizes.state is None else None,
)
