"""What a training configuration says. `model.kind` decides what is trained: aed, lstm_lm, transformer_lm or
decoder_like_lm."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from fewer.config import Config, parse_config
from fewer.data.augment import SpecAugmentConfig
from fewer.data.batches import UtteranceConfig
from fewer.data.extractor import FeaturesConfig, MfccConfig
from fewer.data.spelling import Case
from fewer.data.text import SentenceConfig
from fewer.data.tokenizers import load_tokenizer
from fewer.errors import FewerError
from fewer.models.aed import AedConfig, L2Part
from fewer.models.decoder import DecoderLikeLmConfig
from fewer.models.lm import LstmLmConfig, TransformerLmConfig
from fewer.training.growing import GrowingConfig
from fewer.training.trainer import TrainerConfig

LmConfig = Annotated[LstmLmConfig | TransformerLmConfig | DecoderLikeLmConfig, Field(discriminator="kind")]
WITHOUT_EFFECT = {"device", "workers", "checkpoint_minutes", "tensorboard", "expected"}
ENDING = {"sub_epochs", "final"}  # they decide only where training ends: it may go on with others


class ExpectedSpeech(Config):
    """How much data there will be, for a dry run where it is not at hand."""

    utterances: int = Field(ge=1)
    hours: float = Field(gt=0)
    labels: int = Field(ge=1)  # end labels counted
    vocab_size: int | None = Field(default=None, ge=1)  # of the model, where the tokenizer is not there either


class ExpectedText(Config):
    """How much data there will be, for a dry run where it is not at hand."""

    sentences: int = Field(ge=1)
    labels: int = Field(ge=1)  # end labels counted
    vocab_size: int | None = Field(default=None, ge=1)  # of the model, where the tokenizer is not there either


class SpeechConfig(Config):
    train: Path  # manifest
    dev: Path  # manifest
    statistics: Path | None = None  # features' mean and deviation; None: those of `initial`, or of the training set
    batches: UtteranceConfig = UtteranceConfig.model_validate({})  # of the training set; dev takes its sizes
    skip_bad: bool = False  # leave out lines of the manifests that cannot be used, instead of an error


class TextConfig(Config):
    train: tuple[Path, ...]  # texts (plain, gz, xz) or manifests, whose transcripts are taken
    dev: tuple[Path, ...]
    batches: SentenceConfig = SentenceConfig.model_validate({})  # of the training text; dev takes its sizes
    case: Case = "none"  # how text is changed before it is tokenised
    allow_unknown: bool = False  # text may hold what the vocabulary lacks
    store: Path | None = None  # where tokenised text is kept, to share it between runs; None: in the run folder


class ExternalLmConfig(Config):
    """Training with a frozen LM in the softmax (local fusion, SPEC §5); decode such a model with no ILM term."""

    model: Path  # folder of a trained LM with the same tokenizer, or n-gram file of its labels
    scale: float = Field(gt=0)  # λ; the tuned scale of shallow fusion is a good one


class GuideConfig(Config):
    """Attention is drawn to the diagonal in the first sub-epochs: with little data it may take very long to begin."""

    last: int = Field(ge=1)  # sub-epoch to which it holds
    scale: float = Field(default=1.0, gt=0)
    width: float = Field(default=0.1, gt=0)  # how far from the diagonal is near, as a share of the utterance


class _TrainConfig(TrainerConfig):
    tokenizer: Path  # tokenizer.json
    initial: Path | None = None  # folder of a model whose weights training starts from; None: new weights


class AedTrainConfig(_TrainConfig):
    initial_part: Literal["all", "encoder"] = "all"  # of `initial`; encoder: with its CTC branch, under a new decoder
    model: AedConfig
    data: SpeechConfig
    features: FeaturesConfig = MfccConfig()
    augment: SpecAugmentConfig | None = SpecAugmentConfig()
    growing: GrowingConfig | None = None  # None: the whole network from the start
    smoothing: float = Field(default=0.1, ge=0, lt=1)  # label smoothing
    smoothing_from: int = Field(default=1, ge=1)  # sub-epoch with which it begins
    ctc_scale: float = Field(default=1.0, ge=0)
    encoder_first: int = Field(default=0, ge=0)  # so many sub-epochs train the encoder by CTC alone, which is quick
    l2: float = Field(default=1e-4, ge=0)  # l2·Σw² for every batch
    l2_parts: tuple[L2Part, ...] | None = None  # what it applies to; None: encoder, key, output, and an LSTM state
    external_lm: ExternalLmConfig | None = None
    guide: GuideConfig | None = None  # None: attention finds its way alone, as in the paper
    expected: ExpectedSpeech | None = None

    @model_validator(mode="after")
    def _parts_agree(self) -> "AedTrainConfig":
        if self.growing is not None:
            if problem := self.growing.problem(self.model.encoder.layers):
                raise ValueError(problem)
            if (last := max(self.growing.starts, default=0)) > self.sub_epochs:
                raise ValueError(
                    f"growing.starts: training ends with sub-epoch {self.sub_epochs}, before the encoder has all of "
                    f"its layers; set sub_epochs to {last} or more, or let it grow earlier"
                )
            if self.initial is not None:
                raise ValueError("initial: a model that starts from given weights does not grow; leave out `growing`")
        if self.initial_part != "all" and self.initial is None:
            raise ValueError("initial_part: of which model? Name its folder in `initial`")
        if self.model.ctc != (self.ctc_scale > 0):
            raise ValueError("model.ctc and ctc_scale: with the CTC branch its scale is above 0, without it 0")
        if self.encoder_first and not self.ctc_scale:
            raise ValueError("encoder_first: it is CTC that trains the encoder first; set model.ctc and ctc_scale")
        if self.features.kind != "pretrained" and self.features.dim != self.model.encoder.features:
            raise ValueError(
                f"features.dim is {self.features.dim}, but model.encoder.features is {self.model.encoder.features}"
            )
        return self


class LmTrainConfig(_TrainConfig):
    model: LmConfig
    data: TextConfig
    smoothing: float = Field(default=0.0, ge=0, lt=1)  # label smoothing
    expected: ExpectedText | None = None

    @model_validator(mode="after")
    def _only_recognisers_are_smoothed_on_dev(self) -> "LmTrainConfig":
        if self.schedule.newbob is not None and self.schedule.newbob.measure == "smoothed":
            raise ValueError("schedule.newbob.measure: `smoothed` is for recognisers; take ce or perplexity")
        return self


TrainConfig = AedTrainConfig | LmTrainConfig
KINDS: dict[str, type[AedTrainConfig] | type[LmTrainConfig]] = {
    "aed": AedTrainConfig,
    "lstm_lm": LmTrainConfig,
    "transformer_lm": LmTrainConfig,
    "decoder_like_lm": LmTrainConfig,
}


def parse_train_config(values: Any, source: str | Path) -> TrainConfig:
    """Validate a configuration read from `source`."""
    model = values.get("model") if isinstance(values, dict) else None
    kind = model.get("kind", "aed") if isinstance(model, dict) else None
    if not isinstance(model, dict) or kind not in KINDS:
        raise FewerError(f"{source}: model.kind: what is to be trained? one of {', '.join(KINDS)} (found {kind!r})")
    if "vocab_size" not in model and (size := _labels(values)) is not None:
        values = values | {"model": model | {"vocab_size": size}}
    return parse_config(KINDS[kind], values, source)


def _labels(values: dict[str, Any]) -> int | None:
    """How many labels the tokenizer has; if it is not there, how many are expected."""
    tokenizer, expected = values.get("tokenizer"), values.get("expected")
    if isinstance(tokenizer, str) and Path(tokenizer).exists():
        return load_tokenizer(tokenizer).size
    return expected.get("vocab_size") if isinstance(expected, dict) else None


def effective(config: TrainConfig, only_set: bool = False, ending: bool = False) -> dict[str, Any]:
    """What of a configuration decides the trained weights at each sub-epoch, as JSON values.

    only_set: without what has its default, so that an option that a later version adds changes nothing.
    ending: also what decides which weights are the final ones.
    """
    exclude = WITHOUT_EFFECT if ending else WITHOUT_EFFECT | ENDING
    return config.model_dump(mode="json", exclude=exclude, exclude_defaults=only_set)


def changed_keys(old: Any, new: Any, prefix: str = "") -> list[str]:
    """Dotted keys in which two configurations differ, with both values."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = [*old, *(key for key in new if key not in old)]
        return [line for key in keys for line in changed_keys(old.get(key), new.get(key), f"{prefix}.{key}".strip("."))]
    return [] if old == new else [f"{prefix}: {json.dumps(old)} there, {json.dumps(new)} now"]
