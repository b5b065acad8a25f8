"""Audio headers: what soundfile reads is taken, what it cannot read is explained."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from fewer.data.corpora.audio import AudioHeader, read_header
from fewer.data.corpora.corpus import Problem
from tests.data.corpora.builders import write_audio


def ldc_sphere(path: Path, data: bytes, coding: str = "ulaw", samples: int = 8000) -> Path:
    """A SPHERE file with the header that LDC's telephone speech has."""
    fields = [
        ("conversation_id", "-s4", "2001"),
        ("database_id", "-s13", "SWITCHBOARD-1"),
        ("channel_count", "-i", "2"),
        ("sample_count", "-i", str(samples)),
        ("sample_rate", "-i", "8000"),
        ("sample_n_bytes", "-i", "1"),
        ("sample_byte_format", "-s1", "1"),
        ("sample_sig_bits", "-i", "8"),
        ("channels_interleaved", "-s4", "TRUE"),
        ("sample_coding", f"-s{len(coding)}", coding),
        ("sample_checksum", "-i", "44135"),
    ]
    header = "NIST_1A\n   1024\n" + "".join(f"{name} {kind} {value}\n" for name, kind, value in fields) + "end_head\n"
    path.write_bytes(header.encode().ljust(1024) + data)
    return path


def problem(path: Path) -> str:
    found = read_header(path)
    assert isinstance(found, Problem)
    return str(found)


@pytest.mark.parametrize("coding", ["ulaw", "mu-law"])
def test_two_channel_mu_law_sphere(tmp_path, coding):
    silence, loud = 0xFF, 0x80  # µ-law codes of 0 and of the largest value
    path = ldc_sphere(tmp_path / "sw02001.sph", bytes([silence, loud] * 8000), coding)
    assert read_header(path) == AudioHeader(8000, 8000, 2)
    samples, _ = soundfile.read(path)
    assert np.allclose(samples[:, 0], 0)
    assert np.allclose(np.abs(samples[:, 1]), 32124 / 32768)


def test_compressed_sphere_says_how_to_uncompress(tmp_path):
    path = ldc_sphere(tmp_path / "fe_03_00001.sph", b"ajkg" + bytes(100), "ulaw,embedded-shorten-v2.00")
    text = problem(path)
    assert str(path) in text
    assert "embedded-shorten-v2.00" in text
    assert "sph2pipe -f wav -p fe_03_00001.sph fe_03_00001.wav" in text


def test_cut_off_sphere(tmp_path):
    assert "is cut off" in problem(ldc_sphere(tmp_path / "a.sph", bytes(2 * 3000)))


def test_a_few_missing_or_extra_samples_of_a_sphere_file_do_not_matter(tmp_path):
    assert read_header(ldc_sphere(tmp_path / "short.sph", bytes(2 * 7990))) == AudioHeader(7990, 8000, 2)
    assert read_header(ldc_sphere(tmp_path / "long.sph", bytes(2 * 8010))) == AudioHeader(8000, 8000, 2)


def test_cut_off_flac(tmp_path):
    noise = np.random.default_rng(0).normal(0, 0.1, 16000)
    soundfile.write(tmp_path / "a.flac", noise, 16000)
    whole = (tmp_path / "a.flac").read_bytes()
    assert read_header(tmp_path / "a.flac") == AudioHeader(16000, 16000, 1)
    (tmp_path / "b.flac").write_bytes(whole[: len(whole) // 2])
    assert str(tmp_path / "b.flac") in problem(tmp_path / "b.flac")


def test_files_without_audio(tmp_path):
    (tmp_path / "text.wav").write_text("hello")
    (tmp_path / "empty.flac").touch()
    soundfile.write(tmp_path / "none.wav", np.zeros(0), 16000)
    assert "there is no such audio file" in problem(tmp_path / "missing.wav")
    assert "cannot be read as audio" in problem(tmp_path / "text.wav")
    assert "cannot be read as audio" in problem(tmp_path / "empty.flac")
    assert "holds no audio" in problem(tmp_path / "none.wav")
    assert "there is no such audio file" in problem(tmp_path)


def test_other_formats(tmp_path):
    for name in ("a.wav", "a.flac", "a.sph", "a.ogg"):
        assert read_header(write_audio(tmp_path / name, [(0.5, 300)])) == AudioHeader(8000, 16000, 1)
