"""Sets and audio in object stores, and audio that cannot be sought in."""

import io
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import soundfile
from fsspec.implementations.memory import MemoryFileSystem
from lhotse import CutSet, Recording
from lhotse.audio import AudioSource

from fewer.data import copies
from fewer.data.audio import load_audio
from fewer.data.corpora.given import as_manifest
from fewer.data.manifest import Manifest
from fewer.data.media import MediaFile
from fewer.errors import FewerError
from tests.data.media import write_media
from tests.data.sounds import noise


class Bucket(MemoryFileSystem):
    """An object store in memory that notes what is fetched."""

    protocol = ("s3",)
    store: dict[str, Any] = {}  # noqa: RUF012 (as its base has it)
    pseudo_dirs = [""]  # noqa: RUF012
    fetched: list[str] = []  # noqa: RUF012

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        return super()._strip_protocol(str(path).removeprefix("s3://"))

    def get_file(self, rpath: str, *arguments: Any, **options: Any) -> None:
        self.fetched.append(rpath)
        super().get_file(rpath, *arguments, **options)


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    fsspec.register_implementation("s3", Bucket, clobber=True)
    Bucket.store, Bucket.pseudo_dirs, Bucket.fetched = {}, [""], []
    return Bucket()


def put(bucket: Bucket, samples: np.ndarray, place: str) -> None:
    file = io.BytesIO()
    soundfile.write(file, samples, 16000, format="WAV", subtype="FLOAT")
    bucket.pipe_file(place, file.getvalue())


def cuts_of(url: str, kind: str = "url", seconds: int = 4, rate: int = 16000) -> CutSet:
    """An utterance for each second of a recording."""
    source = AudioSource(type=kind, channels=[0], source=url)
    recording = Recording("talk", [source], rate, seconds * rate, float(seconds))
    return CutSet.from_cuts(
        recording.to_cut().truncate(offset=second, duration=1.0).with_id(f"talk-{second}") for second in range(seconds)
    )


def test_a_remote_recording_is_fetched_once_for_all_its_utterances(bucket: Bucket) -> None:
    samples = noise(4.0)
    put(bucket, samples, "talks/talk.wav")
    for second, cut in enumerate(cuts_of("s3://talks/talk.wav")):
        np.testing.assert_array_equal(load_audio(cut, 16000).numpy(), samples[16000 * second : 16000 * (second + 1)])
    assert bucket.fetched == ["/talks/talk.wav"]
    put(bucket, -samples, "talks/talk.wav")
    np.testing.assert_array_equal(load_audio(cut, 16000).numpy(), -samples[-16000:])
    assert len(bucket.fetched) == 2


def test_a_remote_manifest_and_what_is_not_there(bucket: Bucket, tmp_path: Path) -> None:
    cuts_of("s3://talks/talk.wav").to_file(tmp_path / "talks.jsonl.gz")
    bucket.pipe_file("sets/talks.jsonl.gz", (tmp_path / "talks.jsonl.gz").read_bytes())
    for given in ("s3://sets/talks.jsonl.gz", Path("s3://sets/talks.jsonl.gz")):
        manifest = as_manifest(given, transcripts=False)
        assert manifest.name == "talks.jsonl.gz"
        assert len(Manifest(manifest, transcripts=False)) == 4
    assert len(bucket.fetched) == 1
    with pytest.raises(FewerError, match="there is no s3://sets/others"):
        as_manifest("s3://sets/others.jsonl")
    with pytest.raises(FewerError, match="fsspec does not know such places"):
        as_manifest("nowhere://sets/others.jsonl")


def test_a_remote_shar_folder(bucket: Bucket, tmp_path: Path) -> None:
    soundfile.write(tmp_path / "talk.wav", noise(4.0), 16000)
    (tmp_path / "shar").mkdir()
    cuts_of(str(tmp_path / "talk.wav"), "file").to_shar(tmp_path / "shar", fields={"recording": "flac"}, shard_size=2)
    for file in (tmp_path / "shar").iterdir():
        bucket.pipe_file(f"sets/talks/{file.name}", file.read_bytes())
    manifest = Manifest(as_manifest("s3://sets/talks", transcripts=False), transcripts=False)
    assert list(manifest.ids()) == [f"talk-{second}" for second in range(4)]
    assert load_audio(manifest[3], 16000).shape == (16000,)


def test_the_copies_take_limited_room(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "ROOM", 200_000)
    for name in "abc":
        put(bucket, noise(1.0), f"talks/{name}.wav")  # 64,000 bytes each
        assert copies.fetched(f"s3://talks/{name}.wav").exists()
    copies.fetched("s3://talks/a.wav")
    put(bucket, noise(1.0), "talks/d.wav")
    copies.fetched("s3://talks/d.wav")
    there = {path.name for path in (tmp_path / "cache").rglob("*.wav")}
    assert there == {"a.wav", "c.wav", "d.wav"}


def test_a_long_m4a_is_decoded_once_and_sounds_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_media(tmp_path / "talk.m4a", noise(6.0))
    cuts = list(cuts_of(str(tmp_path / "talk.m4a"), "file", 5))
    from_the_start = [load_audio(cut, 16000) for cut in cuts]
    assert not (tmp_path / "cache").exists()
    opened = []
    monkeypatch.setattr("fewer.data.audio.LATE", 2.0)
    monkeypatch.setattr("fewer.data.copies.MediaFile", lambda path: opened.append(path) or MediaFile(path))
    for cut, samples in zip(cuts, from_the_start, strict=True):
        np.testing.assert_array_equal(load_audio(cut, 16000).numpy(), samples.numpy())
    assert len(opened) == 1


def test_a_remote_folder_cannot_name_files_elsewhere(bucket: Bucket, tmp_path: Path) -> None:
    bucket.pipe_file("sets/talks/a.jsonl", b"{}\n")
    bucket.store["/sets/talks/../../../../evil"] = bucket.store["/sets/talks/a.jsonl"]
    with pytest.raises(FewerError, match=r"s3://sets/talks lists '../../../../evil', which is not in it"):
        copies.fetched("s3://sets/talks")
    assert not bucket.fetched
    assert not list(tmp_path.rglob("evil"))
