"""ĉ_i = E_x[h]: the mean encoder state of this utterance. Not a proper LM, since it hears x."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from fewer.ilm.method import IlmMethod
from fewer.models.context import Context
from fewer.models.encoded import Encoded, length_mask


class SequenceMeanContext(Context):
    """What attention says if the utterance's mean encoder state stands in the place of all its states."""

    needs_encoder = True

    def __init__(
        self,
        size: int,
        special_first: bool = True,
        projection: Tensor | None = None,
        hear_only: Callable[[Tensor], Tensor] | None = None,
        attended: bool = False,
    ):
        """hear_only: of the recogniser; None: attention says the mean itself.

        attended: over all states that attention sees, not only those of the speech.
        """
        super().__init__()
        self.size, self.special_first, self.projection = size, special_first, projection
        self.hear_only, self.attended = hear_only, attended

    def prepare(self, encoded: Encoded) -> Tensor:
        """(B, size)"""
        lengths = encoded.attended if self.attended else encoded.lengths
        total = (encoded.states * length_mask(lengths, encoded.states.shape[1])[:, :, None]).sum(1)
        mean = total / lengths[:, None]
        said = mean if self.hear_only is None else self.hear_only(mean)
        return said if self.projection is None else said @ self.projection

    def start(self, memory: Tensor, like: Tensor) -> tuple[Tensor, Any]:
        means = _per_row(memory, like.shape[0])
        return torch.zeros_like(means) if self.special_first else means, None

    def step(self, memory: Tensor, state: Any, decoder_state: Tensor, embedded: Tensor) -> tuple[Tensor, Any]:
        return _per_row(memory, decoder_state.shape[0]), None

    def sequence(self, memory: Tensor, embedded: Tensor) -> Tensor:
        return _per_row(memory, embedded.shape[0])[:, None].expand(-1, embedded.shape[1], -1)

    def project(self, matrix: Tensor) -> "SequenceMeanContext":
        return SequenceMeanContext(matrix.shape[1], self.special_first, matrix, self.hear_only, self.attended)


def _per_row(values: Tensor, rows: int) -> Tensor:
    """An utterance's value for each of its rows. (B, D) -> (rows, D)"""
    return values[:, None].expand(-1, rows // values.shape[0], -1).flatten(0, 1)


METHOD = IlmMethod(
    "seq_avg",
    "Internal LM: the decoder with the utterance's own mean encoder state as context.",
    symbol="E_x[h]",
    order=(3, 4),
    context=lambda config, recogniser: SequenceMeanContext(
        recogniser.sizes.context, config.zero_first(recogniser), hear_only=recogniser.hear_only
    ),
)
