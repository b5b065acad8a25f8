"""The perplexity of any language model on a text or a manifest."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from fewer.data.spelling import check_case
from fewer.data.text import SentenceBatches, SentenceConfig
from fewer.data.token_store import TokenStore, store_tokens
from fewer.data.tokenizer import Tokenizer
from fewer.decoding.system import load_lm_and_tokenizer
from fewer.errors import FewerError
from fewer.files import read_json
from fewer.ilm.estimate import ilm_perplexity
from fewer.ilm.folder import FACTS, AdaptedRecogniser, load_ilm
from fewer.ilm.perplexity import perplexity, shown
from fewer.models.lm import LanguageModel
from fewer.store.model_folder import LoadedModel, load_model

LABELS, SCORES = 4000, 50_000_000  # in a batch, at the most: labels, and what is said of them


def measure(lm: str | Path, text: Path, model: str | Path | None = None, case: str = "none") -> dict[str, Any]:
    """Per label and per word; an internal LM that hears the utterance needs a manifest as text."""
    if (Path(lm) / FACTS).exists():
        if model is None:
            raise FewerError(f"{lm} is an internal LM: give its recogniser with --model")
        recogniser = load_adapted(model, read_json(Path(lm) / FACTS)["config"].get("language"))
        ilm = load_ilm(lm, recogniser)
        if ilm.context is not None and ilm.context.needs_encoder:
            return ilm_perplexity(recogniser, lm, text)
        return of_text(ilm.language_model(recogniser), recogniser.tokenizer, text, case)
    return of_text(*load_lm_and_tokenizer(lm, model), text, case)


def load_adapted(model: str | Path, language: str | None) -> LoadedModel | AdaptedRecogniser:
    """A recogniser of `fewer train`, or a Whisper."""
    from fewer.recognisers.whisper.recogniser import is_whisper, load_whisper

    return load_whisper(model, language) if is_whisper(model) else load_model(model, cached=True)


def of_text(lm: LanguageModel, tokenizer: Tokenizer, text: Path, case: str = "none") -> dict[str, Any]:
    """Of a text file, or of the transcripts of a manifest."""
    with tempfile.TemporaryDirectory() as folder:
        store = store_tokens([text], tokenizer, folder, check_case(case), allow_unknown=True)
        size = max(min(LABELS, SCORES // tokenizer.size), _longest(store))
        batches = SentenceBatches(store, SentenceConfig(max_size=size, order="sorted"))
        return perplexity(lm, shown(batches, "perplexity"), tokenizer).to_json()


def _longest(store: TokenStore) -> int:
    return int(store.lengths(np.arange(len(store))).max()) if len(store) else 1
