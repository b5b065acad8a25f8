"""What a recogniser of transformers hears: samples, which its own feature extractor then reads."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from fewer.data.audio import load_audio, where
from fewer.errors import FewerError
from fewer.progress import warn

TOO_LONG = 10  # seconds over the limit that are cut off with a message; more is an error
SHORTEST = 0.1  # seconds: shorter audio is filled up with silence, of which every encoder makes a state


def read_audio(cut: Any, rate: int, longest: int, speed: float = 1.0) -> Tensor:
    """The samples of an utterance; of one that is a little too long, the first. longest: samples. (T,)"""
    samples = load_audio(cut, rate, speed)
    if longest < len(samples) <= longest + TOO_LONG * rate:
        limit = longest / rate
        warn(f"{where(cut)} lasts {cut.duration:.1f} s; the recogniser hears its first {limit:.0f} s only")
        samples = samples[:longest]
    return samples


def check_audio(samples: Tensor, rate: int, longest: int) -> None:
    """One channel, and no more than can be heard at once. (T,)"""
    if samples.ndim != 1 or not len(samples):
        raise FewerError(f"expected the samples of one channel, found an array of shape {tuple(samples.shape)}")
    if len(samples) > longest:
        raise FewerError(
            f"the audio lasts {len(samples) / rate:.1f} s, but the recogniser hears at most {longest / rate:.0f} s at "
            "once; cut it into shorter segments"
        )


class Samples:
    """Utterances as they are; a `Features` of `fewer.data.batches` of one number for each frame."""

    dim = 1

    def __init__(self, sampling_rate: int, longest: float):
        """longest: seconds."""
        self.sampling_rate, self.frame_shift = sampling_rate, 1 / sampling_rate
        self.max_samples = round(longest * sampling_rate)

    def read(self, cut: Any, speed: float = 1.0) -> Tensor:
        """(T, 1) float32"""
        samples = read_audio(cut, self.sampling_rate, self.max_samples, speed)
        try:
            check_audio(samples, self.sampling_rate, self.max_samples)
        except FewerError as error:
            raise FewerError(f"{where(cut)}: {error}") from error
        return samples[:, None]

    def filled(self, samples: Tensor) -> Tensor:
        """With silence at the end where they are too few. (T,)"""
        check_audio(samples, self.sampling_rate, self.max_samples)
        return functional.pad(samples, (0, max(0, round(SHORTEST * self.sampling_rate) - len(samples))))


class Encoder:
    """The encoder of a model, and what stands between it and the decoder's attention. One utterance at a time: then
    nothing depends on the batch, and no family has to be trusted with padding."""

    def __init__(self, encoder: Any, bridge: torch.nn.Module, extractor: Any, options: dict[str, Any]):
        """extractor: the model's own. options: of its call."""
        self.encoder, self.bridge = encoder.eval().requires_grad_(False), bridge.eval().requires_grad_(False)
        self.extractor = extractor
        self.options = {"return_tensors": "pt", "return_attention_mask": True, "padding": True, **options}
        self.input: str = encoder.main_input_name

    def __call__(self, samples: Tensor) -> Tensor:
        """(T,) -> (states, D)"""
        given = self.extractor(samples.numpy(), sampling_rate=self.extractor.sampling_rate, **self.options)
        weight = next(self.encoder.parameters())
        features = given[self.input].to(weight.device, weight.dtype)
        mask = given["attention_mask"].to(weight.device) if "attention_mask" in given else None
        output = self.encoder(features, attention_mask=mask)
        states = output.last_hidden_state
        if (heard := getattr(output, "attention_mask", None)) is not None:
            states = states[:, : int(heard.sum())]
        bridged: Tensor = self.bridge(states.float())[0]
        return bridged
