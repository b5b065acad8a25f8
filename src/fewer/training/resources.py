"""How much memory and disk a training needs, by estimates that are printed before it starts."""

import math

from fewer.models.aed import AedConfig
from fewer.models.lm import TransformerLmConfig
from fewer.store.model_folder import ModelConfig
from fewer.training.configs import AedTrainConfig, TrainConfig
from fewer.training.trainer import OptimizerConfig

FLOAT = 4  # bytes
KEPT = 3  # checkpoints: the last two and the best


def moments(config: OptimizerConfig) -> int:
    """Numbers that the optimiser keeps for each parameter."""
    return 2 if config.kind == "adam" else 0


def state_bytes(config: TrainConfig, parameters: int, frozen: int = 0) -> float:
    """Weights, gradients and moments. frozen: parameters of a model that only listens."""
    return FLOAT * (parameters * (2 + moments(config.optimizer)) + frozen)


def activation_bytes(model: ModelConfig, size: int, labels_per_size: float) -> float:
    """What a batch of `size` padded frames (or labels) leaves behind for the backward pass on a GPU, in float32.

    Of BLSTM layers that is their inputs, gates, cells and outputs; of the decoder its inputs and state at each label;
    of softmaxes their logits, result and gradient. Energies of attention are computed again, not kept.
    """
    if not isinstance(model, AedConfig):
        width = getattr(model, "size", 0)
        layers = getattr(model, "layers", 1)
        per_label = 3 * model.vocab_size + 8 * width * layers
        if isinstance(model, TransformerLmConfig):
            per_label = 3 * model.vocab_size + layers * (8 * width + 2 * model.feed_forward)
        return FLOAT * size * per_label
    encoder, decoder, labels = model.encoder, model.decoder, size * labels_per_size
    numbers = 2.0 * size * encoder.features * encoder.filters * 1.5  # before and after each pooling
    frames = size / encoder.input_pool / encoder.input_stack
    for layer in range(encoder.layers):
        here = frames / math.prod(encoder.pools[:layer])
        numbers += here * (2 * 8 * encoder.size + (encoder.convolved if layer == 0 else 2 * encoder.size))
    states = size / encoder.reduction
    numbers += states * (3 * model.energy + 2 * encoder.output)
    numbers += states * 3 * (model.vocab_size + 1) if model.ctc else 0
    numbers += labels * (8 * decoder.size + 3 * encoder.output + 2 * decoder.readout + 3 * model.vocab_size)
    return FLOAT * numbers


def disk_bytes(config: TrainConfig, parameters: int) -> float:
    """Checkpoints with moments, the final weights, and tokenised text."""
    total = FLOAT * parameters * (KEPT * (1 + moments(config.optimizer)) + 1)
    if not isinstance(config, AedTrainConfig) and config.expected is not None:
        total += config.expected.labels * (2 if config.model.vocab_size <= 1 << 16 else 4)
        total += config.expected.sentences * 8
    return float(total)


def gigabytes(count: float) -> str:
    return f"{count / 1e9:.2g} GB" if count < 1e10 else f"{count / 1e9:,.0f} GB"
