"""Small recognisers with random parameters (biases included)."""

import torch

from fewer.models.aed import AED, AedConfig
from fewer.models.decoder import DecoderConfig
from fewer.models.encoded import Encoded
from fewer.models.encoder import EncoderConfig

VOCAB = 11
STATES = ["lstm", "zoneout_lstm", "feed_forward"]


def small_config(state: str = "lstm", history: int = 3) -> AedConfig:
    size = 10 if state == "feed_forward" else 8
    return AedConfig(
        vocab_size=VOCAB,
        encoder=EncoderConfig(features=8, filters=3, layers=3, size=5, pools=(3, 2), dropout=0.0),
        decoder=DecoderConfig(state=state, size=size, embedding=4, readout=6, dropout=0.0, history=history),  # type: ignore[arg-type]
        energy=10,
    )


def randomise(module: torch.nn.Module, seed: int = 0) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=generator))


def small_aed(state: str = "lstm", history: int = 3, seed: int = 0) -> AED:
    model = AED(small_config(state, history))
    randomise(model, seed)
    return model.eval()


def random_encoded(lengths: list[int], size: int = 10, seed: int = 1) -> Encoded:
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(len(lengths), max(lengths), size, generator=generator)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return Encoded(states * mask[:, :, None], torch.tensor(lengths))


def random_labels(batch: int, length: int, seed: int = 2) -> torch.Tensor:
    return torch.randint(1, VOCAB, (batch, length), generator=torch.Generator().manual_seed(seed))
