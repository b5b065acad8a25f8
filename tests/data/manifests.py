"""Manifests as `fewer prepare` writes them."""

import gzip
import json

from lhotse import MonoCut, Recording, SupervisionSegment
from lhotse.audio import AudioSource


def cut(id, text="SOME WORDS", duration=2.5, subset=None, speaker="s1"):
    """What `fewer prepare` writes for an utterance."""
    recording = Recording(
        id=f"rec-{id}",
        sources=[AudioSource(type="file", channels=[0], source=f"/audio/{id}.flac")],
        sampling_rate=16000,
        num_samples=160000,
        duration=10.0,
    )
    supervision = SupervisionSegment(
        id=id, recording_id=recording.id, start=0, duration=duration, channel=0, text=text, speaker=speaker
    )
    return MonoCut(
        id=id, start=0.5, duration=duration, channel=0, supervisions=[supervision], recording=recording,
        custom=subset and {"subset": subset},
    )  # fmt: skip


def write_manifest(path, cuts):
    """Cuts, dicts or raw lines as a manifest."""
    lines = []
    for value in cuts:
        value = value.to_dict() if isinstance(value, MonoCut) else value
        lines.append(value if isinstance(value, str) else json.dumps(value))
    content = "".join(line + "\n" for line in lines).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path
