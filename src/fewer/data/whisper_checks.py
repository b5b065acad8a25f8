"""What is checked of a Whisper's configuration files when they are loaded, so that later nothing doubts a number."""

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fewer.config import complaints
from fewer.data.limits import HIGHEST_RATE, LOWEST_RATE
from fewer.errors import FewerError

Size = Annotated[int, Field(ge=1, le=1 << 20)]
Dropout = Annotated[float, Field(ge=0, le=1)]
Labels = list[Annotated[int, Field(ge=-1)]]


class _Fields(BaseModel):
    model_config = ConfigDict(strict=True, allow_inf_nan=False, from_attributes=True)


Checked = TypeVar("Checked", bound=_Fields)


class _Model(_Fields):
    """config.json"""

    vocab_size: Annotated[int, Field(ge=1, le=1 << 24)]
    num_mel_bins: Annotated[int, Field(ge=1, le=1024)]
    max_source_positions: Annotated[int, Field(ge=1, le=100_000)]
    max_target_positions: Annotated[int, Field(ge=1, le=100_000)]
    d_model: Size
    encoder_layers: Annotated[int, Field(ge=1, le=1000)]
    decoder_layers: Annotated[int, Field(ge=1, le=1000)]
    encoder_attention_heads: Size
    decoder_attention_heads: Size
    encoder_ffn_dim: Size
    decoder_ffn_dim: Size
    dropout: Dropout
    attention_dropout: Dropout
    activation_dropout: Dropout
    encoder_layerdrop: Dropout
    decoder_layerdrop: Dropout


MODEL_FIELDS = frozenset(_Model.model_fields)


class Preprocessor(_Fields):
    """preprocessor_config.json"""

    feature_size: Annotated[int, Field(ge=1, le=1024)] = 80
    sampling_rate: Annotated[int, Field(ge=LOWEST_RATE, le=HIGHEST_RATE)] = 16000
    hop_length: Annotated[int, Field(ge=1, le=10_000)] = 160
    chunk_length: Annotated[int, Field(ge=1, le=600)] = 30
    n_fft: Annotated[int, Field(ge=2, le=1 << 16)] = 400
    dither: Annotated[float, Field(ge=0, le=0)] = 0.0  # noise would make results differ from run to run


class _Generation(_Fields):
    """generation_config.json"""

    is_multilingual: bool | None = None
    suppress_tokens: Labels | None = None
    begin_suppress_tokens: Labels | None = None
    alignment_heads: list[Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=2, max_length=2)]] | None = None


def check_model(config: Any, source: str) -> None:
    """config: a WhisperConfig. source: the model, for messages."""
    _check(_Model, config, f"{source}/config.json")


def check_preprocessor(values: Any, config: Any, source: str) -> Preprocessor:
    """values: of the file. The features must be those that the encoder reads."""
    where = f"{source}/preprocessor_config.json"
    found = _check(Preprocessor, values, where)
    if found.feature_size != config.num_mel_bins:
        raise FewerError(
            f"{where}: feature_size is {found.feature_size}, but num_mel_bins of config.json is {config.num_mel_bins}"
        )
    frames = found.chunk_length * found.sampling_rate // found.hop_length
    if frames != 2 * config.max_source_positions:
        raise FewerError(
            f"{where}: {frames} frames (chunk_length · sampling_rate / hop_length) do not fit "
            f"{config.max_source_positions} max_source_positions of config.json, half as many"
        )
    return found


def check_generation(generation: Any, config: Any, source: str) -> None:
    """generation: a GenerationConfig. Its labels and heads must be the model's."""
    where = f"{source}/generation_config.json"
    found = _check(_Generation, generation, where)
    for name in ("suppress_tokens", "begin_suppress_tokens"):
        for label in getattr(found, name) or ():
            if label >= config.vocab_size:
                raise FewerError(f"{where}: {name} has {label}, but the model has {config.vocab_size:,} labels")
    for layer, head in found.alignment_heads or ():
        if layer >= config.decoder_layers or head >= config.decoder_attention_heads:
            raise FewerError(
                f"{where}: alignment_heads has [{layer}, {head}], but the decoder has {config.decoder_layers} layers "
                f"of {config.decoder_attention_heads} heads"
            )


def _check(kind: type[Checked], values: Any, where: str) -> Checked:
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise FewerError(complaints(error, where)) from error
