"""The methods in the paper's order, with a line on each."""

from typing import NamedTuple


class MethodFacts(NamedTuple):
    """What a reader of a table wants to know of a method."""

    group: int  # tables draw a line between groups
    about: str


METHODS: dict[str, MethodFacts] = {
    "none": MethodFacts(0, "The recogniser alone."),
    "sf": MethodFacts(1, "Adds the external language model and subtracts nothing."),
    "dr": MethodFacts(1, "Density ratio: subtracts a language model trained on the transcripts."),
    "train_w_lm": MethodFacts(2, "Recogniser trained together with the external language model; nothing subtracted."),
    "zero": MethodFacts(3, "Internal LM: the decoder with its context set to zero."),
    "enc_avg": MethodFacts(3, "Internal LM: the decoder with the training set's mean encoder state as context."),
    "ctx_avg": MethodFacts(3, "Internal LM: the decoder with the training set's mean attention context."),
    "seq_avg": MethodFacts(3, "Internal LM: the decoder with the utterance's own mean encoder state as context."),
    "mini_lstm": MethodFacts(3, "Internal LM: a small LSTM gives the context, trained for the lowest perplexity."),
    "decoder_like": MethodFacts(4, "Subtracts a separate LM of the decoder's topology, trained on the transcripts."),
    "lodr": MethodFacts(4, "Low-order density ratio: subtracts an n-gram of the transcripts."),
    "learned": MethodFacts(4, "Internal LM: one trained vector as context."),
    "state_ff": MethodFacts(4, "Internal LM: a small net of the decoder's state gives the context."),
    "silence": MethodFacts(4, "Internal LM: the decoder listens to silence."),
    "noise": MethodFacts(4, "Internal LM: the decoder listens to noise."),
    "distilled": MethodFacts(4, "Internal LM: a small LSTM context taught by the recogniser's own posteriors."),
}
UNKNOWN = MethodFacts(5, "")


def order_of(method: str) -> int:
    """Place in the paper's order; what the paper does not know comes last."""
    return list(METHODS).index(method) if method in METHODS else len(METHODS)


def facts_of(method: str) -> MethodFacts:
    return METHODS.get(method, UNKNOWN)
