"""ĉ_i = linear(LSTM(y_1 … y_{i-1})): the paper's Mini-LSTM, trained for the lowest perplexity of the transcripts."""

from typing import Any

import torch
from torch import Tensor, nn

from fewer.ilm.config import IlmConfig
from fewer.ilm.method import IlmMethod
from fewer.ilm.methods.zero_encoder import hear_zeros
from fewer.ilm.training import train_on_text
from fewer.models.context import Context
from fewer.models.lstm import Lstm, LstmState, init_linear, projected_linear
from fewer.recognisers.recogniser import Recogniser


class MiniLstmContext(Context):
    """Over the decoder's own embedding; 50 units in the paper. ĉ_0 = 0."""

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
        projected.lstm, projected.linear = self.lstm, projected_linear(self.linear, matrix)
        return projected


@torch.no_grad()
def new_context(config: IlmConfig, recogniser: Recogniser) -> MiniLstmContext:
    """Where attention never says zero, it begins with what it says of encoder states of zero.

    (Without any context such a decoder is lost: that would be a bad place to begin.)
    """
    context = MiniLstmContext(recogniser.sizes.embedding, recogniser.sizes.context, config.units)
    if bool((first := hear_zeros(recogniser)).any()):
        context.linear.weight.zero_()
        context.linear.bias.copy_(first)
    return context


METHOD = IlmMethod(
    "mini_lstm",
    "Internal LM: a small LSTM gives the context, trained for the lowest perplexity.",
    symbol="Mini-LSTM",
    order=(3, 6),
    needs=("transcripts", "dev"),
    context=new_context,
    estimate=train_on_text,
)
