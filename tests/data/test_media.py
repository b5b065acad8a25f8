"""Audio that soundfile cannot read: phone recordings, videos, and what is wrong with some of them."""

import io
import subprocess
import sys
from pathlib import Path

import av
import numpy as np
import pytest
import torch

from fewer.data.audio import load_audio
from fewer.data.corpora.audio import read_header
from fewer.data.media import MediaFile
from fewer.data.stream import AudioStream
from fewer.errors import FewerError
from tests.data.media import write_media
from tests.data.sounds import cut_of, noise, tone


def heard(path: Path) -> torch.Tensor:
    return torch.cat(list(AudioStream(path, 16000)))


@pytest.mark.parametrize(
    ("ending", "rate"),
    [("m4a", 44100), ("aac", 44100), ("webm", 48000), ("wma", 44100), ("flv", 44100), ("avi", 44100), ("ac3", 48000)],
)
def test_formats_of_phones_and_browsers(tmp_path: Path, ending: str, rate: int) -> None:
    write_media(tmp_path / f"call.{ending}", tone(440, 3, rate), rate)
    got = heard(tmp_path / f"call.{ending}")
    assert len(got) / 16000 == pytest.approx(3, abs=0.3)  # encoders pad, or drop their last frame
    middle = got[8000:32000]
    assert float(middle.square().mean().sqrt()) == pytest.approx(0.3 / np.sqrt(2), rel=0.05)
    peak = int(torch.fft.rfft(middle).abs().argmax()) * 16000 / len(middle)
    assert peak == pytest.approx(440, abs=2)


@pytest.mark.parametrize("ending", ["mp4", "mkv", "mov"])
def test_the_sound_of_a_video_is_heard(tmp_path: Path, ending: str) -> None:
    write_media(tmp_path / f"talk.{ending}", tone(300, 2, 48000), 48000, picture=True)
    assert len(heard(tmp_path / f"talk.{ending}")) / 16000 == pytest.approx(2, abs=0.1)


def test_a_lossless_track_has_the_samples_of_the_file_in_blocks_of_any_size(tmp_path: Path) -> None:
    samples = np.stack([noise(2.3, 44100, seed) for seed in (1, 2)], axis=1)
    write_media(tmp_path / "a.mka", samples, 44100)
    for size in (1000, 44100, 10**6):
        with MediaFile(tmp_path / "a.mka") as stream:
            blocks = []
            while len(block := stream.read(size)):
                blocks.append(block)
        assert {len(block) for block in blocks[:-1]} <= {size}
        np.testing.assert_allclose(np.concatenate(blocks), samples, atol=1e-4)


def test_sound_that_begins_late_in_a_video_is_at_its_time(tmp_path: Path) -> None:
    write_media(tmp_path / "late.mkv", tone(440, 1, 48000), 48000, picture=True, start=2.0)
    got = heard(tmp_path / "late.mkv")
    assert len(got) / 16000 == pytest.approx(3, abs=0.1)
    assert float(got[: int(1.9 * 16000)].abs().max()) < 1e-3
    assert float(got[int(2.1 * 16000) :].abs().max()) > 0.2


def test_an_utterance_of_a_media_file(tmp_path: Path) -> None:
    samples = noise(3)
    write_media(tmp_path / "a.mka", samples)
    header = read_header(tmp_path / "a.mka")
    assert (header.samples, header.rate, header.channels) == (48000, 16000, 1)  # type: ignore[union-attr]
    cut = cut_of(tmp_path / "a.mka", 48000, start=1.5, duration=1.0)
    np.testing.assert_allclose(load_audio(cut, 16000), samples[24000:40000], atol=1e-4)


def test_bytes_are_read_as_a_file_is(tmp_path: Path) -> None:
    write_media(tmp_path / "a.mka", noise(1))
    with MediaFile(io.BytesIO((tmp_path / "a.mka").read_bytes())) as stream:
        assert stream.seek(10**9) == 16000


def test_what_is_wrong_is_said_with_the_files_name(tmp_path: Path) -> None:
    write_media(tmp_path / "whole.m4a", tone(440, 3))
    whole = (tmp_path / "whole.m4a").read_bytes()
    (tmp_path / "cut.m4a").write_bytes(whole[: len(whole) // 2])  # its table is at the end
    (tmp_path / "letter.mp4").write_text("Dear Sir or Madam, " * 500)
    (tmp_path / "empty.webm").touch()
    silent_film(tmp_path / "film.mp4")
    for name, problem in (
        ("cut.m4a", "cannot read the audio: Format not recognised.*M4A.*is it complete"),
        ("letter.mp4", "cannot read the audio"),
        ("empty.webm", "the file is empty"),
        ("film.mp4", "the file has no sound"),
        ("missing.m4a", "there is no such file"),
    ):
        with pytest.raises(FewerError, match=rf"{name}: {problem}"):
            AudioStream(tmp_path / name, 16000)


def silent_film(path: Path) -> None:
    with av.open(str(path), "w") as container:
        video = container.add_stream("mpeg4", rate=10)
        video.width = video.height = 32
        container.mux(video.encode(av.VideoFrame.from_ndarray(np.zeros((32, 32, 3), np.uint8))))
        container.mux(video.encode(None))


def test_a_file_that_ends_too_early_gives_what_it_has_and_then_complains(tmp_path: Path) -> None:
    write_media(tmp_path / "a.m4a", noise(20), faststart=True)
    whole = (tmp_path / "a.m4a").read_bytes()
    (tmp_path / "a.m4a").write_bytes(whole[: len(whole) * 2 // 3])
    got: list[torch.Tensor] = []
    with pytest.raises(FewerError, match=r"a\.m4a: .*after 1\d\.\d.* complete\?"):
        got.extend(AudioStream(tmp_path / "a.m4a", 16000))
    assert sum(map(len, got)) > 10 * 16000
    assert "is the file complete?" in str(read_header(tmp_path / "a.m4a"))


def test_a_playlist_opens_no_other_file(tmp_path: Path) -> None:
    """FFmpeg would read files, or addresses, that a file names."""
    write_media(tmp_path / "secret.ts", tone(440, 1))
    lines = ["#EXTM3U", "#EXT-X-TARGETDURATION:10", "#EXTINF:10,", f"{tmp_path / 'secret.ts'}", "#EXT-X-ENDLIST"]
    concat = ["ffconcat version 1.0", f"file {tmp_path / 'secret.ts'}"]
    for name, content in (("a.m4a", lines), ("b.mp4", concat)):
        (tmp_path / name).write_text("\n".join(content) + "\n")
        with pytest.raises(FewerError, match=rf"{name}: cannot read the audio"):
            AudioStream(tmp_path / name, 16000)


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    program = (
        "import re, sys; from fewer.data.stream import AudioStream\n"
        "length = sum(map(len, AudioStream(sys.argv[1], 16000)))\n"
        "print(length, re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])"
    )
    peaks = []
    for seconds in (5, 600):
        write_media(tmp_path / f"{seconds}.mov", np.resize(noise(5), seconds * 16000))
        done = subprocess.run(
            [sys.executable, "-c", program, tmp_path / f"{seconds}.mov"], capture_output=True, text=True, check=True
        )
        length, peak = map(int, done.stdout.split())
        assert length >= seconds * 16000
        peaks.append(peak)
    assert peaks[1] - peaks[0] < 20_000  # kB; the samples alone would take 38,000


def test_a_wav_whose_codec_soundfile_does_not_know(tmp_path: Path) -> None:
    with av.open(str(tmp_path / "b.wav"), "w") as container:
        stream = container.add_stream("wmav2", rate=44100, layout="mono")
        stream.bit_rate = 64000
        piece = av.AudioFrame.from_ndarray(tone(440, 1, 44100)[None], format="fltp", layout="mono")
        piece.rate, piece.pts = 44100, 0
        container.mux(stream.encode(piece))
        container.mux(stream.encode(None))
    assert len(heard(tmp_path / "b.wav")) > 8000
