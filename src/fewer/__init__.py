"""Fewer word errors from text alone: log P_AED + λ1·log P_LM − λ2·log P_ILM.

Every command works from Python under the same name, with the same options:

    fewer.decode("model", "dev.jsonl", "dev.nbest.jsonl", lm="lm", lm_scale=0.4, ilm="ilm", ilm_scale=0.3)
"""

import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fewer.version import __version__ as __version__

if TYPE_CHECKING:
    from fewer.cli.adapt import command as adapt
    from fewer.cli.decode import command as decode
    from fewer.cli.demo import command as demo
    from fewer.cli.ilm import command as ilm
    from fewer.cli.ngram import command as ngram
    from fewer.cli.perplexity import command as perplexity
    from fewer.cli.prepare import command as prepare
    from fewer.cli.report import command as report
    from fewer.cli.rescore import command as rescore
    from fewer.cli.run import command as run
    from fewer.cli.score import command as score
    from fewer.cli.tokenizer import command as tokenizer
    from fewer.cli.train import command as train
    from fewer.cli.transcribe import command as transcribe
    from fewer.cli.tune import command as tune
    from fewer.recognisers.recogniser import Recogniser

# Some virtual machines announce AMX and then refuse it: there oneDNN's bfloat16 would die of an illegal instruction.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

__all__ = [
    "adapt",
    "decode",
    "demo",
    "ilm",
    "load",
    "ngram",
    "perplexity",
    "prepare",
    "report",
    "rescore",
    "run",
    "score",
    "tokenizer",
    "train",
    "transcribe",
    "tune",
]
PACKAGES = ("ilm", "report")  # commands whose name is also a package's, which can be called


def load(source: str | Path, language: str | None = None, task: str = "transcribe") -> "Recogniser":
    """A recogniser: a model folder of `fewer train`, or a Whisper by its folder or its name on the Hugging Face hub.

    language, task: of a multilingual Whisper, such as "de" and "transcribe".
    """
    from fewer.recognisers.loader import load_recogniser

    return load_recogniser(source, language, task)


def __getattr__(name: str) -> Any:
    """Commands are imported when they are first used."""
    if name not in __all__:
        raise AttributeError(f"module 'fewer' has no attribute '{name}'")
    if name in PACKAGES:
        return importlib.import_module(f"fewer.{name}")
    from fewer.cli import python_command

    return python_command(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
