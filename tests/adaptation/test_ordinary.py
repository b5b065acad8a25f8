"""Ordinary speech that is made on the spot."""

from pathlib import Path

import pytest

from fewer.adaptation import ordinary
from fewer.adaptation.ordinary import everyday, ordinary_speech
from fewer.data.manifest import Manifest

pytest.importorskip("espeakng_loader")


def test_as_many_sentences_are_spoken_as_there_is_time_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def recognise(manifest: Path) -> None:
        nonlocal now
        assert list(Manifest(manifest).texts()) == everyday()[:1]
        now += 1.0 if now else 3.0  # the first call loads what is used later

    monkeypatch.setattr(ordinary.time, "monotonic", lambda: now)
    found = ordinary_speech(tmp_path, recognise, work=24.0)
    assert found is not None
    assert list(Manifest(found).texts()) == everyday()[:8]
    assert ordinary_speech(tmp_path, recognise, work=12.0) is None
    whole = ordinary_speech(tmp_path, recognise, work=1000.0)
    assert whole is not None
    cuts = list(Manifest(whole))
    assert len(cuts) == len(everyday())
    assert 45 < sum(cut.duration for cut in cuts) < 90
    assert len({cut.supervisions[0].speaker for cut in cuts}) > 5


def test_the_same_seed_speaks_the_same(tmp_path: Path) -> None:
    first, second = (ordinary_speech(tmp_path / name, lambda manifest: None) for name in "ab")
    assert first is not None
    assert second is not None
    for one, other in zip(sorted(first.parent.glob("*.flac")), sorted(second.parent.glob("*.flac")), strict=True):
        assert one.read_bytes() == other.read_bytes()
