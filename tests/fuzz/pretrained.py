"""Kinds of files that other libraries write: models of transformers; and bundles with the base that they name."""

from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from unittest.mock import patch

from tests.fuzz.kind import Kind, room

FAMILIES = {"speech_to_text": None, "cohere_asr": "en", "canary": "en", "moonshine": None, "moonshine_streaming": None}


@cache
def family(kind: str) -> Path:
    """An encoder-decoder of transformers that is no Whisper."""
    from tests.recognisers.families import make_model

    return make_model(room() / kind, kind)


def use_family(place: Path, language: str | None) -> None:
    from fewer.recognisers.loader import load_recogniser
    from tests.recognisers.tiny import noises

    recogniser = load_recogniser(place, language)
    recogniser.scorer({})
    recogniser.listen(noises(1))


@cache
def causal_lm() -> Path:
    from tests.store.test_hf_words import make_lm

    return make_lm(room() / "causal")


def use_causal_lm(place: Path) -> None:
    """Word by word, since its tokens are not the recogniser's."""
    import torch

    from fewer.store.hf_words import load_hf_over
    from tests.fuzz.kinds import tokenizer

    lm = load_hf_over(str(place), tokenizer())
    lm.log_probs(torch.tensor([[3, 4, 2, 5, 6, 2]]))


def use_bundle_alone(place: Path) -> None:
    """With the base that it names, which is not asked for elsewhere."""
    from fewer.adaptation.bundle import load_bundle

    with patch("huggingface_hub.constants.HF_HUB_OFFLINE", True):
        load_bundle(place).fusion()


def pretrained() -> Iterator[Kind]:
    from tests.fuzz.kinds import bundle

    for name, language in FAMILIES.items():
        yield Kind(name, partial(family, name), partial(use_family, language=language), "*.json", share=0.1)
    yield Kind("causal-lm", causal_lm, use_causal_lm, "*.json", share=0.2)
    yield Kind("base", bundle, use_bundle_alone, "bundle.json", share=0.1)
