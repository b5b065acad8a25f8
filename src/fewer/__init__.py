"""Fewer word errors from text alone: log P_AED + λ1·log P_LM − λ2·log P_ILM."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fewer.recipes.system import Recogniser

__version__ = "0.1.0"


def load(source: str | Path, language: str | None = None, task: str = "transcribe") -> "Recogniser":
    """A recogniser: a model folder of `fewer train`, or a Whisper by its folder or its name on the Hugging Face hub.

    language, task: of a multilingual Whisper, such as "de" and "transcribe".
    """
    from fewer.recipes.system import load_recogniser

    return load_recogniser(source, language, task)
