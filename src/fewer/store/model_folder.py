"""A model folder is what training leaves and everything else loads.

config.yaml             the resolved configuration; `model` and, for a recogniser, `features` describe what is here
model.safetensors       weights
tokenizer.json          labels
statistics.safetensors  mean and deviation of the features, if they are normalised by them
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml
from pydantic import Field
from torch import nn

from fewer.config import Config, parse_config, read_yaml
from fewer.data.extractor import FeaturesConfig
from fewer.data.reader import FeatureReader
from fewer.data.statistics import Statistics
from fewer.data.tokenizer import Tokenizer
from fewer.data.tokenizers import load_tokenizer
from fewer.errors import FewerError
from fewer.files import atomic_write, fingerprint
from fewer.models.aed import AED, AedConfig
from fewer.models.decoder import DecoderLikeLm, DecoderLikeLmConfig
from fewer.models.lm import LstmLm, LstmLmConfig, TransformerLm, TransformerLmConfig
from fewer.store.checkpoint import load_matching, load_tensors, save_tensors

CONFIG, WEIGHTS, TOKENIZER, STATISTICS = (
    "config.yaml",
    "model.safetensors",
    "tokenizer.json",
    "statistics.safetensors",
)

ModelConfig = AedConfig | LstmLmConfig | TransformerLmConfig | DecoderLikeLmConfig
Model = AED | LstmLm | TransformerLm | DecoderLikeLm


class Description(Config):
    """What config.yaml says of the model itself."""

    model: ModelConfig = Field(discriminator="kind")
    features: FeaturesConfig | None = None  # None: a language model


@dataclass(frozen=True)
class LoadedModel:
    """A trained model in evaluation mode, with all that belongs to it."""

    model: Model
    tokenizer: Tokenizer
    features: FeatureReader | None  # None: a language model
    fingerprint: str  # of weights and tokenizer
    folder: Path  # where it was
    cached: bool = False  # features of whole sets go through the cache of the model's training, if it has one

    @property
    def aed(self) -> AED:
        """The model, if it is a recogniser."""
        if not isinstance(self.model, AED):
            raise FewerError(f"this is a {self.model.config.kind}, but a recogniser (aed) is needed here")
        return self.model

    @property
    def lm(self) -> LstmLm | TransformerLm | DecoderLikeLm:
        """The model, if it is a language model."""
        if isinstance(self.model, AED):
            raise FewerError("this is a recogniser, but a language model is needed here")
        return self.model


def build_model(config: ModelConfig) -> Model:
    """A model with new weights."""
    if isinstance(config, AedConfig):
        return AED(config)
    if isinstance(config, LstmLmConfig):
        return LstmLm(config)
    return TransformerLm(config) if isinstance(config, TransformerLmConfig) else DecoderLikeLm(config)


def load_model(folder: str | Path, device: str | torch.device = "cpu", cached: bool = False) -> LoadedModel:
    """Load what `fewer train` left in a folder. cached: as in `LoadedModel`."""
    folder = Path(folder)
    description = read_description(folder)
    model = build_model(description.model)
    load_model_weights(model, folder)
    model.eval().requires_grad_(False).to(device)
    tokenizer = load_tokenizer(folder / TOKENIZER)
    check_labels(description.model, tokenizer, folder / TOKENIZER)
    marks = fingerprint(folder / WEIGHTS, tokenizer.fingerprint)
    return LoadedModel(model, tokenizer, feature_reader(folder, description.features), marks, folder, cached)


def read_description(folder: Path) -> Description:
    """The parts of config.yaml that describe the model."""
    path = folder / CONFIG
    if not folder.is_dir() or not path.exists():
        raise FewerError(f"{folder} is not a model folder: it has no {CONFIG}; give a folder that `fewer train` made")
    values = read_yaml(path)
    if not isinstance(values, dict):
        raise FewerError(f"{path} is not a configuration")
    return parse_config(Description, {key: values[key] for key in ("model", "features") if key in values}, path)


def load_model_weights(model: nn.Module, folder: Path, parts: tuple[str, ...] = ("",)) -> None:
    """Put the weights of a model folder, or those whose names begin so, into a model of the same shape."""
    path = folder / WEIGHTS
    if not path.exists() and (folder / "checkpoints").is_dir():
        raise FewerError(f"{folder} holds a training run that is not finished (no {WEIGHTS}); finish it first")
    tensors, _ = load_tensors(path, "is its training finished, and was it copied whole?")
    found, wanted = (
        {name: tensor for name, tensor in weights.items() if name.startswith(parts)}
        for weights in (tensors, model.state_dict())
    )
    load_matching(model, found, wanted, path)


def save_model(folder: Path, model: nn.Module) -> None:
    """Write the weights; the other files of the folder are there from the start of training."""
    save_tensors(folder / WEIGHTS, model.state_dict())


def feature_reader(folder: Path, config: FeaturesConfig | None) -> FeatureReader | None:
    """What reads features for the model of a folder."""
    if config is None:
        return None
    statistics = Statistics.load(folder / STATISTICS, config) if config.normalise == "global" else None
    return FeatureReader(config, statistics)


def check_labels(config: ModelConfig, tokenizer: Tokenizer, source: Path) -> None:
    """A label outside the vocabulary cannot be trained or recognised."""
    if config.vocab_size != tokenizer.size:
        raise FewerError(
            f"model.vocab_size is {config.vocab_size}, but {source} has {tokenizer.size} labels; "
            "give the model the tokenizer's size, or another tokenizer"
        )


def write_config(folder: Path, values: dict[str, Any]) -> None:
    with atomic_write(folder / CONFIG) as stream:
        yaml.safe_dump(values, stream, sort_keys=False, allow_unicode=True)
