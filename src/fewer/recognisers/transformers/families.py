"""The families of encoder-decoder recognisers in transformers, each by a few facts.

All have a Transformer decoder of pre-norm layers with self-attention, cross-attention and feed-forward blocks
(`decoder.py`). A family says what its modules are called, how its decoder knows positions, what stands between encoder
and cross-attention, what it reads first, and what it hears. Whisper is one of them, with more of its own in
`recognisers/whisper`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from fewer.config import shown
from fewer.data.tokenizer import Tokenizer
from fewer.errors import FewerError
from fewer.recognisers.transformers.decoder import BART, LLAMA, Layout, Positions

CANARY = "bg hr cs da nl en et fi fr de el hu it lv lt mt pl pt ro sk sl es sv ru uk"
COHERE = "ar de el en es fr it ja ko nl pl pt vi zh"
PROMPT = (
    *("<|startofcontext|>", "<|startoftranscript|>", "<|emo:undefined|>", "<|{spoken}|>", "<|{written}|>"),
    *("<|pnc|>", "<|noitn|>", "<|notimestamp|>", "<|nodiarize|>"),  # cased and punctuated
)


@dataclass(frozen=True)
class Family:
    """What the adapter has to know of a kind of model."""

    model: str  # its class in transformers
    layout: Layout
    positions: Callable[[Any], Positions]  # of a model's decoder
    state: float  # seconds of an encoder state
    scaled: bool = False  # embeddings of labels are multiplied by what the decoder calls embed_scale
    bridge: Callable[[Any], nn.Module] = lambda decoder: nn.Identity()  # from encoder states to what attention sees
    prompt: Sequence[str] = ()  # labels read first, with {spoken} and {written} languages; none: the start label
    languages: Sequence[str] | None = None  # that it knows; None: those that its labels name, if they do
    language_label: str = "<|{}|>"
    translates: bool = False  # to English, if asked to
    longest: float = 30.0  # seconds that it should hear at once
    labels_per_second: float | None = None  # more of them are a loop; None: it has no such limit
    silence: float = 0.0  # amplitude of noise that stands for silence where zeros have no features
    extractor: Mapping[str, Any] = field(default_factory=dict)  # options of its features


def learned(name: str) -> Callable[[Any], Positions]:
    """Positions are an embedding of this name."""
    return lambda decoder: Positions(_numbers(getattr(decoder, name).weight))


def sinusoids(decoder: Any) -> Positions:
    """Canary's: a table that is not trained, scaled."""
    places = torch.arange(decoder.config.max_position_embeddings, device=decoder.embed_tokens.weight.device)
    return Positions(_numbers(decoder.pos_emb(places)))


def after_padding(decoder: Any) -> Positions:
    """Speech2Text's: a table that is not trained, and whose first rows are not for labels."""
    return Positions(_numbers(decoder.embed_positions.weights[decoder.padding_idx + 1 :]))


def rotary(decoder: Any) -> Positions:
    """Moonshine's: pairs of neighbouring numbers of a head are rotated."""
    places = torch.arange(decoder.config.max_position_embeddings, device=decoder.embed_tokens.weight.device)
    turns = torch.cat(decoder.rotary_emb(decoder.embed_tokens.weight.float(), position_ids=places[None]))
    half = turns[..., : turns.shape[-1] // 2]  # (2, positions, R / 2)
    return Positions(rotation=_numbers(half.repeat_interleave(2, dim=-1)))


class Placed(nn.Module):
    """Moonshine's streaming encoder knows no positions: they are added to its states."""

    def __init__(self, decoder: Any):
        super().__init__()
        self.positions, self.proj = decoder.pos_emb, decoder.proj

    def forward(self, states: Tensor) -> Tensor:
        """(B, T, D_enc) -> (B, T, D)"""
        if states.shape[1] > self.positions.num_embeddings:
            raise FewerError(f"the audio is too long: it has {states.shape[1]} encoder states; cut it into segments")
        return self.proj(states + self.positions.weight[: states.shape[1]])


def _numbers(values: Tensor) -> Tensor:
    return values.detach().float().clone()


FAMILIES = {
    "whisper": Family("WhisperForConditionalGeneration", BART, learned("embed_positions"), state=0.02),
    "cohere_asr": Family(
        "CohereAsrForConditionalGeneration",
        LLAMA,
        learned("pos_emb"),
        state=0.08,
        bridge=lambda decoder: decoder.proj,
        prompt=("▁", *PROMPT),
        languages=COHERE.split(),
        longest=35.0,
    ),
    "canary": Family(
        "CanaryForConditionalGeneration",
        LLAMA,
        sinusoids,
        state=0.08,
        prompt=PROMPT,
        languages=CANARY.split(),
        translates=True,
        longest=40.0,
    ),
    "moonshine": Family(
        "MoonshineForConditionalGeneration", LLAMA, rotary, state=0.024, labels_per_second=6.5, languages=()
    ),
    "moonshine_streaming": Family(
        "MoonshineStreamingForConditionalGeneration",
        LLAMA,
        rotary,
        state=0.02,
        bridge=Placed,
        labels_per_second=6.5,
        languages=(),
        extractor={"pad_to_multiple_of": 80},
    ),
    "speech_to_text": Family(
        "Speech2TextForConditionalGeneration",
        BART,
        after_padding,
        state=0.04,
        scaled=True,
        prompt=("{start}", "<lang:{written}>"),
        language_label="<lang:{}>",
        silence=1e-5,
    ),
}

# Kinds that people may try, and why there is no cross-attention whose output could be replaced.
NO_DECODER = "it has no attention decoder (CTC or a transducer), and so no internal LM in the sense of this tool"
PREFIX = "it is a decoder-only model: audio is a prefix of a language model's input, not heard by cross-attention"
PREFIX_MODELS = (
    *("audioflamingo3", "fun_asr_nano", "glmasr", "granite_speech", "granite_speech5", "granite_speech_plus"),
    *("kyutai_speech_to_text", "qwen2_audio", "qwen3_asr", "vibevoice_asr", "voxtral", "voxtral_realtime"),
)


def family_of(config: Mapping[str, Any], source: str) -> Family:
    """The family of a model by its config.json; an error that says what is missing."""
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    kind = config.get("model_type")
    what = f"{source} is a model of type {shown(kind)} (config.json)"
    kind = str(kind)
    family = FAMILIES.get(kind)
    if family is not None:
        if not hasattr(transformers, family.model):
            raise FewerError(
                f"{what}, which transformers {transformers.__version__} does not have: it lacks {family.model}; "
                "pip install --upgrade transformers"
            )
        return family
    known = f"known are {', '.join(FAMILIES)}"
    heads = [str(name) for name in config.get("architectures") or ()]
    if kind in PREFIX_MODELS:
        raise FewerError(f"{what}: {PREFIX}; {known}")
    if any(name.endswith(("ForCTC", "ForRNNT", "ForTDT")) for name in heads):
        raise FewerError(f"{what}: {NO_DECODER}; {known}")
    usual = kind in CONFIG_MAPPING and getattr(CONFIG_MAPPING[kind], "is_encoder_decoder", False)
    if not config.get("is_encoder_decoder", usual):
        raise FewerError(f"{what}, which is not an attention-based encoder-decoder recogniser; {known}")
    raise FewerError(f"{what}, an encoder-decoder that fewer does not know: its facts are missing; {known}")


def languages_of(family: Family, labels: Sequence[str]) -> dict[str, int]:
    """The label of each language that a model knows; none if it does not tell languages apart."""
    ids = {label: id for id, label in enumerate(labels)}
    before, after = family.language_label.split("{}")
    named = family.languages
    if named is None:
        marked = [label for label in labels if label.startswith(before) and label.endswith(after)]
        named = [label.removeprefix(before).removesuffix(after) for label in marked]
    spelled = {name: family.language_label.format(name) for name in named}
    return {name: ids[label] for name, label in spelled.items() if label in ids}


def prompt_of(
    family: Family, tokenizer: Tokenizer, start: int | None, language: str | None, task: str, detect: bool = False
) -> list[int]:
    """What the decoder reads first, as in `generate`, which begins with the label that starts a text (`start`).

    detect: a language would be detected, which these families cannot.
    """
    labels, languages = tokenizer.labels, languages_of(family, tokenizer.labels)
    if start is not None and not (isinstance(start, int) and 0 <= start < len(labels)):
        raise FewerError(
            f"generation_config.json says that texts start with {shown(start)} (decoder_start_token_id or "
            f"bos_token_id), which is none of the {len(labels)} labels"
        )
    if task == "translate" and not family.translates:
        raise FewerError("this model only transcribes: leave out the task translate")
    if not languages:
        if start is None:
            raise FewerError("the model names no start label: config.json has no decoder_start_token_id")
        return [start]
    if language is None:
        why = "it cannot detect languages itself: " if detect else ""
        raise FewerError(
            f"this model knows {len(languages)} languages: {why}say which one is spoken, such as --language en "
            "(language='en')"
        )
    if language not in languages:
        raise FewerError(f"language {language!r} is not one of this model: {', '.join(sorted(languages))}")
    written = "en" if task == "translate" else language
    first = "" if start is None else labels[start]
    wanted = [part.format(start=first, spoken=language, written=written) for part in family.prompt]
    if lacking := [label for label in wanted if label not in labels]:
        raise FewerError(f"the tokenizer lacks what the model reads first: {', '.join(lacking)}")
    prompt = [labels.index(label) for label in wanted]
    return prompt if start is None or start == prompt[0] else [start, *prompt]
