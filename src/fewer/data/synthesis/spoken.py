"""Any sentences as a set of spoken utterances, by many voices: where there is text but no speech."""

import json
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import soundfile

from fewer.data.synthesis.room import noise_gain
from fewer.data.synthesis.speech import Delivery, speak, voices
from fewer.files import atomic_write

RATE = 16_000
SNR = 15.0  # decibels of the speech above white noise: without noise, recognisers hear synthetic voices too well


def speak_set(sentences: Sequence[str], manifest: Path, seed: int = 1) -> Path:
    """Speak each sentence by one of the voices; audio goes to the manifest's folder. The same seed, same samples."""
    from lhotse import AudioSource, MonoCut, Recording, SupervisionSegment

    rng, everyone = random.Random(seed), [*voices("train"), *voices("dev"), *voices("test")]
    manifest.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(manifest) as stream:
        for number, sentence in enumerate(sentences):
            voice, id = rng.choice(everyone), f"{manifest.stem}-{number:04}"
            delivery = Delivery(rng.randrange(150, 200), rng.randrange(35, 65), rng.randrange(35, 75), number + 1)
            speech = speak(sentence, voice, delivery, RATE)
            noise = np.random.default_rng((seed, number)).standard_normal(len(speech)).astype(np.float32)
            heard = speech + noise_gain(speech, noise, SNR) * noise
            path = (manifest.parent / f"{id}.flac").resolve()
            soundfile.write(path, heard / max(1.0, float(np.abs(heard).max())), RATE)
            duration = len(heard) / RATE
            recording = Recording(id, [AudioSource("file", [0], str(path))], RATE, len(heard), duration)
            said = SupervisionSegment(id, id, 0.0, duration, 0, sentence, "English", voice.name)
            cut = MonoCut(id, 0.0, duration, 0, [said], recording=recording)
            print(json.dumps(cut.to_dict(), ensure_ascii=False), file=stream)
    return manifest
