"""An estimated internal LM on disk: a folder that later steps load beside its recogniser.

ilm.json              method and options, the recogniser it belongs to, its perplexities
context.safetensors   the context's numbers; or
lm/                   a separate LM (decoder_like, dr); or
ngram.safetensors     an n-gram (lodr)
"""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fewer.config import parse_config, shown
from fewer.errors import FewerError
from fewer.files import read_json_object, write_json
from fewer.ilm.config import IlmConfig
from fewer.ilm.registry import all_methods
from fewer.models.context import Context
from fewer.models.lm import LanguageModel
from fewer.recognisers.recogniser import Recogniser
from fewer.store.checkpoint import load_tensors, save_tensors
from fewer.store.lms import load_lm

FORMAT = "fewer-ilm/1"
FACTS, CONTEXT, LM, NGRAM = "ilm.json", "context.safetensors", "lm", "ngram.safetensors"


@dataclass(frozen=True)
class Ilm:
    """An internal LM: the recogniser's decoder under a context, or a separate LM."""

    config: IlmConfig
    context: Context | None  # None: a separate LM
    separate: LanguageModel | None
    facts: dict[str, Any]  # what ilm.json says

    def language_model(self, recogniser: Recogniser) -> LanguageModel:
        """As a language model by itself, without the recogniser's help in sharing products."""
        if self.separate is not None:
            return self.separate
        assert self.context is not None
        return recogniser.language_model(self.context)


def discard(folder: Path, *names: str) -> None:
    """Remove what an earlier estimate left, its ilm.json first: until that is there again, the folder holds none."""
    for path in (folder / name for name in (FACTS, *names)):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def save_context(folder: Path, context: Context) -> None:
    save_tensors(folder / CONTEXT, context.state_dict())


def save_facts(folder: Path, config: IlmConfig, recogniser: Recogniser, facts: dict[str, Any]) -> None:
    """Written after all else, so that a folder with ilm.json can be loaded; anew when the perplexity is known."""
    about = {"format": FORMAT, "config": config.model_dump(mode="json"), "recogniser": recogniser.fingerprint}
    write_json(folder / FACTS, about | facts)


def language_of(folder: str | Path) -> str | None:
    """The language that an internal LM was estimated for, if the recogniser knows several."""
    path = Path(folder) / FACTS
    config = read_json_object(path).get("config") if path.exists() else None
    language = config.get("language") if isinstance(config, dict) else None
    return language if isinstance(language, str) else None


def load_ilm(folder: str | Path, recogniser: Recogniser) -> Ilm:
    """Load an internal LM of this recogniser."""
    folder = Path(folder)
    if not (folder / FACTS).exists():
        raise FewerError(f"{folder} holds no internal LM (no {FACTS}); make one with `fewer ilm`")
    facts = read_json_object(folder / FACTS)
    if facts.get("format") != FORMAT:
        raise FewerError(f"{folder / FACTS}: format {shown(facts.get('format'))}, but this version reads {FORMAT}")
    config = parse_config(IlmConfig, facts.get("config"), folder / FACTS)
    if facts.get("recogniser") != recogniser.fingerprint:
        raise FewerError(f"{folder / FACTS} is of another recogniser; estimate it anew with `fewer ilm`")
    if all_methods()[config.method].context is None:
        lm = folder / NGRAM if (folder / NGRAM).exists() else folder / LM
        return Ilm(config, None, load_lm(lm, recogniser.tokenizer, recogniser.device), facts)
    context = config.new_context(recogniser)
    tensors, _ = load_tensors(folder / CONTEXT, "was it copied whole?")
    if "states" in tensors:  # a recording may have any number of frames
        context.states = tensors["states"]
    try:
        context.load_state_dict(tensors)
    except RuntimeError as error:
        raise FewerError(f"{folder / CONTEXT} does not fit the recogniser: {error}") from error
    return Ilm(config, context.eval().requires_grad_(False).to(recogniser.device), None, facts)
