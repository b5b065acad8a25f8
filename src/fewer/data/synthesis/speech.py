"""Speech from espeak-ng, in process: the shared library and its voices come with the wheel `espeakng-loader`."""

import _ctypes
import ctypes
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewer.errors import FewerError, is_out_of_memory
from fewer.files import uninterrupted

ESPEAK_RATE = 22050  # samples per second of every espeak-ng voice
LONGEST_PATH = 150  # espeak-ng holds the path of its data in 160 bytes
INSTALL = "install it with: pip install 'fewer[demo]' (or pip install --force-reinstall espeakng-loader)"

# From espeak-ng's speak_lib.h.
SYNCHRONOUS, DO_NOT_EXIT, UTF8, BY_CHARACTER = 2, 0x8000, 1, 1
RATE, PITCH, RANGE = 1, 3, 4
CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)

ACCENTS = {"american": "en-us", "british": "en", "received": "en-gb-x-rp"}
# Variants are vocal tracts. All of these are intelligible (one recognises words of one by templates of others), and
# no two groups share a tract that differs in pitch or loudness only.
VARIANTS = {
    "train": "m1 m2 m3 m5 m7 Alex ed max pablo Gene klatt4 croak f1 f2 f4 Andrea grandma",
    "dev": "m4 quincy Storm f3",
    "test": "m6 michel sandro adam belinda steph",
}


@dataclass(frozen=True)
class Voice:
    """A speaker: an accent spoken by a vocal tract."""

    accent: str  # a key of ACCENTS
    variant: str  # an espeak-ng voice variant

    @property
    def name(self) -> str:
        return f"{self.accent}-{self.variant.lower()}"


def voices(group: str) -> list[Voice]:
    """The speakers of "train", "dev" or "test"; no variant belongs to two groups."""
    return [Voice(accent, variant) for accent in ACCENTS for variant in VARIANTS[group].split()]


@dataclass(frozen=True)
class Delivery:
    """How a sentence is spoken."""

    rate: int = 175  # words per minute, 80 to 450
    pitch: int = 50  # 0 to 99, around the voice's own
    range: int = 50  # of the intonation, 0 to 99
    seed: int = 1  # of the breath noise


def speak(text: str, voice: Voice, delivery: Delivery, sample_rate: int) -> NDArray[np.float32]:
    """The waveform of `text` in [-1, 1]; the same arguments give the same samples whatever was spoken before."""
    samples = np.frombuffer(_synthesise(text, voice, delivery), dtype=np.int16)
    if not samples.any():
        raise FewerError(f"espeak-ng voice {voice.name} gave no sound for {text!r}; {INSTALL}")
    return resample(samples.astype(np.float32) / np.float32(32768), ESPEAK_RATE, sample_rate)


def resample(samples: NDArray[np.float32], rate: int, new_rate: int) -> NDArray[np.float32]:
    """Band-limited resampling of a whole signal through its spectrum (in numpy: synthesis needs no torch)."""
    common = np.gcd(rate, new_rate)
    old, new = rate // common, new_rate // common
    blocks = (len(samples) // old // 16 + 1) * 16  # a length with small factors is fast; the rest is silence
    spectrum = np.fft.rfft(samples, blocks * old)[: blocks * new // 2 + 1]
    return (np.fft.irfft(spectrum, blocks * new) * (new / old)).astype(np.float32)[: len(samples) * new // old]


def _synthesise(text: str, voice: Voice, delivery: Delivery) -> bytes:
    """16-bit samples from a freshly loaded library: espeak-ng keeps phase and noise state from call to call.

    Ctrl-C waits: raised in `receive`, it would get lost, and samples with it.
    """
    library, data = _load()
    chunks: list[bytes] = []

    def receive(samples: Any, count: int, _: Any) -> int:
        if samples and count:
            chunks.append(ctypes.string_at(samples, 2 * count))
        return 0

    callback = CALLBACK(receive)
    try:
        if library.espeak_Initialize(SYNCHRONOUS, 0, str(data).encode(), DO_NOT_EXIT) != ESPEAK_RATE:
            long = f" (a path of more than {LONGEST_PATH} letters: install into a shorter one)"
            long = long if len(str(data)) > LONGEST_PATH else ""
            raise FewerError(f"espeak-ng has too little memory, or cannot read its data in {data}{long}; {INSTALL}")
        library.espeak_SetSynthCallback(callback)
        if not (data / "voices" / "!v" / voice.variant).is_file():
            raise FewerError(f"espeak-ng has no voice variant {voice.variant!r} in {data}; {INSTALL}")
        if library.espeak_SetVoiceByName(f"{ACCENTS[voice.accent]}+{voice.variant}".encode()):
            raise FewerError(f"espeak-ng has no accent {ACCENTS[voice.accent]!r} in {data}; {INSTALL}")
        for parameter, value in ((RATE, delivery.rate), (PITCH, delivery.pitch), (RANGE, delivery.range)):
            library.espeak_SetParameter(parameter, value, 0)
        library.espeak_ng_SetRandSeed(ctypes.c_long(delivery.seed))
        content = text.encode()
        size, zero = ctypes.c_size_t(len(content) + 1), ctypes.c_uint(0)
        with uninterrupted():
            failed = library.espeak_Synth(content, size, zero, BY_CHARACTER, zero, ctypes.c_uint(UTF8), None, None)
        if failed:
            raise FewerError(f"espeak-ng cannot speak {text!r} with voice {voice.name}")
        library.espeak_Terminate()
    finally:
        _unload(library)
    return b"".join(chunks)


def _load() -> tuple[Any, Path]:
    """The espeak-ng library and the folder of its data. Once loaded, it must be unloaded: see `_synthesise`."""
    try:
        import espeakng_loader
    except ImportError as error:
        raise FewerError(f"the demo's voices are missing: no module espeakng_loader; {INSTALL}") from error
    try:
        data = Path(espeakng_loader.get_data_path())
        if not (data / "phontab").is_file():
            raise FewerError(f"the demo's voices are damaged: no {data / 'phontab'}; {INSTALL}")
        return ctypes.CDLL(espeakng_loader.get_library_path()), data
    except (OSError, RuntimeError) as error:
        if is_out_of_memory(error):
            raise MemoryError from error
        raise FewerError(f"the demo's voices are damaged: {error}; {INSTALL}") from error


def check_voices() -> None:
    """An error if the voices are missing or damaged."""
    _unload(_load()[0])


def _unload(library: Any) -> None:
    close = getattr(_ctypes, "dlclose", None) or _ctypes.FreeLibrary  # type: ignore[attr-defined,unused-ignore]
    close(library._handle)
