"""Recognisers and language models of Hugging Face transformers, which is imported when they are used."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fewer.recipes.fusion_processor import FusionProcessor

__all__ = ["FusionProcessor"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'fewer.adapters' has no attribute '{name}'")
    from fewer.recipes.fusion_processor import FusionProcessor

    return FusionProcessor
