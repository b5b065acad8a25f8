"""The attention-based encoder-decoder recogniser of the paper."""

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional

from fewer.config import Config
from fewer.models.attention import Attention
from fewer.models.decoder import Decoded, Decoder, DecoderConfig
from fewer.models.encoded import Encoded
from fewer.models.encoder import Encoder, EncoderConfig
from fewer.models.lstm import init_linear

L2Part = Literal["encoder", "key", "state", "output"]  # key: what attention makes of the encoder's output


class AedConfig(Config):
    kind: Literal["aed"] = "aed"
    vocab_size: int = Field(ge=1)  # end label (id 0) included
    encoder: EncoderConfig = EncoderConfig()
    decoder: DecoderConfig = DecoderConfig()
    energy: int = Field(default=1024, ge=1)  # the attention's inner dimension
    ctc: bool = True  # the auxiliary CTC branch

    @model_validator(mode="after")
    def _feed_forward_is_as_wide_as_the_energy(self) -> "AedConfig":
        if self.decoder.state == "feed_forward" and self.decoder.size != self.energy:
            raise ValueError(
                f"a feed-forward decoder's size is the energy dimension: set decoder.size to {self.energy}"
                f" (it is {self.decoder.size})"
            )
        return self


class AED(nn.Module):
    """Encoder, attention, decoder, and a CTC branch (blank = V) for training."""

    def __init__(self, config: AedConfig):
        super().__init__()
        self.config, self.vocab_size = config, config.vocab_size
        self.encoder = Encoder(config.encoder)
        self.decoder = Decoder(config.decoder, config.vocab_size, config.encoder.output)
        transform = config.decoder.state != "feed_forward"
        self.attention = Attention(config.encoder.output, config.decoder.size, config.energy, transform)
        self.ctc = init_linear(nn.Linear(config.encoder.output, config.vocab_size + 1)) if config.ctc else None

    def encode(self, features: Tensor, lengths: Tensor) -> Encoded:
        """(B, T, F), (B,) -> Encoded"""
        encoded: Encoded = self.encoder(features, lengths)
        return encoded

    def teacher_forced(self, encoded: Encoded, labels: Tensor) -> Decoded:
        """Logits (and attention) of every label given the true ones before it. (B, N) -> Decoded"""
        return self.decoder.teacher_forced(self.attention, self.attention.prepare(encoded), labels)

    def ctc_log_probs(self, encoded: Encoded) -> Tensor:
        """(B, T, V + 1)"""
        if self.ctc is None:
            raise ValueError("this model was built without a CTC branch")
        return functional.log_softmax(self.ctc(encoded.states), dim=-1)

    def l2_parameters(self, parts: Sequence[L2Part] | None = None) -> list[nn.Parameter]:
        """What L2 applies to, biases included. None: as in the authors' configurations of LSTM decoders (SPEC §2).

        There a plain LSTM state is among it and a zoneout LSTM is not.
        """
        if parts is None:
            parts = ("encoder", "key", "output", *(("state",) if self.config.decoder.state == "lstm" else ()))
        modules: dict[L2Part, list[Any]] = {
            "encoder": [*self.encoder.convolutions, *self.encoder.layers],
            "key": [self.attention.key],
            "output": [self.decoder.output],
            "state": [self.decoder.state],
        }
        return [parameter for part in parts for module in modules[part] for parameter in module.parameters()]
