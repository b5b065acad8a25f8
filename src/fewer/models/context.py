"""The context is a part: a decoder asks it for c_i and does not care where c_i comes from.

Attention over the encoder states is one context; each ILM estimator of the paper is another (`fewer.ilm`).
"""

from typing import Any

import torch
from torch import Tensor, nn

from fewer.models.encoded import Encoded


class Context(nn.Module):
    """Says c_i for every row. Subclasses answer `step`, or `sequence` if c_i depends on the labels alone."""

    size: int  # D_enc
    needs_encoder: bool = False  # whether c_i depends on the utterance

    def prepare(self, encoded: Encoded) -> Any:
        """What is kept of the utterances: a tree of tensors with the utterance as first dimension."""
        return None

    def start(self, memory: Any, like: Tensor) -> tuple[Tensor, Any]:
        """c_0 and the state of `like.shape[0]` rows; c_0 is zero in the paper's model. -> (rows, D_enc), state"""
        return like.new_zeros(like.shape[0], self.size), None

    def step(self, memory: Any, state: Any, decoder_state: Tensor, embedded: Tensor) -> tuple[Tensor, Any]:
        """c_i from s_i (rows, D_dec) and the embedding of y_{i-1} (rows, E). -> (rows, D_enc), state"""
        raise NotImplementedError

    def sequence(self, memory: Any, embedded: Tensor) -> Tensor | None:
        """All of c_1 … c_N at once when they do not depend on the decoder's state, else None.

        embedded: (B, N, E), that of y_0 … y_{N-1}. -> (B, N, D_enc)
        """
        return None

    def project(self, matrix: Tensor) -> "Context":
        """The context that says c_i · matrix: lets a search fold a decoder's context weights into what makes c_i.

        matrix: (D_enc, P)
        """
        return ProjectedContext(self, matrix)


class ProjectedContext(Context):
    """c_i · matrix for a context that cannot fold the matrix into itself."""

    def __init__(self, context: Context, matrix: Tensor):
        super().__init__()
        self.context, self.matrix = context, matrix
        self.size, self.needs_encoder = matrix.shape[1], context.needs_encoder

    def prepare(self, encoded: Encoded) -> Any:
        return self.context.prepare(encoded)

    def start(self, memory: Any, like: Tensor) -> tuple[Tensor, Any]:
        first, state = self.context.start(memory, like)
        return first @ self.matrix, state

    def step(self, memory: Any, state: Any, decoder_state: Tensor, embedded: Tensor) -> tuple[Tensor, Any]:
        says, state = self.context.step(memory, state, decoder_state, embedded)
        return says @ self.matrix, state


class ConstantContext(Context):
    """c_i is the same vector at every step; c_0 is zero, as in the recogniser, if `special_first` (SPEC §4)."""

    vector: Tensor  # (D_enc,)

    def __init__(self, vector: Tensor, special_first: bool = True, trainable: bool = False):
        super().__init__()
        self.size, self.special_first = vector.shape[0], special_first
        if trainable:
            self.vector = nn.Parameter(vector.clone())
        else:
            self.register_buffer("vector", vector.clone())

    def start(self, memory: Any, like: Tensor) -> tuple[Tensor, Any]:
        vectors = self.vector.expand(like.shape[0], -1)
        return (torch.zeros_like(vectors) if self.special_first else vectors), None

    def step(self, memory: Any, state: Any, decoder_state: Tensor, embedded: Tensor) -> tuple[Tensor, Any]:
        return self.vector.expand(decoder_state.shape[0], -1), None

    def sequence(self, memory: Any, embedded: Tensor) -> Tensor:
        return self.vector.expand(embedded.shape[0], embedded.shape[1], -1)

    def project(self, matrix: Tensor) -> "ConstantContext":
        return ConstantContext(self.vector.detach() @ matrix, self.special_first)


class ZeroContext(ConstantContext):
    """ĉ_i = 0: the decoder hears nothing (HAT; Meng et al. 2021)."""

    def __init__(self, size: int):
        super().__init__(torch.zeros(size))


class FixedAudioContext(Context):
    """ĉ_i from the recogniser's own attention, listening to one fixed recording (silence or noise) for everybody."""

    states: Tensor  # (T, D) of the encoder

    def __init__(self, attention: Context, states: Tensor):
        super().__init__()
        self.size = attention.size
        self.attention = [attention]  # in a list: shared with the recogniser, not a part of this module
        self.register_buffer("states", states)
        self.kept: Any = None

    def memory(self) -> Any:
        """The recording as the only utterance, which all rows of a search hear. Made once: the attention is frozen."""
        if self.kept is None:
            frames = torch.tensor([self.states.shape[0]], device=self.states.device)
            self.kept = self.attention[0].prepare(Encoded(self.states[None], frames))
        return self.kept

    def start(self, memory: Any, like: Tensor) -> tuple[Tensor, Any]:
        return self.attention[0].start(self.memory(), like)

    def step(self, memory: Any, state: Any, decoder_state: Tensor, embedded: Tensor) -> tuple[Tensor, Any]:
        return self.attention[0].step(self.memory(), state, decoder_state, embedded)

    def project(self, matrix: Tensor) -> "FixedAudioContext":
        return FixedAudioContext(self.attention[0].project(matrix), self.states)


def context_memory(context: Context, encoded: Encoded | None) -> Any:
    """What a context keeps of the utterances, if it hears them."""
    if not context.needs_encoder:
        return None
    if encoded is None:
        raise ValueError("this context hears the utterance: give its encoder states")
    return context.prepare(encoded)
