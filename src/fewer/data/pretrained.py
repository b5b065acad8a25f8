"""The frozen encoder of a pretrained Hugging Face speech model, as features.

Utterances are encoded one at a time: without padding no frame depends on a batch, and on a CPU padded batches are
slower even when they are sorted by length. (In batches, Whisper's large activations change its states by some 1e-4.)
"""

import math
from abc import abstractmethod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fewer.data.extractor import FeatureExtractor, PretrainedConfig
from fewer.data.whisper_checks import check_model
from fewer.data.whisper_encoder import WhisperEncoder
from fewer.errors import FewerError
from fewer.hugging_face import loading
from fewer.progress import quiet_loading

WAVEFORM_MODELS = ("wav2vec2", "hubert", "wavlm", "data2vec-audio", "unispeech", "unispeech-sat")


class PretrainedFeatures(FeatureExtractor):
    """What such encoders share: loading, freezing and pooling."""

    def __init__(self, config: PretrainedConfig, encoder: nn.Module, prepare: Any):
        super().__init__()
        self.config, self.prepare = config, prepare
        self.encoder = encoder.float().eval().requires_grad_(False)
        self.sampling_rate = prepare.sampling_rate
        if config.sampling_rate != self.sampling_rate:
            raise FewerError(
                f"features.sampling_rate: {config.model} takes audio at {self.sampling_rate} Hz, "
                f"found {config.sampling_rate} Hz"
            )

    def train(self, mode: bool = True) -> "PretrainedFeatures":
        """Stays in evaluation mode: the encoder is frozen."""
        return super().train(False)

    def frames(self, num_samples: int) -> int:
        return math.ceil(self.encoder_frames(num_samples) / self.config.pool)

    def extract(self, samples: Tensor) -> Tensor:
        return pool_frames(self.encode(samples), self.config.pool, self.config.pooling)

    def inputs(self, samples: Tensor, padding: str) -> Tensor:
        """What the model's own preprocessing makes of an utterance, as a batch of one."""
        device = next(self.encoder.parameters()).device
        prepared = self.prepare(
            samples.cpu().numpy(), sampling_rate=self.sampling_rate, padding=padding, return_tensors="pt"
        )
        return prepared[self.prepare.model_input_names[0]].to(device)

    @abstractmethod
    def encoder_frames(self, num_samples: int) -> int:
        """How many frames the encoder itself gives."""

    @abstractmethod
    def encode(self, samples: Tensor) -> Tensor:
        """(T,) -> (T', D) before pooling."""


class WhisperFeatures(PretrainedFeatures):
    """Whisper's encoder, by default on the utterance alone instead of the padded 30 s; longer ones in equal pieces."""

    encoder: WhisperEncoder

    def __init__(self, config: PretrainedConfig, encoder: WhisperEncoder, prepare: Any):
        super().__init__(config, encoder, prepare)
        options = encoder.config
        self.dim = options.d_model * (config.pool if config.pooling == "stack" else 1)
        self.shift = 2 * prepare.hop_length * config.pool
        self.min_samples = prepare.n_fft
        self.max_samples = 2 * options.max_source_positions * prepare.hop_length

    def encoder_frames(self, num_samples: int) -> int:
        return math.ceil(num_samples // self.prepare.hop_length / 2)

    def encode(self, samples: Tensor) -> Tensor:
        pieces, frame = math.ceil(len(samples) / self.max_samples), 2 * self.prepare.hop_length
        piece = math.ceil(len(samples) / pieces / frame) * frame  # whole frames, so that none is lost between two
        return torch.cat([self.encode_piece(part) for part in samples.split(piece)])

    def encode_piece(self, samples: Tensor) -> Tensor:
        """At most 30 s. (T,) -> (T', D)"""
        if self.config.full_window:
            states = self.encoder.windows([self.inputs(samples, "max_length")[0].T])[0]
            return states[: self.encoder_frames(len(samples))]
        return self.encoder.alone(self.inputs(samples, "longest")[0].T)


class WaveformFeatures(PretrainedFeatures):
    """Encoders that read samples directly: wav2vec 2.0 and its relatives."""

    def __init__(self, config: PretrainedConfig, encoder: nn.Module, prepare: Any):
        super().__init__(config, encoder, prepare)
        options: Any = encoder.config
        self.convolutions = list(zip(options.conv_kernel, options.conv_stride, strict=True))
        self.dim = options.hidden_size * (config.pool if config.pooling == "stack" else 1)
        self.shift = math.prod(options.conv_stride) * config.pool
        self.min_samples = 1
        for kernel, stride in reversed(self.convolutions):
            self.min_samples = (self.min_samples - 1) * stride + kernel
        if config.full_window:
            raise FewerError(f"features.full_window: only Whisper has one, {config.model} is {options.model_type}")

    def encoder_frames(self, num_samples: int) -> int:
        for kernel, stride in self.convolutions:
            num_samples = (num_samples - kernel) // stride + 1
        return num_samples

    def encode(self, samples: Tensor) -> Tensor:
        return self.encoder(self.inputs(samples, "longest")).last_hidden_state[0]


def pretrained_features(config: PretrainedConfig) -> PretrainedFeatures:
    """Load the model's encoder from a folder or the hub."""
    try:
        from transformers import AutoConfig, AutoFeatureExtractor, AutoModel
    except ImportError as error:
        raise FewerError("features of kind 'pretrained' need transformers: pip install 'fewer[hf]'") from error
    name = str(Path(config.model).expanduser()) if Path(config.model).expanduser().is_dir() else config.model
    with loading(name, f"features.model: cannot load {config.model}"), quiet_loading(name):
        about = AutoConfig.from_pretrained(name, trust_remote_code=False)
        kind = about.model_type
        if kind != "whisper" and kind not in WAVEFORM_MODELS:
            known = ", ".join(("whisper", *WAVEFORM_MODELS))
            raise FewerError(f"features.model: {config.model} is of type '{kind}'; known are {known}")
        if kind == "whisper":
            check_model(about, name)
        model = AutoModel.from_pretrained(name, dtype=torch.float32, trust_remote_code=False, use_safetensors=True)
        prepare = AutoFeatureExtractor.from_pretrained(name, trust_remote_code=False)
    if kind == "whisper":
        return WhisperFeatures(config, WhisperEncoder(model.encoder), prepare)
    return WaveformFeatures(config, model, prepare)


def pool_frames(states: Tensor, size: int, pooling: str) -> Tensor:
    """Make one frame of every `size`: their mean, or all side by side (the last filled up with zeros).

    (T, D) -> (ceil(T / size), D or size · D)
    """
    frames, dim = states.shape
    groups = math.ceil(frames / size)
    padded = nn.functional.pad(states, (0, 0, 0, groups * size - frames)).view(groups, size, dim)
    if pooling == "stack":
        return padded.flatten(1)
    counts = (frames - size * torch.arange(groups, device=states.device)).clamp(max=size)
    return padded.sum(1) / counts[:, None]
