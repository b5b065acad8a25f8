"""What the decoder's cross-attention blocks say: the recogniser's own context, and those of its internal LMs.

A context of an internal LM is any `fewer.models.context.Context` of size layers · D: it says c_i, which is what the
cross-attention blocks of all layers add. It is asked at every position, the prompt's included, so its first value is
no special case. The recogniser's own (`Listening`) answers each layer's query instead.
"""

from functools import partial
from typing import Any

from torch import Tensor

from fewer.models.context import Context, FixedAudioContext
from fewer.models.encoded import Encoded
from fewer.recognisers.whisper.decoder import Cross, Heard, WhisperDecoder


class Listening(Context):
    """Cross-attention over the utterance's encoder states: the recogniser's own context."""

    needs_encoder = True

    def __init__(self, decoder: WhisperDecoder):
        super().__init__()
        self.size = len(decoder.layers) * decoder.size
        self.decoder = [decoder]  # in a list: shared with the recogniser, not a part of this module

    def prepare(self, encoded: Encoded) -> Any:
        """For each utterance, what each layer heard: apart, so that none is copied when others are done."""
        return [[layer.hear(states) for layer in self.decoder[0].layers] for states in encoded.states]

    def select(self, memory: Any, utterances: Tensor) -> Any:
        return [memory[utterance] for utterance in utterances.tolist()]

    def cross(self, memory: list[list[Heard]], layer: int, hidden: Tensor) -> Tensor:
        """What a layer's block adds. (rows, D), or (B, N, D) teacher-forced -> the same"""
        by_utterance = hidden.reshape(len(memory), -1, hidden.shape[-1])  # (B, K or N, D)
        heard = [layers[layer] for layers in memory]
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
        raise ValueError(f"a {type(context).__name__} depends on a decoder state that Whisper does not have")
    return _by_layer(says, embedded)


def _unfixed(context: Context, memory: Any) -> tuple[Context, Any]:
    """A fixed recording is listened to as any other."""
    return (context.attention[0], context.memory()) if isinstance(context, FixedAudioContext) else (context, memory)


def _by_layer(says: Tensor, embedded: Tensor) -> Cross:
    layers = says.unflatten(-1, (-1, embedded.shape[-1])).unbind(-2)  # (…, D) of each layer
    return lambda layer, hidden: layers[layer]
