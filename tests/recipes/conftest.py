"""The Whispers of the adapters' tests, for these too."""

from tests.adapters.conftest import real, real_manifest, tiny, whisper

__all__ = ["real", "real_manifest", "tiny", "whisper"]
