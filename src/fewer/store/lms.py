"""Loading a language model from whatever holds one."""

from pathlib import Path
from typing import Any

import torch

from fewer.data.tokenizer import Tokenizer
from fewer.data.tokenizers import load_tokenizer
from fewer.errors import FewerError
from fewer.models.lm import LanguageModel
from fewer.store.model_folder import CONFIG, load_model
from fewer.store.ngram_files import is_ngram_file
from fewer.store.word_ngram import load_any_ngram


def load_lm(source: str | Path, tokenizer: Tokenizer, device: torch.device | str = "cpu") -> LanguageModel:
    """A language model over `tokenizer`'s labels: a folder of `fewer train`, an n-gram file of labels or of words,
    hf:NAME of a Hugging Face causal LM, or the folder of one."""
    if (name := hugging_face(source)) is not None:
        from fewer.store.hf_words import load_hf_over

        return load_hf_over(name, tokenizer).to(device)
    path = Path(source)
    if is_ngram_file(path):
        return load_any_ngram(path, tokenizer).to(device)
    if not (path / CONFIG).exists():
        missing = "" if path.exists() else " (there is no such file or folder)"
        raise FewerError(
            f"{source} is no language model{missing}: give a folder of `fewer train`, an n-gram file (.arpa, .arpa.gz, "
            ".safetensors), or hf:NAME for a Hugging Face causal LM; of a KenLM binary, the ARPA file it was made from"
        )
    loaded = load_model(path, device)
    if loaded.tokenizer.fingerprint != tokenizer.fingerprint:
        raise FewerError(
            f"the LM {source} was trained with another tokenizer than the recogniser: "
            f"{loaded.tokenizer.size} labels against {tokenizer.size}; train it with the recogniser's tokenizer.json"
        )
    return loaded.lm


def hugging_face(source: str | Path) -> str | None:
    """The name or folder of a Hugging Face LM, which is written hf:NAME; a folder of transformers is seen to be one."""
    if str(source).startswith("hf:"):
        return str(source).removeprefix("hf:")
    path = Path(source)
    return str(source) if (path / "config.json").exists() and not (path / CONFIG).exists() else None


def load_lm_and_tokenizer(
    source: str | Path, model: str | Path | None = None, device: torch.device | str = "cpu"
) -> tuple[LanguageModel, Any]:
    """A language model by itself; an n-gram file takes the tokenizer of the model folder `model`."""
    if (name := hugging_face(source)) is not None:
        from fewer.store.hf_lm import load_hf_text_lm

        lm, own = load_hf_text_lm(name)
        return lm.to(device), own
    if not is_ngram_file(source):
        loaded = load_model(source, device)
        return loaded.lm, loaded.tokenizer
    if model is None:
        raise FewerError(f"{source} is an n-gram file: give a model folder whose tokenizer it was made with (--model)")
    tokenizer = load_tokenizer(model)
    return load_any_ngram(source, tokenizer).to(device), tokenizer
