"""Media files that soundfile cannot write, made with PyAV."""

from fractions import Fraction
from pathlib import Path

import av
import numpy as np

CODECS = {"m4a": "aac", "aac": "aac", "mp4": "aac", "mkv": "aac", "webm": "libopus", "wma": "wmav2", "flv": "aac"}
CODECS |= {"avi": "mp3", "ts": "aac", "ac3": "ac3", "mka": "flac", "mov": "pcm_s16le", "3gp": "aac"}


def write_media(
    path: Path,
    samples: np.ndarray,
    rate: int = 16000,
    picture: bool = False,
    start: float = 0.0,
    faststart: bool = False,
) -> Path:
    """Sound of one channel (T,) or several (T, channels), in a video if there should be a `picture` too.

    start: seconds after which the sound begins.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    planes = np.atleast_2d(samples.T).astype(np.float32)  # (channels, T)
    layout = {1: "mono", 2: "stereo"}[len(planes)]
    with av.open(str(path), "w", options={"movflags": "faststart"} if faststart else {}) as container:
        if picture:
            video = container.add_stream("mpeg4", rate=10)
            video.width = video.height = 32
        sound = container.add_stream(CODECS[path.suffix[1:]], rate=rate, layout=layout)
        sound.bit_rate = 64000 * len(planes)
        if picture:
            for number in range(round((start + planes.shape[1] / rate) * 10)):
                frame = av.VideoFrame.from_ndarray(np.zeros((32, 32, 3), np.uint8))
                frame.pts, frame.time_base = number, Fraction(1, 10)
                container.mux(video.encode(frame))
            container.mux(video.encode(None))
        for place in range(0, planes.shape[1], 1024):
            piece = av.AudioFrame.from_ndarray(
                np.ascontiguousarray(planes[:, place : place + 1024]), format="fltp", layout=layout
            )
            piece.rate, piece.time_base, piece.pts = rate, Fraction(1, rate), place + round(start * rate)
            container.mux(sound.encode(piece))
        container.mux(sound.encode(None))
    return path
