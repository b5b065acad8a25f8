"""What the decoder's cross-attention blocks say: the recogniser's own context, and those of its internal LMs.

A context of an internal LM is any `fewer.models.context.Context` of size layers · D: it says c_i, which is what the
cross-attention blocks of all layers add. It is asked at every position, the prompt's included, so its first value is
no special case. The recogniser's own (`Listening`) answers each layer's query instead.
"""

from functools import partial
from typing import Any

from torch import Tensor

from fewer.models.context import Context, FixedAudioContext
from fewer.models.encoded import Encoded, length_mask
from fewer.models.tree import free_to_ask, select_rows
from fewer.recognisers.transformers.decoder import AttentionDecoder, Cross, Heard


class Listening(Context):
    """Cross-attention over the utterance's encoder states: the recogniser's own context."""

    needs_encoder = True

    def __init__(self, decoder: AttentionDecoder):
        super().__init__()
        self.size = len(decoder.layers) * decoder.size
        self.decoder = [decoder]  # in a list: shared with the recogniser, not a part of this module

    def prepare(self, encoded: Encoded) -> Any:
        """What each layer heard of parts of the utterances. On a GPU all are one part, for as few products as can be;
        on a CPU each is one, so that none is copied when others are done."""
        if encoded.memories is None:
            return self._hear(encoded)
        if self not in encoded.memories:
            encoded.memories[self] = self._hear(encoded)
        return encoded.memories[self]

    def _hear(self, encoded: Encoded) -> list[list[Heard]]:
        layers, states, lengths = self.decoder[0].layers, encoded.states, encoded.attended
        if free_to_ask(states):
            parts = [one[None, :length] for one, length in zip(states, lengths.tolist(), strict=True)]
            return [[layer.hear(part) for layer in layers] for part in parts]
        seen = length_mask(lengths, states.shape[1])  # (B, T)
        mask = None if bool(seen.all()) else seen[:, None, None]
        return [[layer.hear(states, mask) for layer in layers]]

    def select(self, memory: list[list[Heard]], utterances: Tensor) -> Any:
        if free_to_ask(utterances):
            return [memory[utterance] for utterance in utterances.tolist()]
        return select_rows(memory, utterances)

    def cross(self, memory: list[list[Heard]], layer: int, hidden: Tensor) -> Tensor:
        """What a layer's block adds. (rows, D), or (B, N, D) teacher-forced -> the same"""
        heard = [layers[layer] for layers in memory]
        utterances = sum(len(part.keys) for part in heard)
        by_utterance = hidden.reshape(utterances, -1, hidden.shape[-1])  # (B, K or N, D)
        return self.decoder[0].layers[layer].attend(by_utterance, heard).view_as(hidden)


def cross_step(context: Context, memory: Any, state: Any, embedded: Tensor) -> tuple[Cross, Any]:
    """The context at the next position of every row, and its new state. (rows, D)"""
    context, memory = _unfixed(context, memory)
    if isinstance(context, Listening):
        return partial(context.cross, memory), state
    says, state = context.step(memory, state, embedded, embedded)
    return _by_layer(says, embedded), state


def cross_sequence(context: Context, memory: Any, embedded: Tensor) -> Cross:
    """The context at all positions. (B, N, D)"""
    context, memory = _unfixed(context, memory)
    if isinstance(context, Listening):
        return partial(context.cross, memory)
    says = context.sequence(memory, embedded)
    if says is None:
        raise ValueError(f"a {type(context).__name__} depends on a decoder state that this recogniser does not have")
    return _by_layer(says, embedded)


def _unfixed(context: Context, memory: Any) -> tuple[Context, Any]:
    """A fixed recording is listened to as any other."""
    return (context.attention[0], context.memory()) if isinstance(context, FixedAudioContext) else (context, memory)


def _by_layer(says: Tensor, embedded: Tensor) -> Cross:
    layers = says.unflatten(-1, (-1, embedded.shape[-1])).unbind(-2)  # (…, D) of each layer
    return lambda layer, hidden: layers[layer]
