import ctypes
import hashlib
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from fewer.data.audio import resample as resample_in_time
from fewer.data.synthesis import speech
from fewer.data.synthesis.speech import ACCENTS, VARIANTS, Delivery, Voice, speak, voices
from fewer.errors import FewerError
from fewer.files import stop_by

TEXT = "the tide is high and the boats are in"


def mark(samples):
    return hashlib.sha256(samples.tobytes()).hexdigest()


def every_voice():
    return [voice for group in VARIANTS for voice in voices(group)]


def test_what_is_spoken_does_not_depend_on_what_was_spoken_before():
    for variant in " ".join(VARIANTS.values()).split():  # some have breath noise, some flutter, some are Klatt voices
        voice = Voice("american", variant)
        first = speak(TEXT, voice, Delivery(), 16_000)
        speak("something else altogether", Voice("received", "f2"), Delivery(rate=200, pitch=80), 16_000)
        np.testing.assert_array_equal(first, speak(TEXT, voice, Delivery(), 16_000))


def test_another_process_speaks_the_same_samples():
    code = (
        "import hashlib; from fewer.data.synthesis.speech import Delivery, Voice, speak\n"
        f"x = speak({TEXT!r}, Voice('british', 'f2'), Delivery(150, 60, 40, seed=7), 16000)\n"
        "print(hashlib.sha256(x.tobytes()).hexdigest())"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    here = speak(TEXT, Voice("british", "f2"), Delivery(150, 60, 40, seed=7), 16_000)
    assert other.stdout.strip() == mark(here)


def test_all_voices_speak_and_no_two_alike():
    spoken = [speak("four boats", voice, Delivery(), 16_000) for voice in every_voice()]
    assert len({mark(samples) for samples in spoken}) == len(spoken) == len(ACCENTS) * 27
    for samples in spoken:
        assert 0.4 < len(samples) / 16_000 < 2.0
        assert np.sqrt(np.mean(samples**2)) > 0.01
        assert np.abs(samples).max() <= 1.1


def test_groups_share_no_vocal_tract():
    groups = [set(names.split()) for names in VARIANTS.values()]
    assert sum(map(len, groups)) == len(set.union(*groups))
    assert len({voice.name for voice in every_voice()}) == len(every_voice())


def test_rate_and_pitch_do_what_they_say():
    voice = Voice("british", "m3")
    slow, fast = (speak(TEXT, voice, Delivery(rate=rate), 16_000) for rate in (120, 240))
    assert 1.6 < len(slow) / len(fast) < 2.4
    low, high = (_fundamental(speak("aah", voice, Delivery(pitch=pitch, range=0), 16_000)) for pitch in (20, 80))
    assert high > 1.3 * low


def _fundamental(samples, rate=16_000):
    middle = samples[len(samples) // 3 : len(samples) // 3 + 2048]
    correlation = np.correlate(middle, middle, "full")[2047:]
    return rate / (40 + np.argmax(correlation[40:320]))


def test_resampling_agrees_with_resampling_in_time():
    voice = Voice("american", "f1")
    original = speak(TEXT, voice, Delivery(), speech.ESPEAK_RATE)
    ours = speak(TEXT, voice, Delivery(), 16_000)
    import torch

    other = resample_in_time(torch.from_numpy(original), speech.ESPEAK_RATE, 16_000).numpy()
    assert abs(len(ours) - len(other)) <= 1
    length = min(len(ours), len(other))
    spectra = [np.fft.rfft(samples[:length])[: int(0.85 * length / 2)] for samples in (ours, other)]
    difference = np.abs(spectra[0] - spectra[1])
    assert np.sum(difference**2) < 1e-4 * np.sum(np.abs(spectra[1]) ** 2)


def test_a_tone_keeps_its_frequency_and_level_when_resampled():
    tone = np.sin(2 * np.pi * 1000 * np.arange(22_050) / 22_050).astype(np.float32)
    resampled = speech.resample(tone, 22_050, 8_000)
    assert len(resampled) == 8_000
    expected = np.sin(2 * np.pi * 1000 * np.arange(8_000) / 8_000)
    np.testing.assert_allclose(resampled[500:-500], expected[500:-500], atol=2e-3)


def test_without_the_wheel_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "espeakng_loader", None)
    with pytest.raises(FewerError, match=r"espeakng_loader.*pip install 'fewer\[demo\]'"):
        speak(TEXT, Voice("american", "m1"), Delivery(), 16_000)


def test_without_its_data_the_message_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr("espeakng_loader.get_data_path", lambda: str(tmp_path))
    with pytest.raises(FewerError, match=r"damaged: no .*phontab.*pip install"):
        speak(TEXT, Voice("american", "m1"), Delivery(), 16_000)


def test_after_an_error_speech_still_does_not_depend_on_what_was_spoken_before(monkeypatch, tmp_path):
    voice, other = Voice("american", "m1"), Voice("british", "croak")
    before = speak(TEXT, voice, Delivery(), 16_000)
    with monkeypatch.context() as damaged:
        damaged.setattr("espeakng_loader.get_data_path", lambda: str(tmp_path))
        with pytest.raises(FewerError):
            speak(TEXT, voice, Delivery(), 16_000)
    for _ in range(2):
        speak(TEXT, other, Delivery(rate=200), 16_000)
        assert np.array_equal(speak(TEXT, voice, Delivery(), 16_000), before)


def test_without_its_library_the_message_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr("espeakng_loader.get_library_path", lambda: str(tmp_path / "lib.so"))
    with pytest.raises(FewerError, match=r"damaged: .*lib\.so.*pip install"):
        speak(TEXT, Voice("american", "m1"), Delivery(), 16_000)


def test_a_voice_that_espeak_does_not_have_is_an_error(monkeypatch):
    with pytest.raises(FewerError, match="no voice variant 'm99'"):
        speak(TEXT, Voice("american", "m99"), Delivery(), 16_000)
    monkeypatch.setitem(ACCENTS, "martian", "en-mars")
    with pytest.raises(FewerError, match="no accent 'en-mars'"):
        speak(TEXT, Voice("martian", "m1"), Delivery(), 16_000)


def test_a_text_without_sound_is_an_error():
    with pytest.raises(FewerError, match="gave no sound"):
        speak(" ", Voice("american", "m1"), Delivery(), 16_000)


def test_ctrl_c_while_it_speaks_is_not_lost(monkeypatch):
    """espeak-ng calls Python with its samples, and ctypes drops what is raised there, with these samples."""
    read = ctypes.string_at

    def interrupted(*arguments):
        os.kill(os.getpid(), signal.SIGINT)
        return read(*arguments)

    monkeypatch.setattr(ctypes, "string_at", interrupted)
    before = signal.signal(signal.SIGINT, lambda *_: stop_by(KeyboardInterrupt()))  # as the command line does
    try:
        with pytest.raises(KeyboardInterrupt):
            speak(TEXT, Voice("american", "m1"), Delivery(), 16_000)
    finally:
        signal.signal(signal.SIGINT, before)
