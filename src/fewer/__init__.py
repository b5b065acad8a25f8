"""Fewer word errors from text alone: log P_AED + λ1·log P_LM − λ2·log P_ILM.

    import fewer

    model = fewer.load("tiny.en")
    for segment in model.transcribe("call.wav"):
        print(segment.start, segment.text)

    fewer.adapt("tiny.en", "adapted", text="domain.txt")
    print(fewer.transcribe("call.wav", "adapted").text)

Functions return values and print nothing; `fewer.show_progress()` shows messages and bars, and warnings go to the
logger "fewer". Errors are of the kind `fewer.FewerError`.
"""

import importlib
from typing import TYPE_CHECKING, Any

from fewer.errors import FewerError
from fewer.version import __version__ as __version__

if TYPE_CHECKING:
    from fewer.adaptation.processor import FusionProcessor
    from fewer.api.making import (
        demo,
        estimate_ilm,
        import_returnn,
        ngram,
        prepare,
        run,
        tokenizer,
        train,
        write_report,
    )
    from fewer.api.model import Model, load
    from fewer.api.perplexity import perplexity
    from fewer.api.recognition import adapt, decode, merge, rescore, transcribe, tune
    from fewer.api.results import Transcription
    from fewer.api.scoring import score, wer
    from fewer.progress import show_progress

__all__ = [
    "FewerError",
    "FusionProcessor",
    "Model",
    "Transcription",
    "adapt",
    "decode",
    "demo",
    "estimate_ilm",
    "import_returnn",
    "load",
    "merge",
    "ngram",
    "perplexity",
    "prepare",
    "rescore",
    "run",
    "score",
    "show_progress",
    "tokenizer",
    "train",
    "transcribe",
    "tune",
    "wer",
    "write_report",
]
_HOMES = {
    "adaptation.processor": "FusionProcessor",
    "api.making": "demo estimate_ilm import_returnn ngram prepare run tokenizer train write_report",
    "api.model": "Model load",
    "api.perplexity": "perplexity",
    "api.recognition": "adapt decode merge rescore transcribe tune",
    "api.results": "Transcription",
    "api.scoring": "score wer",
    "progress": "show_progress",
}


def __getattr__(name: str) -> Any:
    """Names are imported when they are first used, so that `import fewer` takes no time."""
    for module, names in _HOMES.items():
        if name in names.split():
            value = getattr(importlib.import_module(f"fewer.{module}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'fewer' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
