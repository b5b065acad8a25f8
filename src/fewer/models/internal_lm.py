"""An internal language model seen as any other language model: the recogniser's decoder under a context."""

from torch import Tensor, nn
from torch.nn import functional

from fewer.models.context import Context, context_memory
from fewer.models.decoder import Decoder, DecoderState
from fewer.models.encoded import Encoded


class InternalLm(nn.Module):
    """P_ILM(y) = P_AED(y | c_i = ĉ_i). The decoder is frozen and in evaluation mode; only the context may learn."""

    def __init__(self, decoder: Decoder, context: Context):
        super().__init__()
        self.decoder = decoder.requires_grad_(False)
        self.context = context
        self.vocab_size = decoder.vocab_size
        self.eval()

    def train(self, mode: bool = True) -> "InternalLm":
        """Dropout stays off: the decoder's is not to be trained, and the small contexts have none."""
        return super().train(False)

    def log_probs(self, labels: Tensor, encoded: Encoded | None = None) -> Tensor:
        """log P(labels[i] = v | labels[<i]) for every v; `encoded` where the context hears the utterance.

        (B, N) -> (B, N, V)
        """
        return functional.log_softmax(self.logits(self.hidden(labels, encoded)), dim=-1)

    def hidden(self, labels: Tensor, encoded: Encoded | None = None) -> Tensor:
        """What the output layer reads at each label. (B, N) -> (B, N, R / 2)"""
        memory = context_memory(self.context, encoded)
        return self.decoder.teacher_forced(self.context, memory, labels).hidden

    def logits(self, hidden: Tensor) -> Tensor:
        """(…, R / 2) -> (…, V)"""
        return self.decoder.logits(hidden)

    def start(self, rows: int) -> DecoderState:
        return self.decoder.start(self.context, None, rows)

    def step(self, state: DecoderState, labels: Tensor) -> tuple[Tensor, DecoderState]:
        """Next label's log-probabilities after reading `labels`, -1 before the first. (rows,) -> (rows, V)"""
        logits, state = self.decoder.step(self.context, None, state, labels)
        return functional.log_softmax(logits, dim=-1), state
