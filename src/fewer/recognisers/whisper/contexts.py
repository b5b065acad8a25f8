"""What the decoder's cross-attention blocks say: the recogniser's own context, and those of its internal LMs.

A context that does not listen is any `fewer.models.context.Context` of size layers · D: from the labels alone it says
c_i, which is what the cross-attention blocks of all layers add. It is asked at every position, the prompt's included,
so its first value is no special case. One that listens (`Listening`) answers each layer's query instead.

Where all encoder states are alike, so are all attention weights, and a block adds the same whatever it is asked. So
the means of encoder states, and states of zero, are constants too (`hear_only`).
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from fewer.ilm.contexts import SequenceMeanContext
from fewer.models.context import Context
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


class FixedAudioContext(Listening):
    """The recogniser's cross-attention, listening to one fixed recording (silence or noise) for everybody."""

    needs_encoder = False
    states: Tensor  # (T, D)

    def __init__(self, decoder: WhisperDecoder, states: Tensor):
        super().__init__(decoder)
        self.register_buffer("states", states)
        self.kept: list[list[Heard]] | None = None

    def prepare(self, encoded: Encoded) -> Any:
        return None

    def select(self, memory: Any, utterances: Tensor) -> Any:
        return None

    def cross(self, memory: Any, layer: int, hidden: Tensor) -> Tensor:
        if self.kept is None:  # made once: the decoder is frozen
            self.kept = super().prepare(Encoded(self.states[None], torch.tensor([len(self.states)])))
        return super().cross(self.kept, layer, hidden)


class UtteranceMeanContext(SequenceMeanContext):
    """The mean encoder state of the utterance in place of all of them: over its speech, or over all 30 seconds."""

    def __init__(self, decoder: WhisperDecoder, speech_only: bool = True):
        super().__init__(len(decoder.layers) * decoder.size, special_first=False)
        self.decoder, self.speech_only = [decoder], speech_only

    def prepare(self, encoded: Encoded) -> Tensor:
        """(B, layers · D)"""
        mean = super().prepare(encoded) if self.speech_only else encoded.states.mean(1)
        return hear_only(self.decoder[0], mean)


def hear_only(decoder: WhisperDecoder, state: Tensor) -> Tensor:
    """What the blocks of all layers add when there is but one encoder state. (…, D) -> (…, layers · D)"""
    return torch.cat([layer.hear_only(state) for layer in decoder.layers], dim=-1)


def cross_step(context: Context, memory: Any, state: Any, embedded: Tensor) -> tuple[Cross, Any]:
    """The context at the next position of every row, and its new state. (rows, D)"""
    if isinstance(context, Listening):
        return partial(context.cross, memory), state
    says, state = context.step(memory, state, embedded, embedded)
    return _by_layer(says, embedded), state


def cross_sequence(context: Context, memory: Any, embedded: Tensor) -> Cross:
    """The context at all positions. (B, N, D)"""
    if isinstance(context, Listening):
        return partial(context.cross, memory)
    says = context.sequence(memory, embedded)
    if says is None:
        raise ValueError(f"a {type(context).__name__} depends on a decoder state that Whisper does not have")
    return _by_layer(says, embedded)


def _by_layer(says: Tensor, embedded: Tensor) -> Cross:
    layers = says.unflatten(-1, (-1, embedded.shape[-1])).unbind(-2)  # (…, D) of each layer
    return lambda layer, hidden: layers[layer]
