"""Switchboard: two sides of µ-law SPHERE, Mississippi State transcripts."""

import pytest
from lhotse.audio.backend import audio_backend
from lhotse.recipes import prepare_switchboard

from fewer.data.corpora.prepare import PrepareOptions, prepare
from fewer.errors import FewerError
from tests.data.corpora.builders import pitch, read_cuts, switchboard, texts, write_audio, write_lines

SIDE_A = "swb_ms98_transcriptions/20/2001/sw2001A-ms98-a-trans.text"


def test_words_sides_and_audio(tmp_path):
    switchboard(tmp_path)
    summary = prepare("switchboard", tmp_path, tmp_path / "out")[0]
    assert (summary.name, summary.utterances, summary.wordless) == ("train", 5, 2)
    assert texts(tmp_path / "out/train.jsonl") == {
        "sw02001-A_000098-000198": "hi um yeah i'd like to ab- them",
        "sw02001-A_000198-000298": "um-hum it'n yuppiedom",
        "sw02001-B_000050-000198": "-y uh-huh",
        "sw02005-A_000000-000100": "okay",
        "sw02005-B_000100-000200": "right",
    }
    cuts = read_cuts(tmp_path / "out/train.jsonl")
    assert [round(pitch(cut), -1) for cut in cuts] == [300, 500, 1000, 700, 900]
    assert [cut.supervisions[0].speaker for cut in cuts] == [*["sw02001-A"] * 2, "sw02001-B", "sw02005-A", "sw02005-B"]
    assert [cut.channel for cut in cuts] == [0, 0, 1, 0, 1]
    assert {cut.sampling_rate for cut in cuts} == {8000}


def test_agrees_with_lhotse_on_the_segments(tmp_path):
    switchboard(tmp_path)
    prepare("switchboard", tmp_path, tmp_path / "out")
    with audio_backend("LibsndfileBackend"):
        theirs = prepare_switchboard(tmp_path, tmp_path / "swb_ms98_transcriptions", absolute_paths=True)
    wordy = [s for s in theirs["supervisions"] if s.id != "sw2001B-ms98-a-0002"]
    expected = {(s.recording_id, s.channel, s.start, s.duration) for s in wordy}
    cuts = read_cuts(tmp_path / "out/train.jsonl")
    assert {(cut.recording.id, cut.channel, cut.start, cut.duration) for cut in cuts} == expected


def test_transcripts_elsewhere(tmp_path):
    switchboard(tmp_path / "all")
    discs = tmp_path / "discs"
    discs.mkdir()
    for disc in ("swb1_d1", "swb1_d2"):
        (discs / disc).symlink_to(tmp_path / "all" / disc)
    with pytest.raises(FewerError, match=r"no Mississippi State transcripts .* name its folder by --transcripts"):
        prepare("switchboard", discs, tmp_path / "out")
    options = PrepareOptions(transcripts=tmp_path / "all/swb_ms98_transcriptions")
    assert prepare("switchboard", discs, tmp_path / "out", options)[0].utterances == 5


def test_compressed_audio_and_its_conversion(tmp_path):
    switchboard(tmp_path)
    sphere = tmp_path / "swb1_d2/data/sw02005.sph"
    data = sphere.read_bytes().replace(b"-s4 ulaw", b"-s27 ulaw,embedded-shorten-v2.00")
    sphere.write_bytes(data)
    with pytest.raises(
        FewerError, match=r"sw02005.sph: is compressed SPHERE audio \(embedded-shorten-v2.00\); .*sph2pipe"
    ):
        prepare("switchboard", tmp_path, tmp_path / "out")
    write_audio(sphere.with_suffix(".wav"), [(1, 700), (1, 0)], [(1, 0), (1, 900)], rate=8000)
    prepare("switchboard", tmp_path, tmp_path / "out")
    cuts = read_cuts(tmp_path / "out/train.jsonl")
    assert [round(pitch(cut), -1) for cut in cuts[3:]] == [700, 900]
    assert cuts[3].recording.sources[0].source.endswith("sw02005.wav")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda c: (c / "swb1_d1/data/sw02001.sph").unlink(),
            "sw2001A-ms98-a-trans.text: there is no audio sw02001.sph",
        ),
        (lambda c: (c / SIDE_A).unlink(), "sw02001.sph: side A has no transcript"),
        (
            lambda c: write_lines(c / SIDE_A, "sw2001A-ms98-a-0001 0.0 x hi"),
            "line 1: expected `segment start end words`",
        ),
        (
            lambda c: write_lines(c / SIDE_A, "sw2001A-ms98-a-0001 0.0 1.0"),
            "line 1: expected `segment start end words`",
        ),
        (lambda c: write_lines(c / SIDE_A, "sw2001B-ms98-a-0001 0 1 hi"), "line 1: segment .* is not of this side"),
        (lambda c: write_lines(c / SIDE_A, "sw2001A-ms98-a-0001 1.0 0.5 hi"), "line 1: .* has no length"),
        (
            lambda c: write_lines(c / SIDE_A, "sw2001A-ms98-a-0001 0 nan hi"),
            "line 1: expected `segment start end words`",
        ),
        (lambda c: write_lines(c / SIDE_A, "sw2001A-ms98-a-0001 900.0 901.0 hi"), "its recording ends at 3.480 s"),
        (
            lambda c: write_audio(c / "swb1_d1/data/sw02001.sph", [(4, 300)], rate=8000),
            "sw2001B-ms98-a-trans.text, line 1: .* needs channel 2 of a file that has 1",
        ),
        (
            lambda c: write_audio(c / "swb1_d2/data/sw02005.sph", [(2, 300)], [(2, 300)], rate=16000),
            "sw02005.sph: is sampled at 16000 Hz, but .*sw02001.sph of the same set at 8000 Hz",
        ),
        (
            lambda c: write_audio(c / "swb1_d3/data/sw02001.sph", [(1, 300)], [(1, 300)], rate=8000),
            "recording sw02001 is there twice",
        ),
    ],
)
def test_bad_input(tmp_path, damage, message):
    switchboard(tmp_path)
    damage(tmp_path)
    with pytest.raises(FewerError, match=message):
        prepare("switchboard", tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()
