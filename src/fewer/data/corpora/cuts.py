"""From an utterance to a lhotse cut: a stretch of one channel with one supervision."""

from dataclasses import dataclass
from typing import Any

from fewer.data.corpora.audio import AudioHeader, read_header
from fewer.data.corpora.corpus import Problem, Utterance

OVERSHOOT = 0.5  # seconds; a segment that ends so little after its recording is cut short (as Kaldi does)


@dataclass(frozen=True)
class Made:
    """A cut and what there is to say of it."""

    cut: Any  # lhotse.MonoCut
    rate: int  # Hz
    shortened: bool  # it reached a little beyond the end of its recording


def make_cut(utterance: Utterance, resample: int | None = None) -> Made | Problem:
    """Check the utterance against its audio file's header; `resample` is the rate (Hz) that the cut should have."""
    from lhotse import AudioSource, MonoCut, Recording, SupervisionSegment

    header = read_header(utterance.audio)
    if isinstance(header, Problem):
        return Problem(header.where, f"{header.what} (utterance {utterance.id}, {utterance.where})")
    if problem := _mismatch(utterance, header):
        return Problem(utterance.where, f"utterance {utterance.id} {problem} ({utterance.audio})")
    channel = utterance.channel or 0
    end = header.duration if utterance.end is None else min(utterance.end, header.duration)
    recording = Recording(
        id=utterance.recording or utterance.audio.stem,
        sources=[AudioSource("file", list(range(header.channels)), str(utterance.audio))],
        sampling_rate=header.rate,
        num_samples=header.samples,
        duration=header.duration,
    )
    duration = round(end - utterance.start, 8)
    supervision = SupervisionSegment(
        id=utterance.id,
        recording_id=recording.id,
        start=0.0,
        duration=duration,
        channel=channel,
        text=utterance.text,
        speaker=utterance.speaker,
        gender=utterance.gender,
        custom=utterance.custom or None,
    )
    cut = MonoCut(utterance.id, utterance.start, duration, channel, supervisions=[supervision], recording=recording)
    rate = resample or utterance.rate or header.rate
    if rate != header.rate:
        cut = cut.resample(rate)
    return Made(cut, rate, utterance.end is not None and utterance.end > header.duration)


def _mismatch(utterance: Utterance, header: AudioHeader) -> str | None:
    """What is wrong with the utterance, given its file."""
    start, end = utterance.start, utterance.end
    if utterance.channel is None and header.channels > 1:
        return f"needs a file with one channel, this one has {header.channels}"
    if utterance.channel is not None and utterance.channel >= header.channels:
        return f"needs channel {utterance.channel + 1} of a file that has {header.channels}"
    if start < 0:
        return f"begins before its recording, at {start} s"
    if end is not None and (end - start) * header.rate < 1:
        return f"has no length: it goes from {start} to {end} s"
    if start * header.rate > header.samples - 1 or (end or 0.0) > header.duration + OVERSHOOT:
        return f"goes from {start} to {end} s, but its recording ends at {header.duration:.3f} s"
    return None
